//! Whether the columns repeat what the step records say.

use super::super::columns::{self, STEPS_OF_A_BATCH};
use super::super::conditions::Conditions;
use super::super::issue::{Issue, IssueKind};
use super::super::reader::{CaptureReader, Message};
use super::super::records::{ColumnsRecord, StepRecord};
use super::super::topic::Topic;
use super::Check;

/// The step records that no batch of columns has covered yet.
pub(super) struct Uncovered {
    /// Of the latest of them, two batches at most.
    conditions: Conditions,
    /// Step messages so far.
    steps: u64,
    /// Those that no batch can cover any more.
    left_out: u64,
    /// Batches so far.
    batches: u64,
    /// Batches that were read, and not held against steps of which some may be missing.
    not_compared: u64,
}

impl Uncovered {
    pub(super) fn of(reader: &CaptureReader) -> Self {
        let conditions = Conditions::of_format(reader.header().format_version);
        Self { conditions, steps: 0, left_out: 0, batches: 0, not_compared: 0 }
    }
}

/// Whether messages of the topic may be missing from what a pass over the file reads, judged by what opening found.
pub(super) fn may_lack(reader: &CaptureReader, topic: Topic) -> bool {
    let is_such = |issue: &Issue| match (issue.kind, &issue.bytes) {
        // Everything that is here is read, up to the end.
        (IssueKind::Cut | IssueKind::Duplicate | IssueKind::Contradiction, _) => false,
        (IssueKind::Missing, _) => issue.lost.is_empty() || issue.lost.iter().any(|(lost, _)| *lost == topic),
        // The pass tells which message it is, or reads on.
        (IssueKind::Invalid | IssueKind::Limit, None) => false,
        (_, None) => true,
        (_, Some(bytes)) => reader.may_hold_at(bytes.start, topic),
    };
    let issues = reader.issues();
    issues.iter().any(is_such) || issues.total() > issues.iter().count() as u64
}

impl Check<'_> {
    pub(super) fn step_of_columns(&mut self, step: &StepRecord) {
        let uncovered = &mut self.uncovered;
        // More than two batches have: this recorder writes none, or leaves steps out.
        if uncovered.conditions.len() == 2 * STEPS_OF_A_BATCH {
            uncovered.conditions.forget(STEPS_OF_A_BATCH);
            uncovered.left_out += STEPS_OF_A_BATCH as u64;
        }
        uncovered.conditions.push(step);
        uncovered.steps += 1;
    }

    pub(super) fn columns(&mut self, record: &ColumnsRecord, message: &Message) {
        let place = message.place;
        self.uncovered.batches += 1;
        let conditions = self.uncovered.conditions.take();
        let batch = match columns::decode(record) {
            Ok(batch) => batch,
            Err(fault) => return self.finding_about(message.location, format!("`columns` message {place}: {fault}")),
        };
        if self.may_lack_steps {
            self.uncovered.not_compared += 1;
            return;
        }
        let (first, steps) = (record.first, u64::from(record.steps));
        let left_out = (conditions.len() as u64).checked_sub(steps);
        let Some(left_out) = left_out.filter(|_| first.checked_add(steps) == Some(self.uncovered.steps)) else {
            let (uncovered, from) = (conditions.len(), self.uncovered.steps - conditions.len() as u64);
            let finding = format!(
                "`columns` message {place}: expected the {uncovered} steps from number {from} on, which no message covers yet, found \
                 {steps} from number {first} on"
            );
            return self.finding_about(message.location, finding);
        };
        self.uncovered.left_out += left_out;
        if let Err(fault) = columns::compare(&batch, &conditions) {
            self.finding_about(message.location, format!("`columns` message {place}: {fault}"));
        }
    }

    /// In a finished file, columns cover all steps or none.
    pub(super) fn end_of_columns(&mut self) {
        let Uncovered { steps, batches, not_compared, .. } = self.uncovered;
        if not_compared > 0 {
            self.missing(format!(
                "columns not compared: {not_compared} of {batches} `columns` messages stand where step records may be missing"
            ));
        }
        let left_out = self.uncovered.left_out + self.uncovered.conditions.len() as u64;
        if batches > 0 && left_out > 0 && !self.may_lack_steps && !self.may_lack_columns {
            let finding = format!(
                "`columns` messages leave out {left_out} of {steps} steps; they cover all steps or are not there"
            );
            self.finding_unless_lost(Topic::Columns, None, finding);
        }
    }
}
