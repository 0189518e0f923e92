//! Normalization.

use super::{sum_by_halves, vectorized};

const LANES: usize = 32;

vectorized! {
    /// `out[i] = (x[i] * r) * weight[i]`, where `r = 1 / sqrt(sum(x[i]^2) / n + epsilon)`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
        assert!(x.len() == weight.len() && x.len() == out.len(), "rows of one length");
        let mut lanes = [0.0; LANES];
        for x in x.chunks(LANES) {
            for (lane, x) in lanes.iter_mut().zip(x) {
                *lane = x.mul_add(*x, *lane);
            }
        }
        let mean = sum_by_halves(lanes) / x.len() as f32;
        let scale = 1.0 / (mean + epsilon).sqrt();
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = (x * scale) * weight;
        }
    }
}
