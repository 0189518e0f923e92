//! The definition of a model in one page: one token at a time, everything remembered, no cache, no batch.

use crate::arith::scalar::{RopeTable, Rotation, f16_to_f32, f32_to_f16};
use crate::arith::{ActivationRow, KvType, scalar};
use crate::model::{AttentionWeights, ConvolutionWeights, Model, OperatorWeights, Tensor};
use crate::types::TokenId;

/// What the head reads for each token of a sequence.
pub fn head_inputs(model: &Model, kv_type: KvType, tokens: &[TokenId]) -> Vec<ActivationRow> {
    let Model { config, weights, .. } = model;
    let rope = &config.rope;
    let rope = RopeTable::new(rope.theta, config.head_size, rope.frequency_factors.as_deref()).unwrap();
    let mut histories = vec![History { kv_type, ..History::default() }; weights.layers.len()];
    let row = |(position, token): (usize, &TokenId)| {
        let rotation = rope.rotation(position as u32);
        let mut x = vec![0.0; config.hidden_size];
        scalar::dequantize_row(&weights.embedding.view(), token.index(), &mut x);
        for (layer, history) in weights.layers.iter().zip(&mut histories) {
            let input = norm(model, &x, &layer.operator_norm);
            let output = match &layer.operator {
                OperatorWeights::Attention(weights) => attention(model, weights, history, &rotation, &input),
                OperatorWeights::ShortConvolution(weights) => convolution(model, weights, history, &input),
            };
            scalar::add(&mut x, &output);
            let input = norm(model, &x, &layer.feed_forward_norm);
            let (gate, up) = (multiply(&layer.gate, &input), multiply(&layer.up, &input));
            let mut gated = vec![0.0; gate.len()];
            scalar::silu_product(&gate, &up, &mut gated);
            scalar::add(&mut x, &multiply(&layer.down, &gated));
        }
        scalar::activation(weights.head.format(), &norm(model, &x, &weights.output_norm))
    };
    tokens.iter().enumerate().map(row).collect()
}

/// The logits row of a head input.
pub fn logits(model: &Model, input: &ActivationRow) -> Vec<f32> {
    let mut row = vec![0.0; model.config.vocabulary_size];
    scalar::matvec(&model.weights.head.view(), input, &mut row);
    row
}

/// What a layer remembers of every position.
#[derive(Clone)]
struct History {
    kv_type: KvType,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    inputs: Vec<Vec<f32>>,
}

impl Default for History {
    fn default() -> Self {
        Self { kv_type: KvType::F32, keys: Vec::new(), values: Vec::new(), inputs: Vec::new() }
    }
}

fn attention(
    model: &Model,
    weights: &AttentionWeights,
    history: &mut History,
    rotation: &Rotation,
    input: &[f32],
) -> Vec<f32> {
    let config = &model.config;
    let size = config.head_size;
    let turned = |matrix: &Tensor, weight: &Option<Vec<f32>>| {
        let mut heads = multiply(matrix, input);
        for head in heads.chunks_exact_mut(size) {
            if let Some(weight) = weight {
                head.copy_from_slice(&norm(model, head, weight));
            }
            rotation.apply(config.rope.layout, head);
        }
        heads
    };
    let query = turned(&weights.query, &weights.query_norm);
    let stored = |x: Vec<f32>| match history.kv_type {
        KvType::F32 => x,
        KvType::F16 => x.into_iter().map(|x| f16_to_f32(f32_to_f16(x))).collect(),
    };
    history.keys.push(stored(turned(&weights.key, &weights.key_norm)));
    history.values.push(stored(multiply(&weights.value, input)));
    let mut mixed = vec![0.0; query.len()];
    for (head, (query, out)) in query.chunks_exact(size).zip(mixed.chunks_exact_mut(size)).enumerate() {
        let shared = head / (config.heads / config.kv_heads) * size;
        let (key, value) =
            (|k: usize| &history.keys[k][shared..][..size], |k: usize| &history.values[k][shared..][..size]);
        scalar::attention(query, history.keys.len(), key, value, 1.0 / (size as f32).sqrt(), out);
    }
    multiply(&weights.output, &mixed)
}

fn convolution(model: &Model, weights: &ConvolutionWeights, history: &mut History, input: &[f32]) -> Vec<f32> {
    let hidden = model.config.hidden_size;
    let width = weights.convolution.len() / hidden;
    let gates = multiply(&weights.in_projection, input);
    let (b, c, x) = (&gates[..hidden], &gates[hidden..2 * hidden], &gates[2 * hidden..]);
    let mut product = vec![0.0; hidden];
    scalar::product(b, x, &mut product);
    history.inputs.push(product);
    let zeros = vec![0.0; hidden];
    let newest = history.inputs.len();
    let columns: Vec<&[f32]> = (newest..newest + width)
        .map(|column| column.checked_sub(width).map_or(&zeros[..], |index| &history.inputs[index]))
        .collect();
    let mut convolved = vec![0.0; hidden];
    scalar::short_convolution(&weights.convolution, &columns, &mut convolved);
    let mut mixed = vec![0.0; hidden];
    scalar::product(c, &convolved, &mut mixed);
    multiply(&weights.out_projection, &mixed)
}

fn norm(model: &Model, x: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    scalar::rms_norm(x, weight, model.config.norm_epsilon, &mut out);
    out
}

fn multiply(matrix: &Tensor, x: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; matrix.rows()];
    scalar::matvec(&matrix.view(), &scalar::activation(matrix.format(), x), &mut out);
    out
}
