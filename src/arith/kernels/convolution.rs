//! The short causal convolution.

use super::{Kernels, compiled_for};

impl Kernels {
    /// [`super::scalar::short_convolution`]: `weights` are `[channel][tap]`, `columns` the inputs, oldest first.
    ///
    /// # Panics
    ///
    /// If the lengths do not fit together.
    pub fn short_convolution(&self, weights: &[f32], columns: &[&[f32]], out: &mut [f32]) {
        assert_eq!(weights.len(), columns.len() * out.len(), "taps of {} channels", out.len());
        assert!(columns.iter().all(|column| column.len() == out.len()), "columns of {} channels", out.len());
        compiled_for!(self.isa, fn(weights: &[f32] = weights, columns: &[&[f32]] = columns, out: &mut [f32] = out) {
            out.fill(0.0);
            for (tap, column) in columns.iter().enumerate() {
                let weights = weights[tap..].iter().step_by(columns.len());
                for ((sum, weight), x) in out.iter_mut().zip(weights).zip(*column) {
                    *sum = weight.mul_add(*x, *sum);
                }
            }
        });
    }
}
