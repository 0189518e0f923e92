//! Convolution state: verified drafts, shrinking queries, snapshots.

use super::support::*;
use crate::arith::{KvType, WeightFormat};
use crate::backend::cpu::CpuBackend;
use crate::backend::{Backend, BatchEntry, SnapshotId, StateAccess};
use crate::model::Architecture;
use crate::types::{Position, StateSlot, TokenId};

/// (tokens of the step, accepted of them): every kind of shrinking and growing, legal large columns included.
const STEPS: [(usize, usize); 9] = [(16, 12), (16, 14), (4, 3), (9, 5), (16, 10), (2, 1), (1, 1), (16, 16), (1, 1)];

/// Runs a prompt and then [`STEPS`], drafts past the accepted ones being wrong. `change` may change what a step asks
/// for. Returns the steps whose accepted rows differ from plain decoding.
fn wrong_steps(architecture: Architecture, change: impl Fn(&mut BatchEntry)) -> Vec<usize> {
    let model = model(architecture, WeightFormat::Q4_1);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    let tokens = tokens(&model, 30, LENGTH);
    let expected = expected(&model, KvType::F32, &tokens);
    let mut sequence = Sequence::new(&backend, 0, 2);
    sequence.prefill(&mut backend, &tokens[..20], 20);
    let mut wrong_steps = Vec::new();
    for (step, (count, accepted)) in STEPS.into_iter().enumerate() {
        let mut drafted = tokens[sequence.position..][..count].to_vec();
        for wrong in &mut drafted[accepted..] {
            *wrong = TokenId((wrong.0 + 1) % model.config.vocabulary_size as u32);
        }
        let mut entry = sequence.entry(&drafted, false);
        change(&mut entry);
        let output = forward(&mut backend, vec![entry]);
        let expected = &expected.rows[sequence.position..][..accepted];
        if !expected.iter().enumerate().all(|(row, expected)| same(&output, row, expected)) {
            wrong_steps.push(step);
        }
        sequence.advance(accepted, false);
    }
    wrong_steps
}

/// Another column, by the right one and the number of tokens of the step.
fn column(entry: &mut BatchEntry, of: impl Fn(usize, usize) -> usize) {
    let count = entry.tokens.len();
    entry.state = entry.state.map(|access| StateAccess { column: of(access.column, count), ..access });
}

#[test]
fn verified_rows_are_plain_decoding_whatever_was_accepted() {
    for architecture in ARCHITECTURES {
        let wrong = wrong_steps(architecture, |_| {});
        assert!(wrong.is_empty(), "{architecture:?}: steps {wrong:?}");
    }
}

/// The faults of the field: the test above would see each.
#[test]
fn a_wrong_column_is_seen() {
    let first = |change: &dyn Fn(&mut BatchEntry)| wrong_steps(Architecture::Lfm2, change).first().copied();
    let clamped_to_query = first(&|entry| column(entry, |column, count| column.min(count - 1)));
    assert_eq!(clamped_to_query, Some(2), "the first step that is shorter than what was accepted before");
    let clamped_to_width = first(&|entry| column(entry, |column, _| column.min(2)));
    assert_eq!(clamped_to_width, Some(1));
    let always_0 = first(&|entry| column(entry, |_, _| 0));
    assert_eq!(always_0, Some(1));
}

#[test]
fn a_convolution_that_does_not_run_leaves_its_state_as_it_was() {
    let model = model(Architecture::Lfm2, WeightFormat::Q4_1);
    let tokens = tokens(&model, 31, LENGTH);
    let slot = StateSlot(2);
    let rolled = |convolves: bool| {
        let mut backend = CpuBackend::new(&model, &options()).unwrap();
        let mut sequence = Sequence::new(&backend, 0, slot.0);
        sequence.prefill(&mut backend, &tokens[..20], 20);
        let history = |backend: &CpuBackend| bits(backend.state.history(0, StateAccess { slot, column: 0 }));
        let before = history(&backend);
        forward(&mut backend, vec![BatchEntry { convolves, ..sequence.entry(&tokens[20..23], false) }]);
        history(&backend) != before
    };
    assert_eq!((rolled(true), rolled(false)), (true, false));
}

