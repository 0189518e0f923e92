//! Matrix products: one row of a matrix with one activation row.

use super::super::{ActivationRow, BLOCK, MatrixView, QuantizedRow, WeightFormat};
use super::float::bf16_to_f32;
use super::layouts::{f16_at, q4k_scale_and_minimum, q6k_scales, q6k_values};
use super::{canonical, f16_to_f32, sum_by_halves, vectorized};

/// Block lanes of a quantized dot product.
const BLOCK_LANES: usize = 8;
/// Element lanes of a float dot product.
const LANES: usize = 32;

vectorized! {
    /// One output: row `row` of `matrix` times `activation`. A NaN is canonical.
    ///
    /// # Panics
    /// If there is no such row, or the activation does not fit the matrix in length and kind.
    pub fn dot(matrix: &MatrixView<'_>, row: usize, activation: &ActivationRow) -> f32 {
        let sums = block_sums(matrix.format(), activation);
        row_dot(matrix, row, activation, &sums)
    }
}

vectorized! {
    /// All outputs: [`dot`] for every row of `matrix`.
    ///
    /// # Panics
    /// If the activation or `out` does not fit the matrix.
    pub fn matvec(matrix: &MatrixView<'_>, activation: &ActivationRow, out: &mut [f32]) {
        assert_eq!(out.len(), matrix.rows(), "outputs of a matrix of {} rows", matrix.rows());
        let sums = block_sums(matrix.format(), activation);
        for (row, out) in out.iter_mut().enumerate() {
            *out = row_dot(matrix, row, activation, &sums);
        }
    }
}

/// Per activation block the sum of its values, for formats with a minimum.
#[inline(always)]
fn block_sums(format: WeightFormat, activation: &ActivationRow) -> Vec<i32> {
    match (format, activation) {
        (WeightFormat::Q4_1 | WeightFormat::Q4K, ActivationRow::Quantized(activation)) => {
            activation.values.chunks_exact(BLOCK).map(|block| block.iter().map(|q| i32::from(*q)).sum()).collect()
        }
        _ => Vec::new(),
    }
}

#[inline(always)]
fn row_dot(matrix: &MatrixView<'_>, row: usize, activation: &ActivationRow, sums: &[i32]) -> f32 {
    assert_eq!(activation.len(), matrix.columns(), "an activation for a matrix of {} columns", matrix.columns());
    let bytes = matrix.row_bytes(row);
    let result = match (matrix.format(), activation) {
        (WeightFormat::F32, ActivationRow::Float(x)) => {
            float(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])), x)
        }
        (WeightFormat::F16, ActivationRow::Float(x)) => {
            float(bytes.chunks_exact(2).map(|b| f16_to_f32(u16::from_le_bytes([b[0], b[1]]))), x)
        }
        (WeightFormat::Bf16, ActivationRow::Float(x)) => {
            float(bytes.chunks_exact(2).map(|b| bf16_to_f32(u16::from_le_bytes([b[0], b[1]]))), x)
        }
        (WeightFormat::Q4_0, ActivationRow::Quantized(x)) => q4_0(bytes, x),
        (WeightFormat::Q4_1, ActivationRow::Quantized(x)) => q4_1(bytes, x, sums),
        (WeightFormat::Q8_0, ActivationRow::Quantized(x)) => q8_0(bytes, x),
        (WeightFormat::Q4K, ActivationRow::Quantized(x)) => q4k(bytes, x, sums),
        (WeightFormat::Q6K, ActivationRow::Quantized(x)) => q6k(bytes, x),
        (format, _) => panic!("a {format} matrix cannot read this kind of activation row"),
    };
    canonical(result)
}

/// Element i goes to lane i mod 32.
#[inline(always)]
fn float(weights: impl Iterator<Item = f32>, x: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (i, (w, x)) in weights.zip(x).enumerate() {
        let lane = &mut lanes[i % LANES];
        *lane = w.mul_add(*x, *lane);
    }
    sum_by_halves(lanes)
}

/// The running sums of a quantized dot product: block b goes to lane b mod 8.
struct BlockLanes([f32; BLOCK_LANES]);

impl BlockLanes {
    /// Adds `scale * sum` to the lane of `block`.
    #[inline(always)]
    fn add(&mut self, block: usize, scale: f32, sum: i32) {
        let lane = &mut self.0[block % BLOCK_LANES];
        *lane = scale.mul_add(sum as f32, *lane);
    }

