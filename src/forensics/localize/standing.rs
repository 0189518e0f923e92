//! A sequence at the beginning of a step, with the columns of its recurrent state as they should be there.

use std::collections::BTreeMap;

use super::walk::{Run, Walk};
use crate::capture::records::{Admission, StepRecord};
use crate::replay::execution::Execution;
use crate::replay::forward::PlainModel;
use crate::replay::gaps::Gaps;
use crate::replay::joined::is_prefill;
use crate::replay::recording::RecordedRequest;

/// A step of a sequence, run again in plain.
pub(super) struct Standing<'a> {
    pub(super) admission: &'a Admission,
    /// At the beginning of the step.
    pub(super) walk: Walk<'a>,
    pub(super) step: StepRecord,
    /// What each row of the step passes through, as far as they could be run.
    pub(super) rows: Vec<Run>,
    /// What each short convolution may read, by layer.
    pub(super) convolutions: BTreeMap<usize, Convolution>,
}

/// What stands around the history that a short convolution has to read in a step, `channels` values to a position.
pub(super) struct Convolution {
    pub(super) channels: usize,
    /// Positions of a history.
    pub(super) history: usize,
    /// The inputs of every position before the step, then of the step's own rows; a history of zeros before them.
    pub(super) inputs: Vec<f32>,
    /// Positions before the step.
    pub(super) before: usize,
    /// The state row that the step before left; what is past its end is not known.
    pub(super) row: Vec<f32>,
    /// The column that the history begins at.
    pub(super) column: usize,
}

impl<'a> Standing<'a> {
    /// A choice of the request at its step of that number; `None` if it has none that can be run.
    pub(super) fn at(
        plain: &'a PlainModel<'a>,
        gaps: &Gaps,
        recorded: &'a RecordedRequest,
        choice: u32,
        step: u64,
    ) -> Option<Self> {
        let sequence = recorded.sequences.iter().find(|sequence| sequence.choice == choice)?;
        let mut walk = Walk::start(plain, &recorded.admission, sequence, gaps, &mut None).ok()?;
        let prompt = recorded.admission.prompt_tokens.len();
        let mut state = StateRows::default();
        while walk.step()?.step < step {
            let before = walk.step()?;
            walk.run_silently();
            state.roll(&walk.execution, before, is_prefill(before, prompt));
            walk.commit();
        }
        let record = walk.step().filter(|record| record.step == step)?.clone();
        let at_the_beginning = walk.clone();
        let mut rows = Vec::new();
        for row in 0..record.rows.len() as u32 {
            let Ok(run) = walk.run(row, None) else { break };
            rows.push(run);
        }
        let first = record.rows.first().map_or(record.first_position, |row| row.position);
        let convolutions = state.around(&walk.execution, first);
        Some(Self { admission: &recorded.admission, walk: at_the_beginning, step: record, rows, convolutions })
    }
}

/// The state rows of a sequence, by layer, as the definition has them.
#[derive(Default)]
struct StateRows {
    rows: BTreeMap<usize, Vec<f32>>,
    column: usize,
}

impl StateRows {
    /// A step was run, and is not committed yet: the row begins anew with what the step's window holds.
    fn roll(&mut self, execution: &Execution<'_>, step: &StepRecord, is_prefill: bool) {
        let (plain, memory) = (execution.plain(), execution.memory());
        let end = memory.length();
        for layer in 0..plain.model().weights.layers.len() {
            let Some(history) = plain.history_columns(layer) else { continue };
            let own = if is_prefill { 0 } else { end.saturating_sub(step.first_position.saturating_add(1)) as usize };
            let Some(columns) = plain.inputs_before(memory, layer, end, history + own) else { continue };
            let row = self.rows.entry(layer).or_default();
            let kept = row.split_off(columns.len().min(row.len()));
            *row = [columns, kept].concat();
        }
        self.column = if is_prefill { 0 } else { step.emitted.len().saturating_sub(1) };
    }

    /// What stands around the histories of a step that begins at `first` and was run.
    fn around(mut self, execution: &Execution<'_>, first: u32) -> BTreeMap<usize, Convolution> {
        let (plain, memory) = (execution.plain(), execution.memory());
        let channels = plain.model().config.hidden_size;
        // A position is what a record says.
        let before = (first.min(memory.length())) as usize;
        let of_layer = |layer: usize| {
            let history = plain.history_columns(layer)?;
            let all = history + memory.length() as usize;
            let inputs = plain.inputs_before(memory, layer, memory.length(), all)?;
            let row = self.rows.remove(&layer).unwrap_or_default();
            Some((layer, Convolution { channels, history, inputs, before, row, column: self.column }))
        };
        (0..plain.model().weights.layers.len()).filter_map(of_layer).collect()
    }
}

impl Convolution {
    /// What row number `row` of the step reads if its history begins so many columns earlier, or later if negative;
    /// `None` where that is not known, and for rows that read nothing of the state.
    pub(super) fn stale(&self, row: usize, columns: i64) -> Option<Vec<f32>> {
        let foreign = self.foreign(row, columns)?;
        let end = self.before + self.history + row;
        let own = self.inputs.get((end - row) * self.channels..end * self.channels)?;
        Some([foreign, own].concat())
    }

    /// Likewise, without the step's own inputs, which later rows read after it.
    pub(super) fn foreign(&self, row: usize, columns: i64) -> Option<&[f32]> {
        let count = self.history.checked_sub(row).filter(|count| *count > 0)?;
        let offset = usize::try_from(columns.unsigned_abs()).ok()?;
        let (start, columns) = if columns >= 0 {
            // The inputs begin with a history of zeros, so that position 0 has one.
            (self.before.checked_sub(offset)?, &self.inputs)
        } else {
            (self.column.checked_add(offset)?, &self.row)
        };
        let start = start + row;
        columns.get(start * self.channels..(start + count) * self.channels)
    }

    /// How many columns earlier or later there is anything to read.
    pub(super) fn reach(&self) -> impl Iterator<Item = i64> {
        let later = (self.row.len() / self.channels.max(1)).saturating_sub(self.column + self.history);
        let (earlier, later) = (self.before as i64, later as i64);
        (1..=earlier.max(later))
            .flat_map(|columns| [columns, -columns])
            .filter(move |columns| (-later..=earlier).contains(columns))
    }
}
