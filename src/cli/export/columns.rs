//! The table's columns and where each value comes from.

use polars::prelude::{Column, IntoColumn, NamedFrom, Series};

use crate::capture::conditions::{Conditions, Values};
use crate::capture::records::{DraftVerdict, RowRecord, RowStatistics, StepRecord, VerdictReason};
use crate::forensics::outcome::CallOutcome;
use crate::forensics::signs::Sign;

/// One line of the table.
struct Line<'a> {
    step: &'a StepRecord,
    /// The row and its index; `None` for a step without rows.
    row: Option<(u32, &'a RowRecord)>,
    /// What the step shows, in the order of [`Sign::ALL`].
    signs: &'a [Option<bool>],
    /// What became of the calls of its choice.
    calls: Option<CallOutcome>,
}

impl Line<'_> {
    fn shows(&self, sign: Sign) -> Option<bool> {
        self.signs.get(sign as usize).copied().flatten()
    }
}

/// Declares the columns beside the step's conditions: name, type, and a value that is `None` where it is unknown.
macro_rules! columns {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        /// Values by column.
        pub(super) struct Columns {
            steps: Conditions,
            $($name: Vec<Option<$type>>,)*
        }

        impl Columns {
            /// Those of no line yet, of a capture of that format version.
            pub(super) fn of_format(format_version: u32) -> Self {
                Self { steps: Conditions::of_format(format_version), $($name: Vec::new(),)* }
            }

            /// Adds the lines of a step: one per row, or one for the step where it has none. Returns how many.
            pub(super) fn push(
                &mut self,
                step: &StepRecord,
                signs: &[Option<bool>],
                calls: Option<CallOutcome>,
            ) -> usize {
                let rows = (0_u32..).zip(&step.rows).map(Some);
                let none = step.rows.is_empty().then_some(None);
                let lines = step.rows.len().max(1);
                self.steps.push_lines(step, lines);
                for row in rows.chain(none) {
                    let line = Line { step, row, signs, calls };
                    $(
                        let value: fn(&Line<'_>) -> Option<$type> = $value;
                        self.$name.push(value(&line));
                    )*
                }
                lines
            }

            /// The lines so far as a table's columns; none are left here.
            pub(super) fn take(&mut self) -> Vec<Column> {
                let steps = self.steps.take();
                let mut columns: Vec<Column> =
                    steps.columns().map(|(condition, values)| series(condition.name, values).into_column()).collect();
                $(columns.push(Series::new(stringify!($name).into(), std::mem::take(&mut self.$name)).into_column());)*
                columns
            }
        }
    };
}

