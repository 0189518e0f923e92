//! Matrix products: one row of a matrix with one activation row.

use super::super::{ActivationRow, BLOCK, MatrixView, QuantizedRow, WeightFormat};
use super::float::{bf16_from_bytes, f16_from_bytes, f32_from_bytes};
use super::layouts::{
    f16_at, q4_0_values, q4_1_values, q4k_scales_and_minima, q4k_values, q6k_scales, q6k_values, q8_0_values,
};
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
        (WeightFormat::F32, ActivationRow::Float(x)) => float(bytes, x, f32_from_bytes),
        (WeightFormat::F16, ActivationRow::Float(x)) => float(bytes, x, f16_from_bytes),
        (WeightFormat::Bf16, ActivationRow::Float(x)) => float(bytes, x, bf16_from_bytes),
        (WeightFormat::Q4_0, ActivationRow::Quantized(x)) => quantized::<_, Q4_0>(bytes, x, sums),
        (WeightFormat::Q4_1, ActivationRow::Quantized(x)) => quantized::<_, Q4_1>(bytes, x, sums),
        (WeightFormat::Q8_0, ActivationRow::Quantized(x)) => quantized::<_, Q8_0>(bytes, x, sums),
        (WeightFormat::Q4K, ActivationRow::Quantized(x)) => q4k(bytes, x, sums),
        (WeightFormat::Q6K, ActivationRow::Quantized(x)) => q6k(bytes, x),
        (format, _) => panic!("a {format} matrix cannot read this kind of activation row"),
    };
    canonical(result)
}

/// Element i goes to lane i mod 32.
#[inline(always)]
fn float<const BYTES: usize>(bytes: &[u8], x: &[f32], weight: impl Fn([u8; BYTES]) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for (weights, x) in bytes.as_chunks::<BYTES>().0.chunks(LANES).zip(x.chunks(LANES)) {
        for ((lane, w), x) in lanes.iter_mut().zip(weights).zip(x) {
            *lane = weight(*w).mul_add(*x, *lane);
        }
    }
    sum_by_halves(lanes)
}

/// The running sums of a quantized dot product: block b goes to lane b mod 8.
type BlockLanes = [f32; BLOCK_LANES];

/// A format whose blocks of 32 stand by themselves, each with its scale in front.
trait PlainFormat<const BYTES: usize> {
    /// Whether a minimum follows the scale.
    const HAS_MINIMUM: bool;
    fn values(block: &[u8; BYTES]) -> [i8; BLOCK];
}

struct Q4_0;
impl PlainFormat<18> for Q4_0 {
    const HAS_MINIMUM: bool = false;
    #[inline(always)]
    fn values(block: &[u8; 18]) -> [i8; BLOCK] {
        q4_0_values(block)
    }
}

struct Q4_1;
impl PlainFormat<20> for Q4_1 {
    const HAS_MINIMUM: bool = true;
    #[inline(always)]
    fn values(block: &[u8; 20]) -> [i8; BLOCK] {
        q4_1_values(block)
    }
}

struct Q8_0;
impl PlainFormat<34> for Q8_0 {
    const HAS_MINIMUM: bool = false;
    #[inline(always)]
    fn values(block: &[u8; 34]) -> [i8; BLOCK] {
        q8_0_values(block)
    }
}

#[inline(always)]
fn quantized<const BYTES: usize, Format: PlainFormat<BYTES>>(bytes: &[u8], x: &QuantizedRow, sums: &[i32]) -> f32 {
    let mut lanes = [0.0; BLOCK_LANES];
    let blocks = bytes.as_chunks::<BYTES>().0.chunks(BLOCK_LANES);
    let values = x.values.as_chunks::<BLOCK>().0.chunks(BLOCK_LANES);
    let scales = x.scales.chunks(BLOCK_LANES);
    for (group, ((blocks, values), scales)) in blocks.zip(values).zip(scales).enumerate() {
        let sums = if Format::HAS_MINIMUM { &sums[group * BLOCK_LANES..] } else { &[] };
        add_group::<BYTES, Format>(&mut lanes, blocks, values, scales, sums);
    }
    sum_by_halves(lanes)
}

