//! No invalid row became a token, and what is said of a row makes sense.

use crate::capture::records::{RowStatistics, StopReason};
use crate::replay::context::Row;
use crate::replay::recover::Recovered;
use crate::replay::verdict::{Skip, Verdict};

/// Judges one row by its statistics, and by its values where they could be had.
pub(in crate::replay) fn check(row: &Row<'_>, recovered: &Recovered) -> Verdict {
    let mut verdict = Verdict::new();
    let vocabulary_size = row.sequence.context.vocabulary_size();
    match &row.record.statistics {
        Some(statistics) => {
            consistent(&mut verdict, statistics, vocabulary_size);
            never_a_token(&mut verdict, row, fault_by_statistics(statistics, vocabulary_size), "its statistics");
        }
        None => verdict.skip(Skip::not_recorded("the row's statistics are not recorded")),
    }
    if let Some(whole) = recovered.whole() {
        never_a_token(&mut verdict, row, fault_by_values(&whole.values), "its values");
    }
    verdict
}

/// What makes a row with these statistics invalid.
fn fault_by_statistics(statistics: &RowStatistics, vocabulary_size: Option<u32>) -> Option<&'static str> {
    if statistics.nan_count > 0 {
        Some("a NaN")
    } else if statistics.positive_infinity_count > 0 {
        Some("a +infinity")
    } else if Some(statistics.negative_infinity_count) == vocabulary_size || statistics.maximum == f32::NEG_INFINITY {
        Some("nothing above -infinity")
    } else {
        None
    }
}

/// What makes a row with these values invalid.
fn fault_by_values(values: &[f32]) -> Option<&'static str> {
    if values.iter().any(|value| value.is_nan()) {
        Some("a NaN")
    } else if values.contains(&f32::INFINITY) {
        Some("a +infinity")
    } else if values.iter().all(|&value| value == f32::NEG_INFINITY) {
        Some("nothing above -infinity")
    } else {
        None
    }
}

/// An invalid row gives no token and ends the sequence with a failure.
fn never_a_token(verdict: &mut Verdict, row: &Row<'_>, fault: Option<&'static str>, by: &str) {
    let stop = &row.step.stop;
    match (fault, row.emitted()) {
        (None, _) => verdict.agrees(),
        (Some(fault), Some(token)) => {
            verdict.mismatch("emitted", format!("no token: the row has {fault}, by {by}"), format!("token {token}"));
        }
        (Some(_), None) => {
            let failed = matches!(stop, Some(StopReason::Failed(_)));
            verdict.holds(failed, "stop", "a failure: the row is invalid", format!("{stop:?}"));
        }
    }
}

/// Facts that hold of the statistics of any row.
fn consistent(verdict: &mut Verdict, statistics: &RowStatistics, vocabulary_size: Option<u32>) {
    let RowStatistics { argmax, maximum, log_sum_exp, .. } = *statistics;
    let (nan, positive) = (statistics.nan_count, statistics.positive_infinity_count);
    let has_argmax = nan == 0 && maximum > f32::NEG_INFINITY;
    let is_valid = has_argmax && positive == 0;
    let expected = if has_argmax { "a token" } else { "none: the row has a NaN or nothing above -infinity" };
    verdict.holds(argmax.is_some() == has_argmax, "argmax", expected, format!("{argmax:?}"));
    let fits = (maximum == f32::INFINITY) == (positive > 0) && !maximum.is_nan();
    verdict.holds(fits, "maximum", format!("+infinity exactly if a value is ({positive} are)"), maximum);
    if is_valid {
        let expected = format!("a number of at least the maximum, {maximum}");
        verdict.holds(log_sum_exp >= maximum, "log_sum_exp", expected, log_sum_exp);
    } else {
        verdict.holds(log_sum_exp.is_nan(), "log_sum_exp", "NaN: the row is invalid", log_sum_exp);
    }
    let Some(size) = vocabulary_size else { return };
    let counts = [nan, positive, statistics.negative_infinity_count];
    let sum: u64 = counts.into_iter().map(u64::from).sum();
    verdict.holds(sum <= size.into(), "counts of NaN and infinities", format!("at most {size}, the row's length"), sum);
    let in_row = argmax.is_none_or(|token| token < size);
    verdict.holds(in_row, "argmax", format!("a token below {size}"), format!("{argmax:?}"));
}
