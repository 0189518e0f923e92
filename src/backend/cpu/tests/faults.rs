//! What goes wrong is seen: non-finite values reach the rows, a panic is an error.

use super::support::*;
use crate::arith::WeightFormat;
use crate::backend::cpu::CpuBackend;
use crate::backend::cpu::weights::PackedOperator;
use crate::backend::{Backend, BackendError, BackendOptions, StepBatch, StepOutput};
use crate::model::Architecture;

/// A non-finite weight in any norm of any layer makes the whole row invalid.
#[test]
fn non_finite_values_reach_every_logit() {
    for architecture in ARCHITECTURES {
        for format in [WeightFormat::Q4_1, WeightFormat::F32] {
            let model = model(architecture, format);
            for layer in 0..model.config.layers.len() {
                for poison in [f32::NAN, f32::INFINITY] {
                    for in_feed_forward in [false, true] {
                        let mut backend = CpuBackend::new(&model, &options()).unwrap();
                        let packed = &mut backend.weights.layers[layer];
                        let norm =
                            if in_feed_forward { &mut packed.feed_forward_norm } else { &mut packed.operator_norm };
                        norm[3] = poison;
                        let tokens = tokens(&model, 70, 3);
                        let output = Sequence::new(&backend, 0, 0).prefill(&mut backend, &tokens, 3);
                        for statistics in &output.statistics {
                            let what = format!("{architecture:?} {format}, {poison} in layer {layer}");
                            assert_eq!(statistics.nan_count as usize, model.config.vocabulary_size, "{what}");
                        }
                    }
                }
            }
        }
    }
}

/// One poisoned sequence leaves its neighbours' bits alone.
#[test]
fn a_poisoned_page_harms_its_own_sequence_only() {
    let model = model(Architecture::Llama, WeightFormat::Q4_1);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    let tokens = tokens(&model, 71, 8);
    let mut clean = Sequence::new(&backend, 0, 0);
    let mut poisoned = Sequence::new(&backend, 4, 1);
    clean.prefill(&mut backend, &tokens, 8);
    poisoned.prefill(&mut backend, &tokens, 8);
    let next = &tokens[..1];
    let alone = forward(&mut backend, vec![clean.entry(next, false)]);
    let key = vec![f32::NAN; model.config.head_size];
    let writer = backend.cache.writer(0);
    // SAFETY: the only call on this writer.
    unsafe { writer.page(poisoned.pages[0], 0) }.store(2, &key, &key);
    drop(writer);
    let output = forward(&mut backend, vec![poisoned.entry(next, false), clean.entry(next, false)]);
    assert_eq!(output.statistics[0].nan_count as usize, model.config.vocabulary_size);
    assert!(same(&output, 1, alone.row(0).unwrap()));
}

/// What a page held before is never read, not even a NaN.
#[test]
fn the_rest_of_a_used_page_is_not_read() {
    let model = model(Architecture::Llama, WeightFormat::Q4_1);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    let tokens = tokens(&model, 72, 5);
    let before = Sequence::new(&backend, 0, 0).prefill(&mut backend, &tokens, 5);
    let page = Sequence::new(&backend, 0, 0).pages[0];
    let key = vec![f32::NAN; model.config.head_size];
    let kv_heads = model.config.kv_heads;
    let writer = backend.cache.writer(0);
    for head in 0..kv_heads {
        // SAFETY: each head of the page is named once.
        let mut page = unsafe { writer.page(page, head) };
        (5..32).for_each(|slot| page.store(slot, &key, &key));
    }
    drop(writer);
    let after = Sequence::new(&backend, 0, 0).prefill(&mut backend, &tokens, 5);
    assert_eq!(bits(&before.rows), bits(&after.rows));
}

#[test]
fn a_panic_in_a_region_is_an_error_and_ends_the_backend() {
    let model = model(Architecture::Llama, WeightFormat::Q4_1);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    let PackedOperator::Attention(attention) = &mut backend.weights.layers[0].operator else { unreachable!() };
    attention.query_norm = Some(vec![1.0; 3]);
    let tokens = tokens(&model, 73, 4);
    let batch = StepBatch { entries: vec![Sequence::new(&backend, 0, 0).entry(&tokens, true)] };
    for _ in 0..2 {
        let error = backend.forward(&batch, &mut StepOutput::default()).unwrap_err();
        assert!(matches!(&error, BackendError::Panicked(message) if message.contains("rows of one length")), "{error}");
    }
}

#[test]
fn options_that_cannot_be_met_are_errors() {
    let model = model(Architecture::Llama, WeightFormat::Q4_1);
    let refused = |options| CpuBackend::new(&model, &options).err().unwrap().to_string();
    assert!(refused(BackendOptions { threads: 0, ..options() }).contains("at least 1"));
    assert!(refused(BackendOptions { pages: usize::MAX / 2, ..options() }).contains("do not fit in memory"));
}
