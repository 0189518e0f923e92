//! Every column of the step table: the conditions of steps, and what is recorded of each of their rows.
//!
//! What a condition can be to a fault stands with its unit in [`crate::capture::conditions`]. What is recorded of a row is never
//! looked for as a cause: labels are made of it.

use crate::capture::conditions::{CONDITIONS, Conditions, Role, Unit, Values, is_forced, is_masked};
use crate::capture::records::{DraftVerdict, RowRecord, RowStatistics, StepRecord, VerdictReason};

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A truth.
    Truth(bool),
    /// A word.
    Word(&'static str),
}

/// What kind of values a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers.
    Number,
    /// Truths.
    Truth,
    /// Words.
    Word,
}

/// One row of a step.
#[derive(Clone, Copy, Debug)]
pub struct RowOfStep<'a> {
    /// The step.
    pub step: &'a StepRecord,
    /// The row's index.
    pub index: usize,
    /// The row.
    pub row: &'a RowRecord,
}

/// The part of a row that a column is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Every row has it.
    Whole,
    /// The token that was judged; a row past the end has none.
    Judged,
    /// The draft that the row judges; the row after the last one has none.
    Draft,
    /// The mask, if it has one.
    Mask,
    /// The token that had to come, if one had to.
    Forced,
}

/// Something that is recorded of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowColumn {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What it can be to a fault.
    pub role: Role,
    /// What kind of values it has.
    pub kind: Kind,
    part: Part,
    read: fn(RowOfStep<'_>) -> Option<Value>,
}

impl RowColumn {
    /// The value of a row; `None` is unknown.
    pub fn value(&self, row: RowOfStep<'_>) -> Option<Value> {
        (self.read)(row)
    }

    /// Whether it is known that the row has no such thing, so that there is no value to know.
    pub fn is_absent(&self, row: RowOfStep<'_>) -> bool {
        match self.part {
            Part::Whole => false,
            Part::Judged => row.index >= row.step.emitted.len(),
            Part::Draft => row.index >= row.step.drafts.len(),
            Part::Mask => is_masked(row.step, row.row) == Some(false),
            Part::Forced => is_forced(row.step, row.row) == Some(false),
        }
    }
}

/// Declares the columns of rows: name, unit, role, part, kind, and a value that is `None` where it is unknown.
macro_rules! row_columns {
    ($($name:ident $unit:ident $role:ident $part:ident $kind:ident = $value:expr;)*) => {
        /// Every column of rows.
        pub const ROW_COLUMNS: &[RowColumn] = &[
            $(RowColumn {
                name: stringify!($name),
                unit: Unit::$unit,
                role: Role::$role,
                kind: Kind::$kind,
                part: Part::$part,
                read: $value,
            }),*
        ];
    };
}

row_columns! {
    row Rows State Whole Number = |row| number(u32::try_from(row.index).ok()?);
    position Position State Whole Number = |row| number(row.row.position);
    token Vocabulary Content Judged Number = |row| number(row.row.token?);
    rank Vocabulary Symptom Judged Number = |row| number(row.row.rank?);
    margin Logits Symptom Judged Number = |row| number(row.row.margin?);
    logprob Logits Symptom Judged Number = |row| number(row.row.logprob?);
    argmax Vocabulary Symptom Whole Number = |row| number(statistics(row)?.argmax?);
    maximum Logits Symptom Whole Number = |row| number(statistics(row)?.maximum);
    log_sum_exp Logits Symptom Whole Number = |row| number(statistics(row)?.log_sum_exp);
    nan_count Vocabulary Symptom Whole Number = |row| number(statistics(row)?.nan_count);
    positive_infinity_count Vocabulary Symptom Whole Number = |row| number(statistics(row)?.positive_infinity_count);
    negative_infinity_count Vocabulary Symptom Whole Number = |row| number(statistics(row)?.negative_infinity_count);
    mask_population Vocabulary Content Mask Number = |row| number(row.row.mask_population?);
    draft Vocabulary Content Draft Number = |row| Some(Value::Number(*row.step.drafts.get(row.index)? as f64));
    draft_accepted Truth Result Draft Truth = |row| Some(Value::Truth(verdict(row)?.accepted));
    draft_reason Word Result Draft Word = |row| Some(Value::Word(match verdict(row)?.reason {
        VerdictReason::Match => "match",
        VerdictReason::Mismatch => "mismatch",
        VerdictReason::Ratio => "ratio",
        VerdictReason::Grammar => "grammar",
        VerdictReason::AfterRejection => "after_rejection",
        VerdictReason::AfterEnd => "after_end",
        VerdictReason::Missing => "missing",
    }));
    draft_p Probability Symptom Draft Number = |row| number(verdict(row)?.p?);
    draft_q Probability State Draft Number = |row| number(verdict(row)?.q?);
    draft_u Probability State Draft Number = |row| number(verdict(row)?.u?);
    forced_token Vocabulary Content Forced Number = |row| number(row.row.forced?.token);
    forced_rank Vocabulary Symptom Forced Number = |row| number(row.row.forced?.rank?);
    forced_margin Logits Symptom Forced Number = |row| number(row.row.forced?.margin?);
}

/// The value that a line of conditions has in the column of that index.
pub fn condition_value(conditions: &Conditions, place: usize, line: usize) -> Option<Value> {
    let (_, values) = conditions.columns().nth(place)?;
    match values {
        Values::Small(column) => column.values().get(line).copied()?.map(|value| Value::Number(f64::from(value))),
        Values::Large(column) => column.values().get(line).copied()?.map(|value| Value::Number(value as f64)),
        Values::Truth(column) => column.values().get(line).copied()?.map(Value::Truth),
        Values::Word(column) => column.values().get(line).copied()?.map(Value::Word),
    }
}

/// What kind of values a condition has, by its place among all.
pub fn condition_kind(place: usize) -> Option<Kind> {
    Some(match CONDITIONS.get(place)?.column(0) {
        Values::Small(_) | Values::Large(_) => Kind::Number,
        Values::Truth(_) => Kind::Truth,
        Values::Word(_) => Kind::Word,
    })
}

fn number(value: impl Into<f64>) -> Option<Value> {
    Some(Value::Number(value.into()))
}

fn statistics(row: RowOfStep<'_>) -> Option<&RowStatistics> {
    row.row.statistics.as_ref()
}

/// The verdict on the draft that the row judges.
fn verdict(row: RowOfStep<'_>) -> Option<&DraftVerdict> {
    row.step.verdicts.as_ref()?.get(row.index)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_column_is_declared_once() {
        let names =
            CONDITIONS.iter().map(|condition| condition.name).chain(ROW_COLUMNS.iter().map(|column| column.name));
        let names: Vec<&str> = names.collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
    }

    /// A condition that the logits lead to, or that says how they stood, must not be taken for engine state.
    #[test]
    fn what_follows_from_logits_is_no_state() {
        let of_role = |role: Role| -> Vec<&str> {
            CONDITIONS.iter().filter(|condition| condition.role == role).map(|condition| condition.name).collect()
        };
        assert_eq!(of_role(Role::Symptom), ["rows_misranked", "rows_invalid", "worst_forced_rank"]);
        assert_eq!(of_role(Role::Content), ["rows_forced", "least_mask_population"]);
        let result = ["drafts_accepted", "emitted", "bonus", "stop", "grammar_after", "grammar_terminated"];
        assert_eq!(of_role(Role::Result), result);
        assert_eq!(of_role(Role::Clock), ["time_ns", "schedule_ns", "forward_ns", "sample_ns"]);
        assert_eq!(of_role(Role::Name), ["request", "choice"]);
    }
}