#[test]
fn a_convolution_that_is_refused_is_seen() {
    let short = |entry: &BatchEntry| entry.state.is_some_and(|access| access.column >= entry.tokens.len());
    let wrong = wrong_steps(Architecture::Lfm2, |entry| entry.convolves = !short(entry));
    assert_eq!(wrong[..2], [2, 3], "the first step that is shorter than what was accepted before, and the next");
}

/// A snapshot inside a prefill chunk brings back the state that stood there, in another slot, and survives its source.
#[test]
fn snapshots_inside_a_chunk_resume_where_they_were_taken() {
    let model = model(Architecture::Lfm2, WeightFormat::Q4_1);
    let tokens = tokens(&model, 40, LENGTH);
    let expected = expected(&model, KvType::F32, &tokens);
    for boundary in [1, 2, 32, 64, LENGTH] {
        let mut backend = CpuBackend::new(&model, &options()).unwrap();
        let source = Sequence::new(&backend, 0, 0);
        let mut entry = source.entry(&tokens, true);
        entry.snapshots = vec![(Position(boundary as u32), SnapshotId(3))];
        forward(&mut backend, vec![entry]);
        // The source's slot is overwritten by another sequence.
        Sequence::new(&backend, 8, 0).prefill(&mut backend, &tokens[..5], 5);
        backend.restore_state(SnapshotId(3), StateSlot(1)).unwrap();
        let mut resumed = Sequence { slot: Some(StateSlot(1)), position: boundary, ..source };
        let output = resumed.prefill(&mut backend, &tokens[boundary..], LENGTH);
        assert_rows(&output, &expected.rows[boundary..], &format!("resumed at {boundary}"));
    }
}

/// A saved state is the history after the accepted tokens, not after the whole step.
#[test]
fn a_saved_state_forks_a_sequence() {
    let model = model(Architecture::Lfm2, WeightFormat::Q4_1);
    let tokens = tokens(&model, 50, 60);
    let expected = expected(&model, KvType::F32, &tokens);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    let mut sequence = Sequence::new(&backend, 0, 0);
    sequence.prefill(&mut backend, &tokens[..10], 10);
    forward(&mut backend, vec![sequence.entry(&tokens[10..20], false)]);
    sequence.advance(4, false);
    let access = StateAccess { slot: StateSlot(0), column: sequence.column };
    backend.save_state(access, SnapshotId(0)).unwrap();
    backend.restore_state(SnapshotId(0), StateSlot(3)).unwrap();
    backend.free_snapshot(SnapshotId(0)).unwrap();
    let mut fork = Sequence { slot: Some(StateSlot(3)), column: 0, ..sequence };
    let output = fork.prefill(&mut backend, &tokens[14..], 11);
    assert_rows(&output, &expected.rows[14..], "the fork");
}

/// A slot needs no clearing: a sequence that begins at position 0 reads zeros.
#[test]
fn a_used_slot_is_as_good_as_a_new_one() {
    let model = model(Architecture::Lfm2, WeightFormat::Q4_1);
    let tokens = tokens(&model, 60, 12);
    let expected = expected(&model, KvType::F32, &tokens);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    for _ in 0..2 {
        let output = Sequence::new(&backend, 0, 0).prefill(&mut backend, &tokens, 5);
        assert_rows(&output, &expected.rows, "second use");
    }
}

#[test]
fn a_model_without_state_says_so() {
    let model = model(Architecture::Llama, WeightFormat::Q4_1);
    let mut backend = CpuBackend::new(&model, &options()).unwrap();
    assert_eq!(backend.capacity().state_slots, 0);
    let error = backend.free_snapshot(SnapshotId(0)).unwrap_err();
    assert!(error.to_string().contains("no recurrent layers"), "{error}");
}