    #[inline(always)]
    fn total(self) -> f32 {
        sum_by_halves(self.0)
    }
}

#[inline(always)]
fn blocks(row: &QuantizedRow) -> impl Iterator<Item = (usize, &[i8; BLOCK], f32)> {
    row.values
        .as_chunks::<BLOCK>()
        .0
        .iter()
        .zip(&row.scales)
        .enumerate()
        .map(|(block, (values, scale))| (block, values, *scale))
}

#[inline(always)]
fn q4_0(bytes: &[u8], x: &QuantizedRow) -> f32 {
    let mut lanes = BlockLanes([0.0; BLOCK_LANES]);
    for ((block, q, d), bytes) in blocks(x).zip(bytes.as_chunks::<18>().0) {
        let mut sum = 0;
        for i in 0..16 {
            sum += (i32::from(bytes[2 + i] & 15) - 8) * i32::from(q[i]);
            sum += (i32::from(bytes[2 + i] >> 4) - 8) * i32::from(q[16 + i]);
        }
        lanes.add(block, f16_at(bytes, 0) * d, sum);
    }
    lanes.total()
}

#[inline(always)]
fn q4_1(bytes: &[u8], x: &QuantizedRow, sums: &[i32]) -> f32 {
    let mut lanes = BlockLanes([0.0; BLOCK_LANES]);
    for (((block, q, d), bytes), q_sum) in blocks(x).zip(bytes.as_chunks::<20>().0).zip(sums) {
        let mut sum = 0;
        for i in 0..16 {
            sum += i32::from(bytes[4 + i] & 15) * i32::from(q[i]);
            sum += i32::from(bytes[4 + i] >> 4) * i32::from(q[16 + i]);
        }
        lanes.add(block, f16_at(bytes, 0) * d, sum);
        lanes.add(block, f16_at(bytes, 2) * d, *q_sum);
    }
    lanes.total()
}

#[inline(always)]
fn q8_0(bytes: &[u8], x: &QuantizedRow) -> f32 {
    let mut lanes = BlockLanes([0.0; BLOCK_LANES]);
    for ((block, q, d), bytes) in blocks(x).zip(bytes.as_chunks::<34>().0) {
        let sum = bytes[2..].iter().zip(q).map(|(w, q)| i32::from(*w as i8) * i32::from(*q)).sum();
        lanes.add(block, f16_at(bytes, 0) * d, sum);
    }
    lanes.total()
}

#[inline(always)]
fn q4k(bytes: &[u8], x: &QuantizedRow, sums: &[i32]) -> f32 {
    let mut lanes = BlockLanes([0.0; BLOCK_LANES]);
    let super_blocks = bytes.as_chunks::<144>().0;
    for ((block, q, d), q_sum) in blocks(x).zip(sums) {
        let (super_block, index) = (&super_blocks[block / 8], block % 8);
        let packed = super_block[4..16].as_array().expect("12 of the 144 bytes");
        let (scale, minimum) = q4k_scale_and_minimum(packed, index);
        let nibbles = &super_block[16 + (index / 2) * 32..][..32];
        let shift = 4 * (index % 2);
        let sum = nibbles.iter().zip(q).map(|(byte, q)| i32::from((byte >> shift) & 15) * i32::from(*q)).sum();
        lanes.add(block, (f16_at(super_block, 0) * f32::from(scale)) * d, sum);
        lanes.add(block, -(f16_at(super_block, 2) * f32::from(minimum)) * d, *q_sum);
    }
    lanes.total()
}

#[inline(always)]
fn q6k(bytes: &[u8], x: &QuantizedRow) -> f32 {
    let mut lanes = BlockLanes([0.0; BLOCK_LANES]);
    let super_blocks = bytes.as_chunks::<210>().0;
    for (block, q, d) in blocks(x) {
        let (super_block, index) = (&super_blocks[block / 8], block % 8);
        let values = q6k_values(super_block, index);
        let (first, last) = q6k_scales(super_block, index);
        let product = |range: std::ops::Range<usize>| -> i32 {
            values[range.clone()].iter().zip(&q[range]).map(|(w, q)| i32::from(*w) * i32::from(*q)).sum()
        };
        let sum = i32::from(first) * product(0..16) + i32::from(last) * product(16..32);
        lanes.add(block, f16_at(super_block, 208) * d, sum);
    }
    lanes.total()
}
