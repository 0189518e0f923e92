//! The LM head gives the recorded row from the recorded head input.

use crate::arith::RowStatistics;
use crate::capture::records::{self, ForcedToken};
use crate::replay::context::Row;
use crate::replay::recover::{Recovered, WholeRow};
use crate::replay::verdict::{Skip, Verdict};

/// Compares everything that is recorded of a row with the row itself.
pub(in crate::replay) fn check(row: &Row<'_>, recovered: &Recovered) -> Verdict {
    let mut verdict = Verdict::new();
    match recovered {
        Recovered::Whole(whole) => {
            match &row.record.statistics {
                Some(recorded) => compare(&mut verdict, &whole.statistics, recorded),
                None => verdict.skip(Skip::not_recorded("the row's statistics are not recorded")),
            }
            standing(&mut verdict, row, whole);
        }
        Recovered::Best { ids, values } => best(&mut verdict, row, ids, values),
        Recovered::Absent(skip) | Recovered::Lost(skip) => verdict.skip(skip.clone()),
        Recovered::Wrong { expected, found } => verdict.mismatch("payload", expected.clone(), found.clone()),
    }
    verdict
}

/// Compares all statistics of a row.
pub(in crate::replay) fn compare(verdict: &mut Verdict, computed: &RowStatistics, recorded: &records::RowStatistics) {
    let records::RowStatistics {
        argmax,
        maximum,
        log_sum_exp,
        nan_count,
        positive_infinity_count,
        negative_infinity_count,
        checksum,
    } = *recorded;
    verdict.equal("checksum", Checksum(computed.checksum), Checksum(checksum));
    verdict.equal("argmax", computed.argmax, argmax);
    verdict.same_bits("maximum", computed.maximum, maximum);
    verdict.same_bits("log_sum_exp", computed.log_sum_exp, log_sum_exp);
    verdict.equal("nan_count", computed.nan_count, nan_count);
    verdict.equal("positive_infinity_count", computed.positive_infinity_count, positive_infinity_count);
    verdict.equal("negative_infinity_count", computed.negative_infinity_count, negative_infinity_count);
}

/// Rank and margin of the token that came, and of the one that had to.
fn standing(verdict: &mut Verdict, row: &Row<'_>, whole: &WholeRow) {
    if let Some(ForcedToken { token, rank, margin }) = row.record.forced {
        stands(verdict, whole, token, rank, margin);
    }
    let (rank, margin) = (row.record.rank, row.record.margin);
    let Some(token) = row.record.token else {
        verdict.holds(rank.is_none(), "rank", "none: no token is judged", format!("{rank:?}"));
        verdict.holds(margin.is_none(), "margin", "none: no token is judged", format!("{margin:?}"));
        return;
    };
    stands(verdict, whole, token, rank, margin);
}

fn stands(verdict: &mut Verdict, whole: &WholeRow, token: u32, rank: Option<u32>, margin: Option<f32>) {
    let Some(&value) = whole.values.get(token as usize) else {
        verdict.mismatch("token", format!("below {}, the row's length", whole.values.len()), token.to_string());
        return;
    };
    let before = |&(id, &other): &(usize, &f32)| other > value || (other == value && id < token as usize);
    verdict.equal_if_known("rank", whole.values.iter().enumerate().filter(before).count() as u32, rank);
    same_margin(verdict, whole.statistics.maximum - value, margin);
}

/// The best of a row, against its statistics and against the token that came.
fn best(verdict: &mut Verdict, row: &Row<'_>, ids: &[u32], values: &[f32]) {
    verdict.skip(Skip::not_recorded("the capture's tier `topk` keeps no whole row: its checksum cannot be checked"));
    let (Some(&first), Some(&greatest), true) = (ids.first(), values.first(), ids.len() == values.len()) else {
        let found = format!("{} ids and {} values", ids.len(), values.len());
        verdict.mismatch("payload", "as many values as ids, and some".to_owned(), found);
        return;
    };
    if let Some(size) = row.sequence.context.vocabulary_size() {
        let stranger = ids.iter().find(|id| **id >= size);
        verdict.holds(stranger.is_none(), "payload", format!("ids below {size}"), format!("{stranger:?}"));
    }
    let entries: Vec<(f32, u32)> = values.iter().copied().zip(ids.iter().copied()).collect();
    let disorder = entries.windows(2).find(|pair| match pair {
        [(value, id), (next_value, next_id)] => !(value > next_value || (value == next_value && id < next_id)),
        _ => false,
    });
    let expected = "values descending, ids ascending among equal ones";
    verdict.holds(disorder.is_none(), "payload", expected, format!("{disorder:?}"));
    match &row.record.statistics {
        Some(statistics) if statistics.nan_count == 0 => {
            verdict.equal("argmax", Some(first), statistics.argmax);
            verdict.same_bits("maximum", greatest + 0.0, statistics.maximum);
        }
        Some(_) => verdict.skip(Skip::not_recorded("the order of a row with a NaN is not defined")),
        None => verdict.skip(Skip::not_recorded("the row's statistics are not recorded")),
    }
    let Some(token) = row.record.token else { return };
    match entries.iter().zip(0..).find(|((_, id), _)| *id == token) {
        Some(((value, _), rank)) => {
            verdict.equal_if_known("rank", rank, row.record.rank);
            same_margin(verdict, greatest - value, row.record.margin);
        }
        None => {
            let expected = format!("at least {}: token {token} is not among the best that were kept", ids.len());
            match row.record.rank {
                Some(rank) => verdict.holds(rank as usize >= ids.len(), "rank", expected, rank),
                None => verdict.skip(Skip::not_recorded("rank is not recorded")),
            }
        }
    }
}

fn same_margin(verdict: &mut Verdict, computed: f32, recorded: Option<f32>) {
    match recorded {
        // + 0.0: a zero is a zero.
        Some(margin) => verdict.same_bits("margin", computed + 0.0, margin + 0.0),
        None => verdict.skip(Skip::not_recorded("margin is not recorded")),
    }
}

/// A checksum as people compare it.
#[derive(PartialEq)]
struct Checksum(u64);

impl std::fmt::Debug for Checksum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}
