//! The short causal convolution of `lfm2`.

/// Per channel, `out[c] = sum_t weights[c * width + t] * columns[t][c]`, taps oldest first; `width` is the number of
/// columns, the last of them the current input, and every column and `out` has one element per channel.
///
/// # Panics
/// If the lengths do not fit together.
pub fn short_convolution(weights: &[f32], columns: &[&[f32]], out: &mut [f32]) {
    let width = columns.len();
    assert_eq!(weights.len(), width * out.len(), "{width} taps for each of {} channels", out.len());
    assert!(columns.iter().all(|column| column.len() == out.len()), "columns of {} channels", out.len());
    for (channel, out) in out.iter_mut().enumerate() {
        let taps = &weights[channel * width..][..width];
        *out = taps.iter().zip(columns).fold(0.0, |sum: f32, (tap, column)| tap.mul_add(column[channel], sum));
    }
}
