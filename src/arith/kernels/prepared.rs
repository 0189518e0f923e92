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
    /// For each half of the block, minus the weights' bias times the sum of its values: where an integer sum over biased
    /// weights starts, so as to end at the sum over the weights themselves.
    pub starts: [i32; 2],
}

/// Appends the blocks of `rows`, in lane order; the rows' versions of one block stand side by side.
pub(in crate::arith) fn prepare(rows: &[&QuantizedRow], blocks: usize, bias: i32, prepared: &mut Vec<PreparedBlock>) {
    for block in lane_order(blocks) {
        prepared.extend(rows.iter().map(|row| prepare_block(row, block, bias)));
    }
}

fn prepare_block(row: &QuantizedRow, block: usize, bias: i32) -> PreparedBlock {
    let values = &row.values[BLOCK * block..][..BLOCK];
    let (first, second) = values.split_at(BLOCK / 2);
    let sums = [first, second].map(|half| half.iter().map(|&value| i32::from(value)).sum::<i32>());
    PreparedBlock {
        words: std::array::from_fn(|word| {
            i32::from_ne_bytes(std::array::from_fn(|byte| values[4 * word + byte] as u8))
        }),
        scale: row.scales[block],
        sum: (sums[0] + sums[1]) as f32,
        starts: sums.map(|sum| -bias * sum),
    }
}
