//! Grouped-query attention over everything the sequence has seen.

use super::PlainModel;
use super::memory::History;
use crate::arith::scalar::{self, Rotation};
use crate::model::AttentionWeights;

impl PlainModel<'_> {
    /// The operator's output for the next token, turned by `rotation`, whose key and value are appended to `history`.
    pub(super) fn attention(
        &self,
        weights: &AttentionWeights,
        history: &mut History,
        rotation: &Rotation,
        input: &[f32],
        tell: &mut dyn FnMut(&'static str, &mut [f32]),
    ) -> Vec<f32> {
        let config = &self.model.config;
        let head_size = config.head_size;
        let mut query = self.linear(&weights.query, input);
        let mut key = self.linear(&weights.key, input);
        let value = self.linear(&weights.value, input);
        self.place_heads(&mut query, weights.query_norm.as_deref(), rotation);
        self.place_heads(&mut key, weights.key_norm.as_deref(), rotation);
        let row = key.len();
        history.push(key.iter().chain(&value).map(|&element| self.kv_type.stored(element)).collect());

        let group = config.heads / config.kv_heads;
        let scale = 1.0 / (head_size as f32).sqrt();
        let mut output = vec![0.0; query.len()];
        for (head, (query, output)) in query.chunks(head_size).zip(output.chunks_mut(head_size)).enumerate() {
            let start = head / group * head_size;
            let key = |position: usize| &history[position][start..][..head_size];
            let value = |position: usize| &history[position][row + start..][..head_size];
            scalar::attention(query, history.len(), key, value, scale, output);
        }
        tell("attention", &mut output);
        self.linear(&weights.output, &output)
    }

    /// Normalizes each head, where the architecture does, and turns it to its position.
    fn place_heads(&self, heads: &mut [f32], norm: Option<&[f32]>, rotation: &Rotation) {
        let config = &self.model.config;
        for head in heads.chunks_mut(config.head_size) {
            if let Some(weight) = norm {
                let normalized = self.norm(head, weight);
                head.copy_from_slice(&normalized);
            }
            rotation.apply(config.rope.layout, head);
        }
    }
}
