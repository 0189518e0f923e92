//! Whether the columns repeat what the step records say.

use super::super::columns::{self, STEPS_OF_A_BATCH};
use super::super::conditions::Conditions;
use super::super::reader::Message;
use super::super::records::{ColumnsRecord, StepRecord};
use super::Check;

/// The step records that no batch of columns has covered yet.
#[derive(Default)]
pub(super) struct Uncovered {
    conditions: Conditions,
    /// Step messages before them, or `None` after a batch that cannot be followed.
    first: Option<u64>,
    /// Step messages so far.
    steps: u64,
    /// Whether there was a batch at all.
    has_batches: bool,
}

impl Uncovered {
    fn restart(&mut self) {
        self.conditions = Conditions::default();
        self.first = Some(self.steps);
    }
}

impl Check<'_> {
    pub(super) fn step_of_columns(&mut self, step: &StepRecord) {
        let uncovered = &mut self.uncovered;
        // More than a batch has: this recorder writes none, or leaves steps out.
        if uncovered.conditions.len() == STEPS_OF_A_BATCH {
            uncovered.restart();
        }
        uncovered.first.get_or_insert(uncovered.steps);
        uncovered.conditions.push(step);
        uncovered.steps += 1;
    }

    pub(super) fn columns(&mut self, record: &ColumnsRecord, message: &Message) {
        self.uncovered.has_batches = true;
        let conditions = std::mem::take(&mut self.uncovered.conditions);
        let first = self.uncovered.first.unwrap_or(self.uncovered.steps);
        self.uncovered.restart();
        let place = message.place;
        // Where step records are missing, which of them a batch means is not known.
        if self.has_gaps {
            return;
        }
        let (expected, steps) = (record.first, record.steps);
        if first != expected || conditions.len() as u64 != u64::from(steps) {
            let finding = format!(
                "`columns` message {place}: expected the {} steps from number {first} on, which no message covers yet, found {steps} from \
                 number {expected} on",
                conditions.len()
            );
            return self.finding_about(message.location, finding);
        }
        let compared = columns::decode(record).and_then(|batch| columns::compare(&batch, &conditions));
        if let Err(fault) = compared {
            self.finding_about(message.location, format!("`columns` message {place}: {fault}"));
        }
    }

    /// In a finished file, columns cover all steps or none.
    pub(super) fn uncovered_steps(&mut self) {
        let left = self.uncovered.conditions.len();
        if self.uncovered.has_batches && left > 0 && self.reader.is_finished() && !self.has_gaps {
            self.finding(format!(
                "`columns` messages leave out the last {left} steps; they cover all steps or are not there"
            ));
        }
    }
}
