//! The model's weights in the layout that the kernels read, made once at load.

use crate::arith::{Kernels, PackedMatrix, WeightMemory};
use crate::backend::BackendError;
use crate::model::{OperatorWeights, Tensor, Weights};

/// Every weight of a model, packed. The embedding stays in its file: a step reads a few of its rows.
pub(super) struct PackedWeights {
    pub embedding: Tensor,
    pub layers: Vec<PackedLayer>,
    pub output_norm: Vec<f32>,
    pub head: PackedMatrix,
}

pub(super) struct PackedLayer {
    pub operator_norm: Vec<f32>,
    pub operator: PackedOperator,
    pub feed_forward_norm: Vec<f32>,
    pub gate: PackedMatrix,
    pub up: PackedMatrix,
    pub down: PackedMatrix,
}

pub(super) enum PackedOperator {
    Attention(PackedAttention),
    ShortConvolution(PackedConvolution),
}

pub(super) struct PackedAttention {
    /// Which of the attention layers it is: its place in the key-value cache.
    pub cache_layer: usize,
    pub query: PackedMatrix,
    pub key: PackedMatrix,
    pub value: PackedMatrix,
    pub output: PackedMatrix,
    pub query_norm: Option<Vec<f32>>,
    pub key_norm: Option<Vec<f32>>,
}

pub(super) struct PackedConvolution {
    /// Which of the convolution layers it is: its place in the recurrent state.
    pub state_layer: usize,
    pub in_projection: PackedMatrix,
    /// One channel after the other, taps oldest first.
    pub taps: Vec<f32>,
    pub out_projection: PackedMatrix,
}

impl PackedWeights {
    /// Packs every matrix of `weights` for `kernels`.
    pub(super) fn new(kernels: &Kernels, weights: &Weights) -> Result<Self, BackendError> {
        let mut memory = WeightMemory::new();
        let mut pack = |tensor: &Tensor| {
            kernels.pack(&tensor.view(), &mut memory).map_err(|error| {
                BackendError::Configuration(format!("no memory for tensor {}: {error}; free some", tensor.name()))
            })
        };
        let (mut attention_layers, mut convolution_layers) = (0, 0);
        let mut layers = Vec::with_capacity(weights.layers.len());
        for layer in &weights.layers {
            let operator = match &layer.operator {
                OperatorWeights::Attention(attention) => {
                    attention_layers += 1;
                    PackedOperator::Attention(PackedAttention {
                        cache_layer: attention_layers - 1,
                        query: pack(&attention.query)?,
                        key: pack(&attention.key)?,
                        value: pack(&attention.value)?,
                        output: pack(&attention.output)?,
                        query_norm: attention.query_norm.clone(),
                        key_norm: attention.key_norm.clone(),
                    })
                }
                OperatorWeights::ShortConvolution(convolution) => {
                    convolution_layers += 1;
                    PackedOperator::ShortConvolution(PackedConvolution {
                        state_layer: convolution_layers - 1,
                        in_projection: pack(&convolution.in_projection)?,
                        taps: convolution.convolution.clone(),
                        out_projection: pack(&convolution.out_projection)?,
                    })
                }
            };
            layers.push(PackedLayer {
                operator_norm: layer.operator_norm.clone(),
                operator,
                feed_forward_norm: layer.feed_forward_norm.clone(),
                gate: pack(&layer.gate)?,
                up: pack(&layer.up)?,
                down: pack(&layer.down)?,
            });
        }
        Ok(Self {
            embedding: weights.embedding.clone(),
            layers,
            output_norm: weights.output_norm.clone(),
            head: pack(&weights.head)?,
        })
    }

    /// Layers whose operator is attention.
    pub(super) fn attention_layers(&self) -> usize {
        self.layers.iter().filter(|layer| matches!(layer.operator, PackedOperator::Attention(_))).count()
    }

    /// Layers whose operator is a short convolution.
    pub(super) fn convolution_layers(&self) -> usize {
        self.layers.len() - self.attention_layers()
    }
}
