//! The plain forward pass: one token at a time, everything remembered, straight from the architecture's definition.

mod attention;
mod convolution;
mod memory;
mod products;

pub use memory::Memory;
pub use products::{Products, ProductsError};

use crate::arith::scalar::{self, RopeTable};
use crate::arith::{ActivationRow, ArithError, KvType};
use crate::model::{LayerWeights, Model, OperatorWeights, Tensor};

/// A model with what the plain forward pass needs beside its weights.
pub struct PlainModel<'a> {
    model: &'a Model,
    rope: RopeTable,
    products: Products,
    kv_type: KvType,
}

/// What is told of operations: the layer, if there is one, the name, and the output, which what comes after is computed
/// from: a listener that changes it sees what would have come of that.
pub type Listener<'a> = dyn FnMut(Option<usize>, &'static str, &mut [f32]) + 'a;

/// Why a token cannot be fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The model does not have it.
    #[error("token {token} is not in the model's vocabulary of {vocabulary_size}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Tokens that the model has.
        vocabulary_size: usize,
    },
    /// The sequence is as long as the model's context.
    #[error("the model's context holds {context_length} tokens")]
    ContextFull {
        /// Tokens of the longest sequence.
        context_length: usize,
    },
}

impl<'a> PlainModel<'a> {
    /// Prepares `model`; keys and values are stored as `kv_type`.
    ///
    /// # Errors
    /// If the model's rotary embedding is none.
    pub fn new(model: &'a Model, products: Products, kv_type: KvType) -> Result<Self, ArithError> {
        let rope = &model.config.rope;
        let rope = RopeTable::new(rope.theta, model.config.head_size, rope.frequency_factors.as_deref())?;
        Ok(Self { model, rope, products, kv_type })
    }

    /// An empty sequence.
    pub fn start(&self) -> Memory {
        Memory::new(self.model.weights.layers.len())
    }

    /// The model that is run.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// The inputs of a layer's short convolution at the `count` positions before `position`, oldest first, from what
    /// `memory` keeps; `None` of a layer that is none. Positions before the sequence, or not fed, count as zero.
    pub fn inputs_before(&self, memory: &Memory, layer: usize, position: u32, count: usize) -> Option<Vec<f32>> {
        self.history_columns(layer)?;
        let history = memory.layers.get(layer)?;
        Some(memory::before(history, position as usize, count, self.model.config.hidden_size))
    }

    /// Positions that the short convolution of a layer looks back on; `None` of a layer that is none.
    pub fn history_columns(&self, layer: usize) -> Option<usize> {
        match &self.model.weights.layers.get(layer)?.operator {
            OperatorWeights::Attention(_) => None,
            OperatorWeights::ShortConvolution(weights) => {
                Some((weights.convolution.len() / self.model.config.hidden_size).saturating_sub(1))
            }
        }
    }

    /// Appends `token` to the sequence and returns the output of the last layer, `hidden_size` elements.
    ///
    /// # Errors
    /// If the token is not in the vocabulary, or the sequence is as long as the model's context.
    pub fn feed(&self, memory: &mut Memory, token: u32) -> Result<Vec<f32>, FeedError> {
        self.feed_and_tell(memory, token, &mut |_, _, _| {})
    }

    /// As [`Self::feed`]; `tell` is told what each operation that captures sketch gives.
    ///
    /// # Errors
    /// Likewise.
    pub fn feed_and_tell(
        &self,
        memory: &mut Memory,
        token: u32,
        tell: &mut Listener<'_>,
    ) -> Result<Vec<f32>, FeedError> {
        let Model { config, weights, .. } = self.model;
        let (vocabulary_size, context_length) = (config.vocabulary_size, config.context_length);
        if token as usize >= vocabulary_size {
            return Err(FeedError::UnknownToken { token, vocabulary_size });
        }
        if memory.length() as usize >= context_length {
            return Err(FeedError::ContextFull { context_length });
        }
        let mut hidden = vec![0.0; config.hidden_size];
        scalar::dequantize_row(&weights.embedding.view(), token as usize, &mut hidden);
        tell(None, "embedding", &mut hidden);
        let rotation = self.rope.rotation(memory.advance());
        for (index, (layer, history)) in weights.layers.iter().zip(&mut memory.layers).enumerate() {
            let input = self.norm(&hidden, &layer.operator_norm);
            let mut tell_of_layer = |name: &'static str, output: &mut [f32]| tell(Some(index), name, output);
            let output = match &layer.operator {
                OperatorWeights::Attention(weights) => {
                    self.attention(weights, history, &rotation, &input, &mut tell_of_layer)
                }
                OperatorWeights::ShortConvolution(weights) => {
                    self.short_convolution(weights, history, &input, &mut tell_of_layer)
                }
            };
            scalar::add(&mut hidden, &output);
            let output = self.feed_forward(layer, &self.norm(&hidden, &layer.feed_forward_norm));
            scalar::add(&mut hidden, &output);
            tell(Some(index), "layer", &mut hidden);
        }
        Ok(hidden)
    }

    /// What the LM head reads, from the output of the last layer.
    pub fn head_input(&self, hidden: &[f32]) -> ActivationRow {
        let weights = &self.model.weights;
        scalar::activation(weights.head.format(), &self.norm(hidden, &weights.output_norm))
    }

    /// The logits row, from what the LM head reads.
    pub fn logits(&self, head_input: &ActivationRow) -> Vec<f32> {
        self.products.matvec(&self.model.weights.head, head_input)
    }

    fn feed_forward(&self, layer: &LayerWeights, input: &[f32]) -> Vec<f32> {
        let gate = self.linear(&layer.gate, input);
        let up = self.linear(&layer.up, input);
        let mut product = vec![0.0; gate.len()];
        scalar::silu_product(&gate, &up, &mut product);
        self.linear(&layer.down, &product)
    }

    fn norm(&self, x: &[f32], weight: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        scalar::rms_norm(x, weight, self.model.config.norm_epsilon, &mut out);
        out
    }

    fn linear(&self, matrix: &Tensor, input: &[f32]) -> Vec<f32> {
        self.products.matvec(matrix, &scalar::activation(matrix.format(), input))
    }
}
