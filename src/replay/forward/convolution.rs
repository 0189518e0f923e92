//! The gated short convolution, over the inputs that the sequence has seen.

use super::PlainModel;
use super::memory::History;
use crate::arith::scalar;
use crate::model::ConvolutionWeights;

impl PlainModel<'_> {
    /// The operator's output for the next token, whose gated input is appended to `history`.
    ///
    /// Inputs before the sequence count as zero.
    pub(super) fn short_convolution(
        &self,
        weights: &ConvolutionWeights,
        history: &mut History,
        input: &[f32],
        tell: &mut dyn FnMut(&'static str, &[f32]),
    ) -> Vec<f32> {
        let hidden_size = self.model.config.hidden_size;
        let projected = self.linear(&weights.in_projection, input);
        let (b, rest) = projected.split_at(hidden_size);
        let (c, x) = rest.split_at(hidden_size);
        let mut gated = vec![0.0; hidden_size];
        scalar::product(b, x, &mut gated);
        history.push(gated.into());

        let width = weights.convolution.len() / hidden_size;
        let before = vec![0.0; hidden_size];
        let columns: Vec<&[f32]> = (0..width)
            .map(|tap| (history.len() + tap).checked_sub(width).map_or(&before[..], |token| &history[token]))
            .collect();
        if let Some((_, before)) = columns.split_last() {
            tell("history", &before.concat());
        }
        let mut convolved = vec![0.0; hidden_size];
        scalar::short_convolution(&weights.convolution, &columns, &mut convolved);
        let mut output = vec![0.0; hidden_size];
        scalar::product(c, &convolved, &mut output);
        tell("short_convolution", &output);
        self.linear(&weights.out_projection, &output)
    }
}
