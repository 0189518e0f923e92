//! A row of a matrix as floats: the embedding lookup.

use super::super::{BLOCK, MatrixView, WeightFormat};
use super::float::{bf16_from_bytes, f16_from_bytes, f32_from_bytes};
use super::layouts::{
    f16_at, q4_0_values, q4_1_values, q4k_scales_and_minima, q4k_values, q6k_scales, q6k_values, q8_0_values,
};
use super::vectorized;

vectorized! {
    /// Writes row `row` of `matrix` to `out`.
    ///
    /// # Panics
    /// If there is no such row, or `out` is not as long as it.
    pub fn dequantize_row(matrix: &MatrixView<'_>, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), matrix.columns(), "a row of {} columns", matrix.columns());
        let bytes = matrix.row_bytes(row);
        match matrix.format() {
            WeightFormat::F32 => floats(bytes, out, f32_from_bytes),
            WeightFormat::F16 => floats(bytes, out, f16_from_bytes),
            WeightFormat::Bf16 => floats(bytes, out, bf16_from_bytes),
            WeightFormat::Q4_0 => {
                for (out, b) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<18>().0) {
                    let d = f16_at(b, 0);
                    scaled(&q4_0_values(b), out, |value| d * value);
                }
            }
            WeightFormat::Q4_1 => {
                for (out, b) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<20>().0) {
                    let (d, m) = (f16_at(b, 0), f16_at(b, 2));
                    scaled(&q4_1_values(b), out, |value| d * value + m);
                }
            }
            WeightFormat::Q8_0 => {
                for (out, b) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<34>().0) {
                    let d = f16_at(b, 0);
                    scaled(&q8_0_values(b), out, |value| d * value);
                }
            }
            WeightFormat::Q4K => {
                for (out, b) in out.chunks_exact_mut(256).zip(bytes.as_chunks::<144>().0) {
                    q4k(b, out);
                }
            }
            WeightFormat::Q6K => {
                for (out, b) in out.chunks_exact_mut(256).zip(bytes.as_chunks::<210>().0) {
                    q6k(b, out);
                }
            }
        }
    }
}

#[inline(always)]
fn floats<const BYTES: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; BYTES]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<BYTES>().0) {
        *out = value(*bytes);
    }
}

#[inline(always)]
fn q4k(super_block: &[u8; 144], out: &mut [f32]) {
    let (scales, minima) = q4k_scales_and_minima(super_block);
    for (index, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let (w, m) = (scales[index], minima[index]);
        scaled(&q4k_values(super_block, index), out, |value| w * value + m);
    }
}

#[inline(always)]
fn q6k(super_block: &[u8; 210], out: &mut [f32]) {
    let d = f16_at(super_block, 208);
    for (index, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let (first, last) = q6k_scales(super_block, index);
        let (first, last) = (d * f32::from(first), d * f32::from(last));
        let values = q6k_values(super_block, index);
        scaled(&values[..16], &mut out[..16], |value| first * value);
        scaled(&values[16..], &mut out[16..], |value| last * value);
    }
}

#[inline(always)]
fn scaled(values: &[i8], out: &mut [f32], scale: impl Fn(f32) -> f32) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = scale(f32::from(*value));
    }
}
