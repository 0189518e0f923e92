//! Activation rows.

use super::super::{BLOCK, QuantizedRow};
use super::{Kernels, compiled_for, scalar};

/// Adding it rounds to an integer, ties to even, and leaves that integer in the low bits: 1.5 * 2^23.
const ROUND: f32 = 12_582_912.0;

impl Kernels {
    /// Quantizes a row into `row`, whatever its length was: [`scalar::quantize`].
    ///
    /// # Panics
    ///
    /// If the length of `x` is not a multiple of [`BLOCK`].
    pub fn quantize(&self, x: &[f32], row: &mut QuantizedRow) {
        assert!(x.len().is_multiple_of(BLOCK), "a row of {} elements has no whole number of blocks", x.len());
        row.values.resize(x.len(), 0);
        row.scales.resize(x.len() / BLOCK, 0.0);
        let QuantizedRow { values, scales } = row;
        compiled_for!(self.isa, fn(x: &[f32] = x, values: &mut [i8] = values, scales: &mut [f32] = scales) {
            let blocks = x.as_chunks::<BLOCK>().0.iter().zip(values.as_chunks_mut::<BLOCK>().0);
            for ((x, values), scale) in blocks.zip(scales) {
                *scale = quantize_block(x, values);
            }
        });
    }
}

/// Quantizes one block; returns its scale.
#[inline(always)]
fn quantize_block(x: &[f32; BLOCK], values: &mut [i8; BLOCK]) -> f32 {
    // As integers, magnitudes are ordered like the floats they are, with every NaN above infinity.
    let magnitude = x.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff));
    let maximum = f32::from_bits(magnitude);
    let inverse = 127.0 / maximum;
    if magnitude >= f32::INFINITY.to_bits() || inverse == f32::INFINITY {
        *values = [0; BLOCK];
        return if magnitude >= f32::INFINITY.to_bits() { scalar::CANONICAL_NAN } else { 0.0 };
    }
    for (value, x) in values.iter_mut().zip(x) {
        // The product is within -127..=127, so the low byte is all of the integer.
        *value = (x * inverse + ROUND).to_bits() as i8;
    }
    maximum / 127.0
}
