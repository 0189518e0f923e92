//! Intermediate rows of a step; kept between steps so that nothing is allocated in the middle of one.

use super::activations::Activations;
use crate::model::ModelConfig;

/// Rows between operations. Widths are those of the model; every buffer has one row per token of the step.
#[derive(Default)]
pub(super) struct Buffers {
    /// The residual stream: hidden size.
    pub residual: Vec<f32>,
    /// The residual stream after a norm: hidden size.
    pub normalized: Vec<f32>,
    /// What the next matrices read.
    pub activations: Activations,
    /// Heads times head size.
    pub query: Vec<f32>,
    /// Key-value heads times head size.
    pub key: Vec<f32>,
    /// Key-value heads times head size.
    pub value: Vec<f32>,
    /// What an operator hands to its output projection: heads times head size, or hidden size.
    pub mixed: Vec<f32>,
    /// B, C and x of a short convolution: three times hidden size.
    pub gates: Vec<f32>,
    /// Histories and gated inputs of a short convolution: hidden size; `width - 1` more rows per entry.
    pub window: Vec<f32>,
    /// What a projection adds to the residual stream: hidden size.
    pub product: Vec<f32>,
    /// Feed-forward size.
    pub gated: Vec<f32>,
    /// Feed-forward size.
    pub raised: Vec<f32>,
    /// Feed-forward size.
    pub fed: Vec<f32>,
}

impl Buffers {
    /// Makes room for a step of `rows` tokens in `entries` entries.
    pub(super) fn resize(&mut self, config: &ModelConfig, rows: usize, entries: usize) {
        let hidden = config.hidden_size;
        let (query, key) = (config.heads * config.head_size, config.kv_heads * config.head_size);
        for buffer in [&mut self.residual, &mut self.normalized, &mut self.product] {
            buffer.resize(rows * hidden, 0.0);
        }
        self.query.resize(rows * query, 0.0);
        for buffer in [&mut self.key, &mut self.value] {
            buffer.resize(rows * key, 0.0);
        }
        self.mixed.resize(rows * query.max(hidden), 0.0);
        if let Some(width) = config.convolution_width {
            self.gates.resize(rows * 3 * hidden, 0.0);
            self.window.resize((rows + entries * width.saturating_sub(1)) * hidden, 0.0);
        }
        for buffer in [&mut self.gated, &mut self.raised, &mut self.fed] {
            buffer.resize(rows * config.feed_forward_size, 0.0);
        }
    }
}
