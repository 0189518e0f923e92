//! The scheduler: which sequences run, and what each contributes to the next step.
//!
//! - **Admission** is first come, first served. The first in line takes a place as soon as there is one of the
//!   `max_batch`, with all the pages it can ever need; nobody overtakes it, so nobody starves.
//! - **Decode first**: every sequence past its prompt contributes its rows to every step, its drafts among them.
//! - **Chunked prefill**: besides, each step computes up to `prefill_chunk` prompt tokens, oldest sequence first. Neither
//!   a long prompt nor a full batch can hold up the other.
//!
//! All of it depends on the order of submission alone, never on time.

use std::collections::VecDeque;

use crate::arith::ATTENTION_CHUNK;
use crate::backend::{BatchEntry, SnapshotId, StepBatch};
use crate::engine::sampler::Draft;
use crate::engine::sequence::{Sequence, Waiting};
use crate::engine::speculation::DraftQuery;
use crate::engine::state::{Holding, State, pages_for, snapshot_of};
use crate::types::{Position, RequestId, TokenId};

/// The queue and the batch.
pub struct Scheduler {
    waiting: VecDeque<Waiting>,
    /// In order of admission.
    running: Vec<Sequence>,
    limits: Limits,
}

/// How much a step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sequences that run at a time.
    pub max_batch: usize,
    /// Prompt tokens per step.
    pub prefill_chunk: usize,
}

/// The work of one step.
#[derive(Debug, Default)]
pub struct Plan {
    /// One share per sequence in the step.
    pub shares: Vec<Share>,
    /// The same for the backend, entry by entry.
    pub batch: StepBatch,
}

/// What one sequence contributes to a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Index among the running sequences.
    pub sequence: usize,
    /// Whether the tokens are a chunk of the prompt.
    pub prefill: bool,
    /// Tokens the model reads: a chunk of the prompt, or the last committed token and the drafts.
    pub tokens: Vec<TokenId>,
    /// Position of the first of them.
    pub first_position: Position,
    /// What stands in the places after the last committed token.
    pub drafts: DraftQuery,
    /// Index of the first token whose logits row is judged.
    pub rows_from: usize,
    /// Accepted length of the sequence's step before; 1 after prefill, `None` before.
    pub prev_accepted: Option<usize>,
}

impl Share {
    /// Logits rows the share asks for.
    pub fn rows(&self) -> usize {
        self.tokens.len() - self.rows_from
    }

    /// The draft that row `index` is judged beside; none for the row after the last place, and where it is withheld.
    pub fn draft(&self, index: usize) -> Option<&Draft> {
        self.drafts.places.get(index)?.as_ref()
    }
}

impl Scheduler {
    /// Nothing waits, nothing runs.
    pub fn new(limits: Limits) -> Self {
        Self { waiting: VecDeque::new(), running: Vec::new(), limits }
    }

    /// Puts a sequence at the end of the line.
    pub fn enqueue(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Puts sequences at the head of the line, in order: further choices of a request whose turn it already is.
    pub fn enqueue_next(&mut self, choices: impl DoubleEndedIterator<Item = Waiting>) {
        choices.rev().for_each(|choice| self.waiting.push_front(choice));
    }

    /// Whether nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Sequences in line.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The running sequences, in order of admission.
    pub fn running(&self) -> &[Sequence] {
        &self.running
    }

    /// The running sequences, to be changed.
    pub fn running_mut(&mut self) -> &mut [Sequence] {
        &mut self.running
    }

    /// Takes the first in line out of it, if there is a place in the batch and `state` has what it needs.
    pub fn admit(&mut self, state: &mut State, context_length: usize) -> Option<(Waiting, Holding)> {
        if self.running.len() == self.limits.max_batch {
            return None;
        }
        let Waiting { id, owner, submission } = self.waiting.front()?;
        let positions = submission.positions(context_length);
        let holding = state.take(&submission.prompt.tokens, positions, owner, id.request)?;
        Some((self.waiting.pop_front()?, holding))
    }

    /// Makes an admitted sequence run.
    pub fn start(&mut self, sequence: Sequence) {
        self.running.push(sequence);
    }

    /// The sequences that wait, to be changed.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Waiting> {
        self.waiting.iter_mut()
    }

