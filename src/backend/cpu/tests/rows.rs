//! Rows against the definition.

use super::support::*;
use crate::arith::{KvType, WeightFormat, scalar};
use crate::backend::BackendOptions;
use crate::backend::cpu::CpuBackend;

/// Every thread count, instruction set and chunking, against one plain forward pass.
#[test]
fn rows_are_the_definitions_on_any_threads_kernels_and_chunks() {
    for architecture in ARCHITECTURES {
        for (format, kv_type) in [(WeightFormat::Q4_1, KvType::F16), (WeightFormat::F32, KvType::F32)] {
            let model = model(architecture, format);
            let tokens = tokens(&model, 1, 70);
            let expected = expected(&model, kv_type, &tokens);
            for isa in isas() {
                for threads in 1..=3 {
                    let options = BackendOptions { threads, isa: Some(isa), kv_type, ..options() };
                    let mut backend = CpuBackend::new(&model, &options).unwrap();
                    for chunk in [1, 7, 45, 70] {
                        let what =
                            format!("{architecture:?} {format} {kv_type:?} {isa} {threads} threads, chunks of {chunk}");
                        let output = Sequence::new(&backend, 2, 1).prefill(&mut backend, &tokens, chunk);
                        assert_rows(&output, &expected.rows, &what);
                        assert_eq!(output.inputs, expected.inputs, "{what}");
                    }
                }
            }
        }
    }
}

/// Every weight format there is, in one configuration each.
#[test]
fn every_weight_format_gives_the_definitions_rows() {
    for architecture in ARCHITECTURES {
        for format in WeightFormat::ALL {
            let model = model(architecture, format);
            let tokens = tokens(&model, 2, 40);
            let expected = expected(&model, KvType::F32, &tokens);
            let mut backend = CpuBackend::new(&model, &options()).unwrap();
            let output = Sequence::new(&backend, 0, 0).prefill(&mut backend, &tokens, 33);
            assert_rows(&output, &expected.rows, &format!("{architecture:?} {format}"));
        }
    }
}

/// What a step says about its rows is what the rows say.
#[test]
fn inputs_and_statistics_belong_to_their_rows() {
    for architecture in ARCHITECTURES {
        let model = model(architecture, WeightFormat::Q8_0);
        let mut backend = CpuBackend::new(&model, &options()).unwrap();
        let tokens = tokens(&model, 3, 9);
        let output = Sequence::new(&backend, 0, 0).prefill(&mut backend, &tokens, 9);
        for (index, (input, statistics)) in output.inputs.iter().zip(&output.statistics).enumerate() {
            let row = output.row(index).unwrap();
            let mut again = vec![0.0; row.len()];
            scalar::matvec(&model.weights.head.view(), input, &mut again);
            assert_eq!(bits(&again), bits(row));
            assert_eq!(*statistics, scalar::row_statistics(row));
        }
    }
}

/// Only the wanted rows come out, and they are the same rows.
#[test]
fn the_wanted_rows_are_the_last_ones_of_each_entry() {
    let model = model(crate::model::Architecture::Llama, WeightFormat::Q4_0);
    let tokens = tokens(&model, 4, 20);
    let expected = expected(&model, KvType::F32, &tokens);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    for wanted_from in [0, 13, 19, 20] {
        let mut entry = Sequence::new(&backend, 0, 0).entry(&tokens, true);
        entry.logits_from = wanted_from;
        let output = forward(&mut backend, vec![entry]);
        assert_rows(&output, &expected.rows[wanted_from..], &format!("rows from {wanted_from}"));
        assert_eq!(output.inputs.len(), 20 - wanted_from);
    }
}
