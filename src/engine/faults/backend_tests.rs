//! Faults of the recurrent state against a plain account of what every column holds: which rows go wrong, what heals, what
//! does not.

use super::*;
use crate::arith::{KvType, scalar};
use crate::backend::{BackendKind, BackendOptions, open};
use crate::model::synthetic::SyntheticModel;
use crate::model::{LayerKind, Model};
use crate::types::{Position, TokenId};

/// Width of the convolution.
const WIDTH: usize = 4;
const HISTORY: usize = WIDTH - 1;
/// Most drafts of a step.
const DRAFTS: usize = 15;
const PROMPT: usize = 10;

/// (tokens of the step, accepted of them).
type Steps = [(usize, usize)];

/// Shrinking queries: right after many were accepted, and down to one token.
const SHRINKING: &Steps = &[(16, 12), (16, 14), (4, 3), (9, 5), (16, 10), (2, 1), (1, 1), (16, 8)];
/// A step without drafts after one that accepted many.
const DRAFTLESS: &Steps = &[(16, 12), (1, 1), (1, 1), (16, 8)];

/// What a column holds: the input of a position, by whether its token was committed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Input {
    position: usize,
    is_committed: bool,
}

/// How many accepted rows of each step are wrong, by an account of the columns.
fn predicted(fault: Option<Fault>, steps: &Steps) -> Vec<usize> {
    let committed = |position| Input { position, is_committed: true };
    let mut columns: Vec<Option<Input>> = vec![None; HISTORY + DRAFTS];
    for (column, input) in columns.iter_mut().zip(PROMPT - HISTORY..PROMPT) {
        *column = Some(committed(input));
    }
    let (mut position, mut asked, mut asked_before) = (PROMPT, 0, 0);
    let mut wrong = Vec::new();
    for &(count, accepted) in steps {
        let column = match fault {
            Some(Fault::STATE_CLAMP_TO_QUERY) => asked.min(count - 1),
            Some(Fault::STATE_CLAMP_TO_WIDTH) => asked.min(2),
            Some(Fault::STATE_SLOT_ZERO) if count == 1 => 0,
            Some(Fault::STATE_STALE_COUNT) => asked_before,
            Some(Fault::STATE_ROLLED_SHORT) if asked > 0 => asked - 1,
            Some(Fault::STATE_COUNT_ZERO) if asked == 0 => DRAFTS,
            _ => asked,
        };
        if fault == Some(Fault::STATE_BOUND_BY_QUERY) && asked + 1 > count {
            // Zeros, and the columns stay as they are.
            wrong.push(accepted);
        } else {
            let own =
                (0..count).map(|index| Some(Input { position: position + index, is_committed: index < accepted }));
            let window: Vec<Option<Input>> = columns[column..column + HISTORY].iter().copied().chain(own).collect();
            let is_wrong = |row: &usize| {
                let right = (position + row - HISTORY..position + row).map(|position| Some(committed(position)));
                !window[*row..row + HISTORY].iter().copied().eq(right)
            };
            wrong.push((0..accepted).filter(is_wrong).count());
            columns[..window.len() - 1].copy_from_slice(&window[1..]);
        }
        position += accepted;
        asked_before = asked;
        asked = accepted - 1;
    }
    wrong
}

/// The same, by running them. The convolution comes last: an attention layer after it would keep what was wrong.
fn observed(fault: Option<Fault>, steps: &Steps) -> Vec<usize> {
    let folder = tempfile::tempdir().unwrap();
    let layers = vec![LayerKind::Attention, LayerKind::ShortConvolution];
    let described = SyntheticModel { layers, convolution_width: WIDTH, ..SyntheticModel::lfm2(5) };
    described.write_gguf(&folder.path().join("model.gguf")).unwrap();
    let model = Model::load(&folder.path().join("model.gguf")).unwrap();
    let length = PROMPT + DRAFTS + 1 + steps.iter().map(|(_, accepted)| accepted).sum::<usize>();
    let word = |index: usize| scalar::philox(3, [index as u32, 0, 0, 0])[0] % model.config.vocabulary_size as u32;
    let tokens: Vec<TokenId> = (0..length).map(|index| TokenId(word(index))).collect();
    let right = rows(None, &model, &tokens, &[(1, 1); 200][..length - PROMPT]);
    let found = rows(fault, &model, &tokens, steps);
    let mut position = 0;
    let of_step = |&(_, accepted): &(usize, usize)| {
        let places = position..position + accepted;
        position += accepted;
        places.filter(|place| found[*place] != right[*place]).count()
    };
    steps.iter().map(of_step).collect()
}

