//! Mutations of row records.

use stepscope::capture::records::{ForcedToken, RowRecord, RowStatistics};
use stepscope::replay::CheckName::{Commit, Forward, Logits, Sampler, Validity};

use super::Expected::Finding;
use super::{Mutation, of_row};

/// Lists every field: a new one does not compile until it is named here, and should then stand in the table.
fn _every_field(row: RowRecord, statistics: RowStatistics) {
    let RowRecord {
        position: _,
        token: _,
        statistics: _,
        rank: _,
        margin: _,
        scheduler_mask: _,
        applied_mask: _,
        mask_population: _,
        logprob: _,
        forced: _,
    } = row;
    let RowStatistics {
        argmax: _,
        maximum: _,
        log_sum_exp: _,
        nan_count: _,
        positive_infinity_count: _,
        negative_infinity_count: _,
        checksum: _,
    } = statistics;
}

fn statistics(row: &mut RowRecord) -> &mut RowStatistics {
    row.statistics.as_mut().expect("statistics are recorded")
}

fn next_up(value: f32) -> f32 {
    f32::from_bits(value.to_bits() ^ 1)
}

pub fn table() -> Vec<Mutation> {
    vec![
        of_row("row.position", 0, Finding(Commit), |row| row.position += 1),
        of_row("row.position, as the model ran", 0, Finding(Forward), |row| row.position += 1),
        of_row("row.token", 0, Finding(Commit), |row| row.token = row.token.map(|token| token ^ 1)),
        of_row("row.rank", 1, Finding(Logits), |row| row.rank = row.rank.map(|rank| rank + 1)),
        of_row("row.margin", 1, Finding(Logits), |row| row.margin = row.margin.map(|margin| margin + 1.0)),
        of_row("row.logprob", 0, Finding(Sampler), |row| row.logprob = row.logprob.map(next_up)),
        of_row("row.logprob, unknown", 0, Finding(Sampler), |row| row.logprob = None),
        of_row("row.scheduler_mask", 0, Finding(Commit), |row| row.scheduler_mask = Some([1; 32])),
        of_row("row.applied_mask", 0, Finding(Commit), |row| row.applied_mask = Some([1; 32])),
        of_row("row.mask_population", 0, Finding(Commit), |row| row.mask_population = Some(1)),
        of_row("row.forced", 0, Finding(Commit), |row| {
            row.forced = Some(ForcedToken { token: 1, rank: None, margin: None });
        }),
        of_row("statistics.argmax", 0, Finding(Logits), |row| {
            let statistics = statistics(row);
            statistics.argmax = statistics.argmax.map(|token| token ^ 1);
        }),
        of_row("statistics.argmax, none", 0, Finding(Validity), |row| statistics(row).argmax = None),
        of_row("statistics.maximum", 0, Finding(Logits), |row| {
            let statistics = statistics(row);
            statistics.maximum = next_up(statistics.maximum);
        }),
        of_row("statistics.log_sum_exp", 0, Finding(Logits), |row| {
            let statistics = statistics(row);
            statistics.log_sum_exp = next_up(statistics.log_sum_exp);
        }),
        of_row("statistics.nan_count", 0, Finding(Validity), |row| statistics(row).nan_count = 1),
        of_row("statistics.nan_count, as computed", 0, Finding(Logits), |row| statistics(row).nan_count = 1),
        of_row("statistics.positive_infinity_count", 0, Finding(Validity), |row| {
            statistics(row).positive_infinity_count = 1;
        }),
        of_row("statistics.negative_infinity_count", 0, Finding(Logits), |row| {
            statistics(row).negative_infinity_count = 1;
        }),
        of_row("statistics.checksum", 0, Finding(Logits), |row| statistics(row).checksum ^= 1),
        of_row("statistics.checksum, as the model ran", 0, Finding(Forward), |row| statistics(row).checksum ^= 1),
    ]
}
