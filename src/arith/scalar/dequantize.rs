//! A row of a matrix as floats: the embedding lookup.

use super::super::{BLOCK, MatrixView, WeightFormat};
use super::float::bf16_to_f32;
use super::layouts::{f16_at, q4k_scale_and_minimum, q6k_scales, q6k_values};
use super::{f16_to_f32, vectorized};

vectorized! {
    /// Writes row `row` of `matrix` to `out`.
    ///
    /// # Panics
    /// If there is no such row, or `out` is not as long as it.
    pub fn dequantize_row(matrix: &MatrixView<'_>, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), matrix.columns(), "a row of {} columns", matrix.columns());
        let bytes = matrix.row_bytes(row);
        match matrix.format() {
            WeightFormat::F32 => {
                for (out, b) in out.iter_mut().zip(bytes.chunks_exact(4)) {
                    *out = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
            }
            WeightFormat::F16 => {
                for (out, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *out = f16_to_f32(u16::from_le_bytes([b[0], b[1]]));
                }
            }
            WeightFormat::Bf16 => {
                for (out, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *out = bf16_to_f32(u16::from_le_bytes([b[0], b[1]]));
                }
            }
            WeightFormat::Q4_0 => {
                for (out, b) in out.chunks_exact_mut(BLOCK).zip(bytes.chunks_exact(18)) {
                    let d = f16_at(b, 0);
                    nibbles(&b[2..], out, |value| d * f32::from(value as i8 - 8));
                }
            }
            WeightFormat::Q4_1 => {
                for (out, b) in out.chunks_exact_mut(BLOCK).zip(bytes.chunks_exact(20)) {
                    let (d, m) = (f16_at(b, 0), f16_at(b, 2));
                    nibbles(&b[4..], out, |value| d * f32::from(value) + m);
                }
            }
            WeightFormat::Q8_0 => {
                for (out, b) in out.chunks_exact_mut(BLOCK).zip(bytes.chunks_exact(34)) {
                    let d = f16_at(b, 0);
                    for (out, value) in out.iter_mut().zip(&b[2..]) {
                        *out = d * f32::from(*value as i8);
                    }
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

/// The low nibbles of 16 bytes are elements 0 to 15, the high ones 16 to 31.
#[inline(always)]
fn nibbles(packed: &[u8], out: &mut [f32], value: impl Fn(u8) -> f32) {
    let (low, high) = out.split_at_mut(16);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(packed) {
        *low = value(byte & 15);
        *high = value(byte >> 4);
    }
}

#[inline(always)]
fn q4k(super_block: &[u8; 144], out: &mut [f32]) {
    let (d, dmin) = (f16_at(super_block, 0), f16_at(super_block, 2));
    let packed = super_block[4..16].as_array().expect("12 of the 144 bytes");
    for (index, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let (scale, minimum) = q4k_scale_and_minimum(packed, index);
        let (w, m) = (d * f32::from(scale), -(dmin * f32::from(minimum)));
        for (out, byte) in out.iter_mut().zip(&super_block[16 + (index / 2) * 32..]) {
            *out = w * f32::from((byte >> (4 * (index % 2))) & 15) + m;
        }
    }
}

#[inline(always)]
fn q6k(super_block: &[u8; 210], out: &mut [f32]) {
    let d = f16_at(super_block, 208);
    for (index, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let (first, last) = q6k_scales(super_block, index);
        let (first, last) = (d * f32::from(first), d * f32::from(last));
        for (element, (out, value)) in out.iter_mut().zip(q6k_values(super_block, index)).enumerate() {
            *out = (if element < 16 { first } else { last }) * f32::from(value);
        }
    }
}
