//! Operations on one activation row.
//!
//! Where the scalar form already compiles to vector code, it is the kernel.

use super::super::{ActivationRow, RopeLayout, scalar};
use super::{Kernels, Rotation, WeightFormat, compiled_for};

impl Kernels {
    /// The row as a matrix of `format` reads it.
    ///
    /// # Panics
    ///
    /// If the format is quantized and the length of `x` is not a multiple of [`super::super::BLOCK`].
    pub fn activation(&self, format: WeightFormat, x: &[f32]) -> ActivationRow {
        scalar::activation(format, x)
    }

    /// [`scalar::rms_norm`].
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn rms_norm(&self, x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
        scalar::rms_norm(x, weight, epsilon, out);
    }

    /// [`scalar::silu_product`]: `silu(gate) * up`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn silu_product(&self, gate: &[f32], up: &[f32], out: &mut [f32]) {
        scalar::silu_product(gate, up, out);
    }

    /// [`scalar::add`]: `x += y`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn add(&self, x: &mut [f32], y: &[f32]) {
        scalar::add(x, y);
    }

    /// [`scalar::product`]: `out = x * y`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn product(&self, x: &[f32], y: &[f32], out: &mut [f32]) {
        scalar::product(x, y, out);
    }

    /// Turns one head by `rotation`, which [`scalar::RopeTable::rotation`] makes once per position.
    ///
    /// # Panics
    ///
    /// If `head` is not two elements per pair.
    pub fn rotate(&self, rotation: &Rotation, layout: RopeLayout, head: &mut [f32]) {
        compiled_for!(self.isa, fn(rotation: &Rotation = rotation, layout: RopeLayout = layout, head: &mut [f32] = head) {
            rotation.apply(layout, head);
        });
    }

    /// `out[i] = exp(x[i] - maximum)`: the unnormalized probabilities of a row.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn exp_difference(&self, x: &[f32], maximum: f32, out: &mut [f32]) {
        assert_eq!(x.len(), out.len(), "rows of one length");
        compiled_for!(self.isa, fn(x: &[f32] = x, maximum: f32 = maximum, out: &mut [f32] = out) {
            for (out, x) in out.iter_mut().zip(x) {
                *out = scalar::exp(*x - maximum);
            }
        });
    }
}
