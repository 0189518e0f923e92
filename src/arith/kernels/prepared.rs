//! Activation rows in the form that the tile kernels read.

use super::super::packed::lane_order;
use super::super::{BLOCK, QuantizedRow};

/// One activation block, with what depends on it alone.
#[derive(Clone, Copy, Debug)]
pub(in crate::arith) struct PreparedBlock {
    /// The 32 values, four to a word as they lie in memory.
    pub words: [i32; BLOCK / 4],
    /// The block's scale.
    pub scale: f32,
    /// The sum of the values.
    pub sum: f32,
    /// Where the integer sums over biased weights start, so as to end at the sums over the weights themselves: minus the
    /// bias times the sum of the values, over the whole block, or over each half if the halves have scales of their own.
    pub starts: [i32; 2],
}

/// Appends the blocks of `rows`, in lane order; the rows' versions of one block stand side by side.
#[inline(always)]
pub(super) fn prepare(rows: &[&QuantizedRow], bias: i32, halves: bool, prepared: &mut Vec<PreparedBlock>) {
    let blocks = rows.first().map_or(0, |row| row.scales.len());
    for block in lane_order(blocks) {
        for row in rows {
            prepared.push(prepare_block(row, block, bias, halves));
        }
    }
}

#[inline(always)]
fn prepare_block(row: &QuantizedRow, block: usize, bias: i32, halves: bool) -> PreparedBlock {
    let values: &[i8; BLOCK] = &row.values.as_chunks().0[block];
    let sum_of = |values: &[i8]| values.iter().fold(0, |sum: i32, value| sum.wrapping_add(i32::from(*value)));
    let (first, second) = (sum_of(&values[..BLOCK / 2]), sum_of(&values[BLOCK / 2..]));
    PreparedBlock {
        words: std::array::from_fn(|word| {
            i32::from_ne_bytes(std::array::from_fn(|byte| values[4 * word + byte] as u8))
        }),
        scale: row.scales[block],
        sum: (first + second) as f32,
        starts: if halves { [-bias * first, -bias * second] } else { [-bias * (first + second), 0] },
    }
}
