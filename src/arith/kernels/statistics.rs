//! Statistics of a logits row, in lanes that a vector register can hold.

use super::super::RowStatistics;
use super::{Kernels, compiled_for, scalar};

/// Values that are compared and counted side by side: enough for a few vectors of any path.
const STRIPE: usize = 64;
/// The contract's lanes of a sum over the vocabulary.
const LANES: usize = 1024;

impl Kernels {
    /// All statistics of one raw logits row: [`scalar::row_statistics`].
    pub fn row_statistics(&self, row: &[f32]) -> RowStatistics {
        compiled_for!(self.isa, fn(row: &[f32] = row) -> RowStatistics {
            let [nan_count, positive_infinity_count, negative_infinity_count] = counts(row);
            let maximum = maximum(row);
            let has_argmax = nan_count == 0 && maximum > f32::NEG_INFINITY;
            RowStatistics {
                argmax: if has_argmax { first_equal(row, maximum) } else { None },
                // Which of two zeros was seen first must not matter.
                maximum: maximum + 0.0,
                log_sum_exp: if has_argmax && positive_infinity_count == 0 {
                    log_sum_exp(row, maximum)
                } else {
                    scalar::CANONICAL_NAN
                },
                nan_count,
                positive_infinity_count,
                negative_infinity_count,
                checksum: checksum(row),
            }
        })
    }

    /// The order-free checksum of a logits row: [`scalar::checksum`].
    pub fn checksum(&self, row: &[f32]) -> u64 {
        compiled_for!(self.isa, fn(row: &[f32] = row) -> u64 { checksum(row) })
    }
}

/// The greatest value, NaN left out; of two zeros either.
#[inline(always)]
fn maximum(row: &[f32]) -> f32 {
    let greater = |most: f32, x: f32| if x > most { x } else { most };
    let mut lanes = [f32::NEG_INFINITY; STRIPE];
    let (stripes, rest) = row.as_chunks::<STRIPE>();
    for stripe in stripes {
        for (lane, x) in lanes.iter_mut().zip(stripe) {
            *lane = greater(*lane, *x);
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |most, x| greater(most, *x))
}

/// How many values are NaN, +infinity and -infinity.
#[inline(always)]
fn counts(row: &[f32]) -> [u32; 3] {
    let mut counts = [0u32; 3];
    for x in row {
        let bits = x.to_bits();
        counts[0] = counts[0].wrapping_add(u32::from(bits & 0x7fff_ffff > 0x7f80_0000));
        counts[1] = counts[1].wrapping_add(u32::from(bits == 0x7f80_0000));
        counts[2] = counts[2].wrapping_add(u32::from(bits == 0xff80_0000));
    }
    counts
}

/// The first index of `value`.
#[inline(always)]
fn first_equal(row: &[f32], value: f32) -> Option<u32> {
    let stripe = row.chunks(STRIPE).position(|stripe| stripe.iter().fold(false, |found, x| found | (*x == value)))?;
    let within = row[stripe * STRIPE..].iter().position(|x| *x == value)?;
    Some((stripe * STRIPE + within) as u32)
}

#[inline(always)]
fn log_sum_exp(row: &[f32], maximum: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for row in row.chunks(LANES) {
        for (lane, x) in lanes.iter_mut().zip(row) {
            *lane += scalar::exp(*x - maximum);
        }
    }
    (f64::from(maximum) + scalar::log(f64::from(super::sum_by_halves(lanes)))) as f32
}

#[inline(always)]
fn checksum(row: &[f32]) -> u64 {
    let mut sum = 0u64;
    for (index, x) in row.iter().enumerate() {
        let word = ((index as u64) << 32) | u64::from(scalar::canonical(*x).to_bits());
        // SplitMix64's output function.
        let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        sum = sum.wrapping_add(z ^ (z >> 31));
    }
    sum
}