    /// Gives every running sequence its share of the next step. `drafts` are the queries of the decoding sequences, in
    /// order of admission.
    pub fn plan(&self, drafts: Vec<DraftQuery>, snapshots: bool) -> Plan {
        let mut prefill_budget = self.limits.prefill_chunk;
        let (prefilling, decoding): (Vec<_>, Vec<_>) =
            self.running.iter().enumerate().partition(|(_, sequence)| sequence.is_prefilling());
        let mut plan = Plan::default();
        for ((index, sequence), drafts) in decoding.into_iter().zip(drafts) {
            plan.add(decode_share(index, sequence, drafts), sequence, false);
        }
        for (index, sequence) in prefilling {
            let share = prefill_share(index, sequence, prefill_budget);
            prefill_budget -= share.tokens.len();
            plan.add(share, sequence, snapshots);
            if prefill_budget == 0 {
                break;
            }
        }
        plan
    }

    /// Removes the running sequences that `ended` says have ended, in order of admission.
    pub fn take_running(&mut self, mut ended: impl FnMut(&Sequence) -> bool) -> Vec<Sequence> {
        self.running.extract_if(.., |sequence| ended(sequence)).collect()
    }

    /// Removes the sequences of a request that still wait.
    pub fn take_waiting(&mut self, request: RequestId) -> Vec<Waiting> {
        let (taken, kept): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|waiting| waiting.id.request == request);
        self.waiting = kept.into();
        taken
    }
}

impl Plan {
    fn add(&mut self, share: Share, sequence: &Sequence, snapshots: bool) {
        self.batch.entries.push(BatchEntry {
            tokens: share.tokens.clone(),
            first_position: share.first_position,
            pages: sequence.holding.pages[..pages_read(&share)].to_vec(),
            state: sequence.state_access(),
            convolves: true,
            logits_from: share.rows_from,
            prefill: share.prefill,
            snapshots: if snapshots { boundaries(&share, sequence) } else { Vec::new() },
        });
        self.shares.push(share);
    }
}

/// The last committed token and its drafts.
fn decode_share(index: usize, sequence: &Sequence, drafts: DraftQuery) -> Share {
    let mut tokens = sequence.tokens[sequence.computed..].to_vec();
    tokens.extend_from_slice(&drafts.read);
    Share {
        sequence: index,
        prefill: false,
        tokens,
        first_position: sequence.next_position(),
        drafts,
        rows_from: 0,
        prev_accepted: sequence.prev_accepted,
    }
}

/// The next chunk of the prompt; the row of its last token is wanted when that ends the prompt.
fn prefill_share(index: usize, sequence: &Sequence, budget: usize) -> Share {
    let left = &sequence.prompt()[sequence.computed..];
    let tokens = left[..left.len().min(budget)].to_vec();
    let rows_from = if tokens.len() == left.len() { tokens.len() - 1 } else { tokens.len() };
    Share {
        sequence: index,
        prefill: true,
        tokens,
        first_position: sequence.next_position(),
        drafts: DraftQuery::default(),
        rows_from,
        prev_accepted: None,
    }
}

/// Pages that cover every position up to the share's end.
fn pages_read(share: &Share) -> usize {
    pages_for(share.first_position.index() + share.tokens.len())
}

/// The page ends within a prefill chunk, each with the snapshot that belongs to it.
fn boundaries(share: &Share, sequence: &Sequence) -> Vec<(Position, SnapshotId)> {
    let first = share.first_position.index();
    let page_ends = first / ATTENTION_CHUNK..(first + share.tokens.len()) / ATTENTION_CHUNK;
    page_ends
        .map(|page| {
            let end = Position(((page + 1) * ATTENTION_CHUNK) as u32);
            (end, snapshot_of(sequence.holding.pages[page]))
        })
        .collect()
}