columns! {
    row: u32 = |line| line.row.map(|(index, _)| index);
    position: u32 = |line| line.row.map(|(_, row)| row.position);
    token: u32 = |line| line.row?.1.token;
    rank: u32 = |line| line.row?.1.rank;
    margin: f32 = |line| line.row?.1.margin;
    logprob: f32 = |line| line.row?.1.logprob;
    argmax: u32 = |line| statistics(line)?.argmax;
    maximum: f32 = |line| Some(statistics(line)?.maximum);
    log_sum_exp: f32 = |line| Some(statistics(line)?.log_sum_exp);
    nan_count: u32 = |line| Some(statistics(line)?.nan_count);
    positive_infinity_count: u32 = |line| Some(statistics(line)?.positive_infinity_count);
    negative_infinity_count: u32 = |line| Some(statistics(line)?.negative_infinity_count);
    checksum: u64 = |line| Some(statistics(line)?.checksum);
    scheduler_mask: String = |line| line.row?.1.scheduler_mask.map(hex);
    applied_mask: String = |line| line.row?.1.applied_mask.map(hex);
    mask_population: u32 = |line| line.row?.1.mask_population;
    draft: i64 = |line| line.step.drafts.get(line.row?.0 as usize).copied();
    draft_accepted: bool = |line| Some(verdict(line)?.accepted);
    draft_reason: String = |line| Some(match verdict(line)?.reason {
        VerdictReason::Match => "match",
        VerdictReason::Mismatch => "mismatch",
        VerdictReason::Ratio => "ratio",
        VerdictReason::Grammar => "grammar",
        VerdictReason::AfterRejection => "after_rejection",
        VerdictReason::AfterEnd => "after_end",
        VerdictReason::Missing => "missing",
    }.to_owned());
    draft_p: f64 = |line| verdict(line)?.p;
    draft_q: f64 = |line| verdict(line)?.q;
    draft_u: f64 = |line| verdict(line)?.u;
    forced_token: u32 = |line| Some(line.row?.1.forced?.token);
    forced_rank: u32 = |line| line.row?.1.forced?.rank;
    forced_margin: f32 = |line| line.row?.1.forced?.margin;
    shrunk_query: bool = |line| line.shows(Sign::ShrunkQuery);
    draftless_after_acceptance: bool = |line| line.shows(Sign::DraftlessAfterAcceptance);
    nothing_accepted: bool = |line| line.shows(Sign::NothingAccepted);
    token_outside_mask: bool = |line| line.shows(Sign::TokenOutsideMask);
    mask_allows_everything: bool = |line| line.shows(Sign::MaskAllowsEverything);
    grammar_out_of_step: bool = |line| line.shows(Sign::GrammarOutOfStep);
    invalid_row_gave_token: bool = |line| line.shows(Sign::InvalidRowGaveToken);
    not_the_best_token: bool = |line| line.shows(Sign::NotTheBestToken);
    bonus_beside_rejection: bool = |line| line.shows(Sign::BonusBesideRejection);
    impossible_draft_accepted: bool = |line| line.shows(Sign::ImpossibleDraftAccepted);
    masks_differ: bool = |line| line.shows(Sign::MasksDiffer);
    tokens_after_the_end: bool = |line| line.shows(Sign::TokensAfterTheEnd);
    draft_changed: bool = |line| line.shows(Sign::DraftChanged);
    silent_convolution: bool = |line| line.shows(Sign::SilentConvolution);
    filter_skipped: bool = |line| line.shows(Sign::FilterSkipped);
    draft_length_varies: bool = |line| line.shows(Sign::DraftLengthVaries);
    near_tie: bool = |line| line.shows(Sign::NearTie);
    forced_draft_rejected: bool = |line| line.shows(Sign::ForcedDraftRejected);
    repeats: bool = |line| line.shows(Sign::Repeats);
    call_outcome: String = |line| Some(line.calls?.name().to_owned());
    broken_call: bool = |line| Some(line.calls?.is_broken());
}

fn series(name: &str, values: &Values) -> Series {
    match values {
        Values::Small(column) => Series::new(name.into(), column.values()),
        Values::Large(column) => Series::new(name.into(), column.values()),
        Values::Truth(column) => Series::new(name.into(), column.values()),
        Values::Word(column) => Series::new(name.into(), column.values()),
    }
}

fn statistics<'a>(line: &Line<'a>) -> Option<&'a RowStatistics> {
    line.row?.1.statistics.as_ref()
}

/// The verdict on the draft that the row judges.
fn verdict<'a>(line: &Line<'a>) -> Option<&'a DraftVerdict> {
    line.step.verdicts.as_ref()?.get(line.row?.0 as usize)
}

fn hex(hash: [u8; 32]) -> String {
    blake3::Hash::from_bytes(hash).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::conditions::CONDITIONS;
    use crate::capture::records::FORMAT_VERSION;
    use crate::forensics::correlate::columns::ROW_COLUMNS;

    /// A column that is added here needs a unit and a role there, or is none of numbers that labels could be made of.
    #[test]
    fn correlate_knows_every_column() {
        let hashes = ["checksum", "scheduler_mask", "applied_mask"];
        let of_answers = ["call_outcome", "broken_call"];
        let known =
            CONDITIONS.iter().map(|condition| condition.name).chain(ROW_COLUMNS.iter().map(|column| column.name));
        let known: Vec<&str> = known.chain(Sign::ALL.map(Sign::name)).chain(hashes).chain(of_answers).collect();
        let columns = Columns::of_format(FORMAT_VERSION).take();
        let unknown: Vec<&str> =
            columns.iter().map(|column| column.name().as_str()).filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "no role is declared for {unknown:?}");
    }
}
