//! The short causal convolution of `lfm2`.

use super::vectorized;

vectorized! {
    /// Per channel, `out[c] = sum_t weights[c * width + t] * columns[t][c]`, taps oldest first; `width` is the number
    /// of columns, the last of them the current input, and every column and `out` has one element per channel.
    ///
    /// # Panics
    /// If the lengths do not fit together.
    pub fn short_convolution(weights: &[f32], columns: &[&[f32]], out: &mut [f32]) {
        let width = columns.len();
        assert_eq!(weights.len(), width * out.len(), "{width} taps for each of {} channels", out.len());
        out.fill(0.0);
        for (tap, column) in columns.iter().enumerate() {
            assert_eq!(column.len(), out.len(), "a column of {} channels", out.len());
            for (channel, (out, input)) in out.iter_mut().zip(*column).enumerate() {
                *out = weights[channel * width + tap].mul_add(*input, *out);
            }
        }
    }
}
