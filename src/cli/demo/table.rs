//! Forced tokens that were misranked, by whether the step before had accepted more tokens than this one verifies.

use std::ops::AddAssign;

use anyhow::Context;
use serde_json::{Value, json};

use crate::capture::CaptureReader;
use crate::capture::records::{RowRecord, StepRecord};

/// Steps with a forced token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Of them, those in which one was not the best of its row.
    pub(super) misranked: u64,
    pub(super) all: u64,
}

/// Steps by whether `prev_accepted > q_len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) shrunk: Steps,
    pub(super) other: Steps,
}

/// The table, the end token apart: it is forced after every call, and one token that is misranked nearly always would
/// flatter the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// Steps with another forced token than that.
    pub(super) tokens: Split,
    /// Steps with a forced end token.
    pub(super) end: Split,
}

impl Table {
    /// Reads every step record of a capture.
    ///
    /// # Errors
    /// If one cannot be read, or the header names no end tokens.
    pub(super) fn of(reader: &CaptureReader) -> anyhow::Result<Self> {
        let ends = reader.header().model.as_ref().and_then(|model| model.end_tokens.clone());
        let ends = ends.with_context(|| format!("{}: its header names no end tokens", reader.path().display()))?;
        let mut table = Self::default();
        for sequence in reader.sequences() {
            for step in reader.steps(sequence) {
                table.add(&step?, &ends);
            }
        }
        Ok(table)
    }

    /// A step of which it is not known how much the one before accepted is in neither line.
    fn add(&mut self, step: &StepRecord, ends: &[u32]) {
        let (Some(accepted), Some(verified)) = (step.prev_accepted, step.q_len) else { return };
        let is_shrunk = accepted > verified;
        let is_end = |row: &&RowRecord| row.forced.is_some_and(|forced| ends.contains(&forced.token));
        let (end, tokens): (Vec<&RowRecord>, Vec<&RowRecord>) = step.rows.iter().partition(is_end);
        *self.tokens.side(is_shrunk) += Steps::of(&tokens);
        *self.end.side(is_shrunk) += Steps::of(&end);
    }
}

impl Split {
    fn side(&mut self, is_shrunk: bool) -> &mut Steps {
        if is_shrunk { &mut self.shrunk } else { &mut self.other }
    }

    /// `true` and `false`, each as [misranked, all].
    pub(super) fn json(&self) -> Value {
        json!({"true": [self.shrunk.misranked, self.shrunk.all], "false": [self.other.misranked, self.other.all]})
    }
}

impl Steps {
    /// Those of one step: one or none. An invalid row has no ranks, and is told by the check `validity`.
    fn of(rows: &[&RowRecord]) -> Self {
        let ranks: Vec<u32> = rows.iter().filter_map(|row| row.forced?.rank).collect();
        Self { misranked: u64::from(ranks.iter().any(|rank| *rank > 0)), all: u64::from(!ranks.is_empty()) }
    }
}

impl AddAssign for Steps {
    fn add_assign(&mut self, more: Self) {
        self.misranked += more.misranked;
        self.all += more.all;
    }
}
