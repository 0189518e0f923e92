//! A small model that drafts for a larger one with the same tokenizer.
//!
//! **State.** What the draft model has read of a sequence is always a prefix of its committed tokens. A proposal first
//! reads the tokens that were committed since the last one; with its last draft never read and a bonus token on top, that
//! is at least two after a step that accepted everything. The state there is kept aside, and only then are drafts read,
//! one after the other. Keys and values of drafts that were not accepted are overwritten by position; recurrent state is
//! put back from what was kept aside. So nothing of a rejected draft is left.
//!
//! **Drafts.** For a greedy request each draft is the argmax of the draft model's row. For a sampled one it is drawn at the
//! request's temperature: with the request's own noise under the coupled rule, so that like rows draw like tokens; else with
//! noise of its own from the [`KEPT`] likeliest tokens, whose probabilities are then q.

use std::collections::BTreeMap;

use super::{DraftContext, Drafter};
use crate::arith::scalar;
use crate::backend::{Backend, BackendError, BatchEntry, SnapshotId, StateAccess, StepBatch, StepOutput};
use crate::engine::Owner;
use crate::engine::sampler::{Draft, best_tokens};
use crate::engine::state::{Holding, State, pages_for};
use crate::types::{Position, SequenceId, TokenId};

/// Tokens of a draft model's row that a draft with probabilities is drawn from.
pub const KEPT: usize = 64;
/// Tokens that are read per step of the draft model while it catches up.
const CHUNK: usize = 256;

/// Why a model cannot draft.
#[derive(Debug, thiserror::Error)]
pub enum DraftModelError {
    /// Its rows have another number of values.
    #[error("the draft model's vocabulary has {found} tokens, and the model's has {expected}: they must be the same")]
    Vocabulary {
        /// Tokens of the model.
        expected: usize,
        /// Tokens of the draft model.
        found: usize,
    },
}

/// Drafts with a model of its own.
pub struct ModelDrafter {
    backend: Box<dyn Backend>,
    state: State,
    sequences: BTreeMap<SequenceId, DraftSequence>,
    count: usize,
    context_length: usize,
    output: StepOutput,
}

/// What the draft model holds of one sequence.
struct DraftSequence {
    holding: Holding,
    /// Committed tokens that it has read.
    read: usize,
    /// Drafts that it has read after them.
    ahead: Vec<TokenId>,
}

impl DraftSequence {
    /// Counts the drafts that were accepted as read, but for a last token, whose row decides the next draft. With recurrent
    /// state none can be: it was put back before them.
    fn take_accepted(&mut self, tokens: &[TokenId]) {
        let committed = &tokens[self.read..];
        let accepted = self.ahead.iter().zip(committed).take_while(|(draft, token)| draft == token).count();
        if self.holding.slot.is_none() {
            self.read += accepted.min(committed.len().saturating_sub(1));
        }
        self.ahead.clear();
    }
}

impl ModelDrafter {
    /// A drafter that proposes `count` tokens with a draft model that `backend` holds, for a model with `vocabulary`
    /// tokens; the draft model's context holds `context_length`, and past its end nothing is proposed. The backend needs one
    /// state slot and one snapshot per sequence that runs, and pages for `count` positions more than each can have.
    ///
    /// # Errors
    /// If the two models' vocabularies differ.
    pub fn new(
        backend: Box<dyn Backend>,
        vocabulary: usize,
        context_length: usize,
        count: usize,
    ) -> Result<Self, DraftModelError> {
        let capacity = backend.capacity();
        if capacity.vocabulary_size != vocabulary {
            return Err(DraftModelError::Vocabulary { expected: vocabulary, found: capacity.vocabulary_size });
        }
        let state = State::new(&capacity, false);
        let (sequences, output) = (BTreeMap::new(), StepOutput::default());
        Ok(Self { backend, state, sequences, count, context_length, output })
    }

