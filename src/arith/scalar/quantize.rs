//! Activation rows.

use super::super::{ActivationRow, BLOCK, QuantizedRow, WeightFormat};
use super::{CANONICAL_NAN, canonical, vectorized};

/// Adding and subtracting it rounds to an integer, ties to even, for magnitudes up to 2^22.
const ROUND: f32 = 12_582_912.0;

vectorized! {
    /// Quantizes a row to int8 in blocks of [`BLOCK`].
    ///
    /// # Panics
    /// If the length is not a multiple of [`BLOCK`].
    pub fn quantize(x: &[f32]) -> QuantizedRow {
        assert!(x.len().is_multiple_of(BLOCK), "a row of {} elements has no whole number of blocks", x.len());
        let mut row = QuantizedRow { values: vec![0; x.len()], scales: vec![0.0; x.len() / BLOCK] };
        let blocks = x.chunks_exact(BLOCK).zip(row.values.chunks_exact_mut(BLOCK));
        for ((x, values), scale) in blocks.zip(&mut row.scales) {
            *scale = quantize_block(x, values);
        }
        row
    }
}

/// Quantizes one block into `values`, which are 0; returns its scale.
#[inline(always)]
fn quantize_block(x: &[f32], values: &mut [i8]) -> f32 {
    // As integers, magnitudes are ordered like the floats they are, with every NaN above infinity.
    let magnitude = x.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff));
    if magnitude >= f32::INFINITY.to_bits() {
        return CANONICAL_NAN;
    }
    let maximum = f32::from_bits(magnitude);
    let inverse = 127.0 / maximum;
    if inverse == f32::INFINITY {
        return 0.0;
    }
    for (value, x) in values.iter_mut().zip(x) {
        let rounded = (x * inverse + ROUND) - ROUND;
        *value = rounded as i8;
    }
    maximum / 127.0
}

/// The row as a matrix of `format` reads it: quantized, or as it is with canonical NaNs.
///
/// # Panics
/// If the format is quantized and the length is not a multiple of [`BLOCK`].
pub fn activation(format: WeightFormat, x: &[f32]) -> ActivationRow {
    if format.is_quantized() {
        ActivationRow::Quantized(quantize(x))
    } else {
        ActivationRow::Float(x.iter().map(|x| canonical(*x)).collect())
    }
}
