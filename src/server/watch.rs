//! What is a reason to write down what the ring holds.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::engine::{EventKind, EventReport, FinishedReport, StepReport};
use crate::forensics::repetition;
use crate::types::{RequestId, SequenceId};

/// Why a capture was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A row that must not become a token.
    InvalidRow,
    /// A tool call that could not be read.
    BrokenCall,
    /// Tokens that had to come were not the best of their rows, several in a short time.
    MisrankBurst,
    /// An answer that repeats itself.
    Loop,
    /// A request that failed for another reason, which is a 5xx.
    ServerError,
    /// Somebody asked for it.
    Operator,
}

impl Reason {
    /// Its name in lists and file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRow => "invalid_row",
            Self::BrokenCall => "broken_call",
            Self::MisrankBurst => "misrank_burst",
            Self::Loop => "loop",
            Self::ServerError => "server_error",
            Self::Operator => "operator",
        }
    }
}

/// So many forced tokens that are not the best of their rows ...
const MISRANKED: usize = 3;
/// ... among so many forced ones are a burst.
const FORCED: usize = 16;
/// A sequence is looked at for loops after so many tokens more.
const TOKENS: usize = 32;

/// Looks at what the engine does. The first reason of a request counts, and is told when the request has ended: then the ring
/// holds all of it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    sequences: HashMap<SequenceId, Seen>,
    /// Choices that have not ended, of requests that were seen.
    pending: BTreeMap<RequestId, Reason>,
    due: Vec<Reason>,
}

#[derive(Debug, Default)]
struct Seen {
    tokens: Vec<u32>,
    looked: usize,
    /// Of the last forced tokens, which were misranked.
    forced: VecDeque<bool>,
}

impl Watch {
    /// The reasons that are due.
    pub fn take(&mut self) -> Vec<Reason> {
        std::mem::take(&mut self.due)
    }

    /// A request is over, with all its choices.
    pub fn over(&mut self, request: RequestId) {
        self.due.extend(self.pending.remove(&request));
    }

    /// Those of requests that have not ended.
    pub fn take_pending(&mut self) -> Vec<Reason> {
        std::mem::take(&mut self.pending).into_values().collect()
    }

    pub fn step(&mut self, report: &StepReport<'_>) {
        let seen = self.sequences.entry(report.sequence).or_default();
        seen.tokens.extend(report.emitted.iter().map(|token| token.0));
        let mut reason = None;
        for row in report.rows {
            let Some(only) = row.filled_mask.and_then(crate::grammar::MaskRow::only) else { continue };
            seen.forced.push_back(row.statistics.argmax != Some(only.0));
            if seen.forced.len() > FORCED {
                seen.forced.pop_front();
            }
            if seen.forced.iter().filter(|misranked| **misranked).count() >= MISRANKED {
                reason = Some(Reason::MisrankBurst);
            }
        }
        if seen.tokens.len() >= seen.looked + TOKENS {
            seen.looked = seen.tokens.len();
            reason = reason.or(repetition::period(&seen.tokens).map(|_| Reason::Loop));
        }
        self.note(report.sequence, reason);
    }

    pub fn finished(&mut self, report: &FinishedReport<'_>) {
        let is_broken = report.calls.is_some_and(|calls| !calls.problems.is_empty());
        let tokens = self.sequences.remove(&report.sequence).map(|seen| seen.tokens).unwrap_or_default();
        let repeats = || repetition::period(&tokens).map(|_| Reason::Loop);
        self.note(report.sequence, is_broken.then_some(Reason::BrokenCall).or_else(repeats));
    }

    pub fn event(&mut self, report: &EventReport<'_>) {
        let reason = match report.kind {
            EventKind::InvalidRow => Some(Reason::InvalidRow),
            EventKind::NothingToSample | EventKind::GrammarFailed => Some(Reason::ServerError),
            EventKind::GreedyAgainstRecommendation => None,
        };
        self.note(report.sequence, reason);
    }

    fn note(&mut self, sequence: SequenceId, reason: Option<Reason>) {
        if let Some(reason) = reason {
            self.pending.entry(sequence.request).or_insert(reason);
        }
    }
}