    /// Makes room for the sequences that are new; those that find none are not drafted for.
    fn admit(&mut self, contexts: &[DraftContext<'_>]) {
        for context in contexts {
            if self.sequences.contains_key(&context.sequence) {
                continue;
            }
            let request = context.sequence.request;
            // Drafts may be read past the end that the sequence can have.
            if let Some(holding) =
                self.state.take(&[], context.positions + self.count, &Owner::Request(request), request)
            {
                self.sequences.insert(context.sequence, DraftSequence { holding, read: 0, ahead: Vec::new() });
            }
        }
    }

    /// Reads what was committed since, and keeps the state there; one row per context, the one that decides its first
    /// draft.
    fn catch_up(&mut self, contexts: &[&DraftContext<'_>]) -> Result<Vec<Vec<f32>>, BackendError> {
        let mut rows = vec![Vec::new(); contexts.len()];
        for context in contexts {
            let Some(sequence) = self.sequences.get_mut(&context.sequence) else { continue };
            sequence.take_accepted(context.tokens);
            if let (Some(slot), true) = (sequence.holding.slot, sequence.read > 0) {
                self.backend.restore_state(SnapshotId(slot.0), slot)?;
            }
        }
        loop {
            let behind: Vec<usize> = (0..contexts.len())
                .filter(|&index| self.sequences[&contexts[index].sequence].read < contexts[index].tokens.len())
                .collect();
            if behind.is_empty() {
                return Ok(rows);
            }
            let mut batch = StepBatch::default();
            for &index in &behind {
                let DraftContext { sequence, tokens, .. } = contexts[index];
                let DraftSequence { holding, read, .. } = &self.sequences[sequence];
                let end = tokens.len().min(read + CHUNK);
                let is_last = end == tokens.len();
                batch.entries.push(BatchEntry {
                    snapshots: match holding.slot {
                        Some(slot) if is_last => vec![(Position(end as u32), SnapshotId(slot.0))],
                        _ => Vec::new(),
                    },
                    logits_from: end - read - usize::from(is_last),
                    ..entry(holding, &tokens[*read..end], *read, true)
                });
            }
            self.backend.forward(&batch, &mut self.output)?;
            let mut next_row = 0;
            for (&index, entry) in behind.iter().zip(&batch.entries) {
                if let Some(sequence) = self.sequences.get_mut(&contexts[index].sequence) {
                    sequence.read += entry.tokens.len();
                }
                if entry.logits_rows() > 0 {
                    rows[index] = self.output.row(next_row).unwrap_or(&[]).to_vec();
                    next_row += 1;
                }
            }
        }
    }

    /// Reads draft `index` of the sequences that are still drafted for; the row after each.
    fn read_drafts(
        &mut self,
        contexts: &[&DraftContext<'_>],
        proposals: &[Vec<Draft>],
        drafting: &[usize],
        index: usize,
    ) -> Result<Vec<Vec<f32>>, BackendError> {
        let read = |&sequence: &usize| {
            let context = contexts[sequence];
            let draft = proposals[sequence][index].token;
            entry(&self.sequences[&context.sequence].holding, &[draft], context.tokens.len() + index, false)
        };
        let batch = StepBatch { entries: drafting.iter().map(read).collect() };
        self.backend.forward(&batch, &mut self.output)?;
        for (&sequence, entry) in drafting.iter().zip(&batch.entries) {
            if let Some(sequence) = self.sequences.get_mut(&contexts[sequence].sequence) {
                sequence.ahead.extend(&entry.tokens);
            }
        }
        Ok((0..drafting.len()).map(|row| self.output.row(row).unwrap_or(&[]).to_vec()).collect())
    }
}

impl Drafter for ModelDrafter {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        self.admit(sequences);
        let held = |context: &&DraftContext<'_>| self.sequences.contains_key(&context.sequence);
        let contexts: Vec<&DraftContext<'_>> = sequences.iter().filter(held).collect();
        let mut rows = self.catch_up(&contexts)?;
        let mut proposals: Vec<Vec<Draft>> = vec![Vec::new(); contexts.len()];
        // Those that are still drafted for, in order; `rows` has one row for each.
        let mut drafting: Vec<usize> = (0..contexts.len()).collect();
        for index in 0..self.count {
            for (&sequence, row) in drafting.iter().zip(&rows) {
                proposals[sequence].extend(draft(row, contexts[sequence], index));
            }
            let goes_on = |&sequence: &usize| {
                proposals[sequence].len() == index + 1 && contexts[sequence].tokens.len() + index < self.context_length
            };
            drafting.retain(goes_on);
            if index + 1 == self.count || drafting.is_empty() {
                break;
            }
            rows = self.read_drafts(&contexts, &proposals, &drafting, index)?;
        }
        let mut by_sequence: BTreeMap<SequenceId, Vec<Draft>> =
            contexts.iter().map(|context| context.sequence).zip(proposals).collect();
        Ok(sequences.iter().map(|context| by_sequence.remove(&context.sequence).unwrap_or_default()).collect())
    }

    fn forget(&mut self, sequence: SequenceId) {
        if let Some(sequence) = self.sequences.remove(&sequence) {
            self.state.release(sequence.holding);
        }
    }
}

/// An entry that reads `tokens` from `first` on, with the row after the last of them.
fn entry(holding: &Holding, tokens: &[TokenId], first: usize, prefill: bool) -> BatchEntry {
    BatchEntry {
        tokens: tokens.to_vec(),
        first_position: Position(first as u32),
        pages: holding.pages[..pages_for(first + tokens.len())].to_vec(),
        state: holding.slot.map(|slot| StateAccess { slot, column: 0 }),
        convolves: true,
        logits_from: tokens.len() - 1,
        prefill,
        snapshots: Vec::new(),
    }
}

/// The draft that a row of the draft model gives, `index` tokens after the committed ones; none for a row that must not
/// become a token.
fn draft(row: &[f32], context: &DraftContext<'_>, index: usize) -> Option<Draft> {
    let position = (context.tokens.len() + index) as u32;
    let (seed, choice) = (context.params.seed, context.sequence.choice.0);
    if row.iter().any(|value| value.is_nan() || *value == f32::INFINITY) {
        return None;
    }
    let best = best_tokens(row, if context.params.is_greedy() { 1 } else { KEPT });
    let &(first, maximum) = best.first().filter(|(_, value)| value.is_finite())?;
    if context.params.is_greedy() {
        return Some(Draft::certain(first));
    }
    let temperature = context.params.temperature;
    let purpose = if context.tests_probabilities { scalar::PURPOSE_DRAFT } else { scalar::PURPOSE_TOKEN };
    let score = |&(token, value): &(TokenId, f32)| {
        (f64::from(value / temperature) + scalar::gumbel_for(purpose, seed, position, choice, token.0), token)
    };
    let better = |a: (f64, TokenId), b: (f64, TokenId)| if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a };
    let (_, token) = best.iter().map(score).reduce(better)?;
    let distribution = context.tests_probabilities.then(|| {
        let maximum = maximum / temperature;
        let weight = |value: f32| f64::from(scalar::exp(value / temperature - maximum));
        let total = best.iter().fold(0.0, |sum, &(_, value)| sum + weight(value));
        let mut distribution: Vec<(TokenId, f64)> =
            best.iter().map(|&(token, value)| (token, weight(value) / total)).collect();
        distribution.sort_unstable_by_key(|&(token, _)| token);
        distribution
    });
    Some(Draft { token, distribution })
}