/// Adds up to eight consecutive blocks, one to each lane.
#[inline(always)]
fn add_group<const BYTES: usize, Format: PlainFormat<BYTES>>(
    lanes: &mut BlockLanes,
    blocks: &[[u8; BYTES]],
    values: &[[i8; BLOCK]],
    activation_scales: &[f32],
    activation_sums: &[i32],
) {
    let mut sums = [0; BLOCK_LANES];
    for ((sum, block), q) in sums.iter_mut().zip(blocks).zip(values) {
        *sum = integer_dot(&Format::values(block), q);
    }
    add_terms(lanes, &scales(blocks, 0), activation_scales, &sums);
    if Format::HAS_MINIMUM {
        add_terms(lanes, &scales(blocks, 2), activation_scales, activation_sums);
    }
}

/// The eight sub-blocks of a super-block are one group.
#[inline(always)]
fn q4k(bytes: &[u8], x: &QuantizedRow, sums: &[i32]) -> f32 {
    let mut lanes = [0.0; BLOCK_LANES];
    let groups = x.values.as_chunks::<BLOCK>().0.as_chunks::<BLOCK_LANES>().0;
    let activation_scales = x.scales.as_chunks::<BLOCK_LANES>().0;
    let activation_sums = sums.as_chunks::<BLOCK_LANES>().0;
    let groups = groups.iter().zip(activation_scales).zip(activation_sums);
    for (super_block, ((values, activation_scales), activation_sums)) in bytes.as_chunks::<144>().0.iter().zip(groups) {
        let (scales, minima) = q4k_scales_and_minima(super_block);
        let mut sums = [0; BLOCK_LANES];
        for block in 0..BLOCK_LANES {
            sums[block] = integer_dot(&q4k_values(super_block, block), &values[block]);
        }
        add_terms(&mut lanes, &scales, activation_scales, &sums);
        add_terms(&mut lanes, &minima, activation_scales, activation_sums);
    }
    sum_by_halves(lanes)
}

/// The eight blocks of a super-block are one group.
#[inline(always)]
fn q6k(bytes: &[u8], x: &QuantizedRow) -> f32 {
    let mut lanes = [0.0; BLOCK_LANES];
    let groups = x.values.as_chunks::<BLOCK>().0.as_chunks::<BLOCK_LANES>().0;
    let groups = groups.iter().zip(x.scales.as_chunks::<BLOCK_LANES>().0);
    for (super_block, (values, activation_scales)) in bytes.as_chunks::<210>().0.iter().zip(groups) {
        let mut sums = [0; BLOCK_LANES];
        for block in 0..BLOCK_LANES {
            let (w, q) = (q6k_values(super_block, block), &values[block]);
            let (first, last) = q6k_scales(super_block, block);
            sums[block] =
                i32::from(first) * integer_dot(&w[..16], &q[..16]) + i32::from(last) * integer_dot(&w[16..], &q[16..]);
        }
        add_terms(&mut lanes, &[f16_at(super_block, 208); BLOCK_LANES], activation_scales, &sums);
    }
    sum_by_halves(lanes)
}

/// Adds one term per block to its lane: `(weight scale * activation scale) * sum`.
#[inline(always)]
fn add_terms(lanes: &mut BlockLanes, weight_scales: &BlockLanes, activation_scales: &[f32], sums: &[i32]) {
    for (((lane, w), d), sum) in lanes.iter_mut().zip(weight_scales).zip(activation_scales).zip(sums) {
        *lane = (w * d).mul_add(*sum as f32, *lane);
    }
}

/// Exact: 32 products of two i8 are far below 2^31. Wrapping arithmetic lets the compiler use wide registers where
/// overflow checks are on.
#[inline(always)]
fn integer_dot(w: &[i8], q: &[i8]) -> i32 {
    let mut sum = 0i32;
    for (w, q) in w.iter().zip(q) {
        sum = sum.wrapping_add(i32::from(*w).wrapping_mul(i32::from(*q)));
    }
    sum
}

/// The f16 at `offset` of every block of a group.
#[inline(always)]
fn scales<const BYTES: usize>(blocks: &[[u8; BYTES]], offset: usize) -> BlockLanes {
    let mut bits = [0; BLOCK_LANES];
    for (bits, block) in bits.iter_mut().zip(blocks) {
        *bits = u16::from_le_bytes([block[offset], block[offset + 1]]);
    }
    let mut scales = [0.0; BLOCK_LANES];
    for (scale, bits) in scales.iter_mut().zip(bits) {
        *scale = f16_to_f32(bits);
    }
    scales
}