/// The bits of the rows of all accepted tokens after the prompt.
fn rows(fault: Option<Fault>, model: &Model, tokens: &[TokenId], steps: &Steps) -> Vec<Vec<u32>> {
    let options = BackendOptions {
        threads: 1,
        isa: None,
        kv_type: KvType::F32,
        pages: 8,
        state_slots: 1,
        snapshots: 1,
        drafts: DRAFTS,
        sketches: false,
    };
    let backend = open(BackendKind::Cpu, model, &options).unwrap();
    let mut backend: Box<dyn Backend> = match fault {
        Some(fault) => Box::new(FaultyBackend::new(fault, backend, Switch::new(true.into()))),
        None => backend,
    };
    let mut output = StepOutput::default();
    let mut forward = |tokens: Vec<TokenId>, position: usize, column: Option<usize>| {
        let entry = BatchEntry {
            tokens,
            first_position: Position(position as u32),
            pages: (0..8).map(PageId).collect(),
            state: Some(StateAccess { slot: StateSlot(0), column: column.unwrap_or(0) }),
            convolves: true,
            logits_from: 0,
            prefill: column.is_none(),
            snapshots: Vec::new(),
        };
        backend.forward(&StepBatch { entries: vec![entry] }, &mut output).unwrap();
        output
            .rows
            .chunks(model.config.vocabulary_size)
            .map(|row| row.iter().map(|value| value.to_bits()).collect())
            .collect()
    };
    let _: Vec<Vec<u32>> = forward(tokens[..PROMPT].to_vec(), 0, None);
    let (mut position, mut column) = (PROMPT, 0);
    let mut all = Vec::new();
    for &(count, accepted) in steps {
        let mut drafted = tokens[position..position + count].to_vec();
        let other = |token: &mut TokenId| token.0 = (token.0 + 1) % model.config.vocabulary_size as u32;
        drafted[accepted..].iter_mut().for_each(other);
        let rows: Vec<Vec<u32>> = forward(drafted, position, Some(column));
        all.extend(rows.into_iter().take(accepted));
        position += accepted;
        column = accepted - 1;
    }
    all
}

/// The faults that are a wrong column, or none read at all.
const FAULTS: [Fault; 7] = [
    Fault::STATE_BOUND_BY_QUERY,
    Fault::STATE_CLAMP_TO_QUERY,
    Fault::STATE_CLAMP_TO_WIDTH,
    Fault::STATE_SLOT_ZERO,
    Fault::STATE_STALE_COUNT,
    Fault::STATE_ROLLED_SHORT,
    Fault::STATE_COUNT_ZERO,
];

#[test]
fn each_fault_spoils_the_rows_that_it_should() {
    let of = |fault, steps| {
        let wrong = observed(Some(fault), steps);
        assert_eq!(wrong, predicted(Some(fault), steps), "{fault}");
        wrong
    };
    for steps in [SHRINKING, DRAFTLESS] {
        assert_eq!(observed(None, steps), vec![0; steps.len()], "a query may shrink");
    }
    // The shrunken step; then the first rows of the next, for its window is stale; then it has healed.
    assert_eq!(of(Fault::STATE_BOUND_BY_QUERY, SHRINKING)[..5], [0, 0, 3, HISTORY, 0]);
    // Wrong in the step alone.
    assert_eq!(of(Fault::STATE_CLAMP_TO_QUERY, SHRINKING)[..5], [0, 0, 3, 0, 0]);
    // Whenever more was accepted than the convolution is wide, shrunken or not.
    assert_eq!(of(Fault::STATE_CLAMP_TO_WIDTH, SHRINKING)[..5], [0, HISTORY, 3, 0, HISTORY]);
    // As long as the wrong history takes to leave the window.
    assert_eq!(of(Fault::STATE_SLOT_ZERO, DRAFTLESS), [0, 1, 1, 1]);
    assert_eq!(of(Fault::STATE_SLOT_ZERO, SHRINKING), [0; 8]);
    assert_eq!(of(Fault::STATE_ROLLED_SHORT, SHRINKING)[..3], [0, HISTORY, 3]);
    // Where a single token was accepted, and after a prompt.
    assert_eq!(of(Fault::STATE_COUNT_ZERO, SHRINKING)[..2], [HISTORY, 0]);
    assert_eq!(of(Fault::STATE_STALE_COUNT, SHRINKING)[..3], [0, HISTORY, 3]);
}

#[test]
fn any_steps_go_as_the_columns_say() {
    for seed in 0..6 {
        let mut words = (0..).map(|index| scalar::philox(100 + seed, [index, 0, 0, 0])[0] as usize);
        let mut below = |bound: usize| words.next().unwrap() % bound;
        let steps: Vec<(usize, usize)> = (0..8)
            .map(|_| {
                let count = 1 + below(DRAFTS + 1);
                (count, 1 + below(count))
            })
            .collect();
        for fault in [None].into_iter().chain(FAULTS.map(Some)) {
            assert_eq!(observed(fault, &steps), predicted(fault, &steps), "{fault:?}, steps {steps:?}");
        }
    }
}
