//! Statistics and checksum of a logits row.

use super::super::RowStatistics;
use super::{CANONICAL_NAN, canonical, exp, log, sum_by_halves, vectorized};

/// Lanes of reductions over the vocabulary.
const LANES: usize = 1024;

vectorized! {
    /// All statistics of one raw row.
    pub fn row_statistics(row: &[f32]) -> RowStatistics {
        let maximum = row.iter().fold(f32::NEG_INFINITY, |most, x| if *x > most { *x } else { most });
        let count = |is: fn(f32) -> bool| row.iter().map(|x| u32::from(is(*x))).sum::<u32>();
        let nan_count = count(f32::is_nan);
        let positive_infinity_count = count(|x| x == f32::INFINITY);
        let has_argmax = nan_count == 0 && maximum > f32::NEG_INFINITY;
        let is_valid = has_argmax && positive_infinity_count == 0;
        RowStatistics {
            argmax: if has_argmax { row.iter().position(|x| *x == maximum).map(|id| id as u32) } else { None },
            // -0 + 0 is +0: which of two zeros was seen first must not matter.
            maximum: maximum + 0.0,
            log_sum_exp: if is_valid { log_sum_exp(row, maximum) } else { CANONICAL_NAN },
            nan_count,
            positive_infinity_count,
            negative_infinity_count: count(|x| x == f32::NEG_INFINITY),
            checksum: checksum_of(row),
        }
    }
}

#[inline(always)]
fn log_sum_exp(row: &[f32], maximum: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for row in row.chunks(LANES) {
        for (lane, x) in lanes.iter_mut().zip(row) {
            *lane += exp(*x - maximum);
        }
    }
    (f64::from(maximum) + log(f64::from(sum_by_halves(lanes)))) as f32
}

vectorized! {
    /// The order-free checksum of a row: the sum of a mix of each index and its canonical bits.
    pub fn checksum(row: &[f32]) -> u64 {
        checksum_of(row)
    }
}

#[inline(always)]
fn checksum_of(row: &[f32]) -> u64 {
    row.iter().enumerate().fold(0, |sum, (index, x)| {
        let word = ((index as u64) << 32) | u64::from(canonical(*x).to_bits());
        u64::wrapping_add(sum, mix(word))
    })
}

/// SplitMix64's output function: a bijection in which every input bit reaches every output bit.
#[inline(always)]
pub(crate) fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
