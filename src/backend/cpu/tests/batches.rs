//! A sequence's rows do not depend on who else is in the batch.

use super::support::*;
use crate::arith::{KvType, WeightFormat};
use crate::backend::Backend;
use crate::backend::cpu::CpuBackend;
use crate::types::PageId;

/// Three sequences, each step another mixture of prefill chunks, decodes and verified rows.
#[test]
fn rows_do_not_depend_on_the_batch() {
    for architecture in ARCHITECTURES {
        let model = model(architecture, WeightFormat::Q4_1);
        let mut backend = CpuBackend::new(&model, &options()).unwrap();
        let prompts: Vec<_> = (0..3).map(|seed| tokens(&model, 10 + seed, LENGTH)).collect();
        let expected: Vec<_> = prompts.iter().map(|tokens| expected(&model, KvType::F32, tokens)).collect();
        let mut sequences: Vec<_> = (0..3).map(|index| Sequence::new(&backend, 4 * index, index)).collect();
        // (sequence, tokens, prefill) of each entry of each step.
        let steps: [&[(usize, usize, bool)]; 8] = [
            &[(0, 40, true)],
            &[(0, 1, false), (1, 13, true)],
            &[(1, 20, true), (0, 4, false), (2, 1, true)],
            &[(2, 64, true), (0, 16, false), (1, 1, false)],
            &[(0, 1, false), (1, 16, false), (2, 1, false)],
            &[(2, 9, false)],
            &[(2, 2, false), (1, 3, false)],
            &[(0, 2, false), (1, 2, false), (2, 2, false)],
        ];
        for (step, entries) in steps.iter().enumerate() {
            let batch = entries.iter().map(|&(index, count, prefill)| {
                let sequence = &sequences[index];
                sequence.entry(&prompts[index][sequence.position..][..count], prefill)
            });
            let output = forward(&mut backend, batch.collect());
            let mut row = 0;
            for &(index, count, prefill) in *entries {
                for expected in &expected[index].rows[sequences[index].position..][..count] {
                    assert!(same(&output, row, expected), "{architecture:?}, step {step}, sequence {index}, row {row}");
                    row += 1;
                }
                sequences[index].advance(count, prefill);
            }
        }
    }
}

/// Two sequences read the same committed pages; one of them goes on in a copy of the page that was half full.
#[test]
fn committed_pages_are_shared_and_a_copied_page_is_a_fork() {
    let model = model(crate::model::Architecture::Llama, WeightFormat::Q4_1);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    let prompt = tokens(&model, 20, 40);
    let mut first = Sequence::new(&backend, 0, 0);
    first.prefill(&mut backend, &prompt, 40);
    let mut second = first.clone();
    second.pages[1] = PageId(9);
    backend.copy_page(first.pages[1], PageId(9)).unwrap();
    let tails = [21, 22].map(|seed| tokens(&model, seed, 10));
    let entries = vec![first.entry(&tails[0], false), second.entry(&tails[1], false)];
    let output = forward(&mut backend, entries);
    for (index, tail) in tails.iter().enumerate() {
        let whole: Vec<_> = prompt.iter().chain(tail).copied().collect();
        for (row, expected) in expected(&model, KvType::F32, &whole).rows[40..].iter().enumerate() {
            assert!(same(&output, 10 * index + row, expected), "fork {index}, row {row}");
        }
    }
}

#[test]
fn an_empty_batch_gives_no_rows() {
    let model = model(crate::model::Architecture::Lfm2, WeightFormat::Q8_0);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    let output = forward(&mut backend, Vec::new());
    assert!(output.rows.is_empty() && output.inputs.is_empty() && output.statistics.is_empty());
}
