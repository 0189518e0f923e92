//! Operations on corresponding elements.

use super::{exp, vectorized};

vectorized! {
    /// `x[i] = x[i] + y[i]`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add(x: &mut [f32], y: &[f32]) {
        assert_eq!(x.len(), y.len(), "rows of one length");
        for (x, y) in x.iter_mut().zip(y) {
            *x += *y;
        }
    }
}

vectorized! {
    /// `out[i] = x[i] * y[i]`: the gates of a short convolution.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn product(x: &[f32], y: &[f32], out: &mut [f32]) {
        assert!(x.len() == y.len() && x.len() == out.len(), "rows of one length");
        for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
            *out = *x * *y;
        }
    }
}

vectorized! {
    /// `out[i] = silu(gate[i]) * up[i]`, where `silu(g) = g / (1 + exp(-g))`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn silu_product(gate: &[f32], up: &[f32], out: &mut [f32]) {
        assert!(gate.len() == up.len() && gate.len() == out.len(), "rows of one length");
        for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *out = (*gate / (1.0 + exp(-*gate))) * *up;
        }
    }
}
