//! The gated short convolution, over the inputs that the sequence has seen.

use super::PlainModel;
use super::memory::{self, History};
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
        tell: &mut dyn FnMut(&'static str, &mut [f32]),
    ) -> Vec<f32> {
        let hidden_size = self.model.config.hidden_size;
        let projected = self.linear(&weights.in_projection, input);
        let (b, rest) = projected.split_at(hidden_size);
        let (c, x) = rest.split_at(hidden_size);
        let mut gated = vec![0.0; hidden_size];
        scalar::product(b, x, &mut gated);

        let width = weights.convolution.len() / hidden_size;
        let mut before = memory::before(history, history.len(), width.saturating_sub(1), hidden_size);
        tell("history", &mut before);
        let columns: Vec<&[f32]> = before.chunks(hidden_size).chain([&gated[..]]).collect();
        let mut convolved = vec![0.0; hidden_size];
        scalar::short_convolution(&weights.convolution, &columns, &mut convolved);
        let mut output = vec![0.0; hidden_size];
        scalar::product(c, &convolved, &mut output);
        tell("short_convolution", &mut output);
        history.push(gated.into());
        self.linear(&weights.out_projection, &output)
    }
}
