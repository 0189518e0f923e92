//! The forward pass: the definition of the model, over all rows of a step at once.

use super::activations::Forms;
use super::attention::Heads;
use super::buffers::Buffers;
use super::compute::{Compute, Product};
use super::convolution::{self, Windows};
use super::kv_cache::KvCache;
use super::plan::RowPlan;
use super::pool::RegionPanicked;
use super::sketches::Sketcher;
use super::state::ConvolutionState;
use super::weights::{PackedAttention, PackedConvolution, PackedLayer, PackedOperator, PackedWeights};
use crate::arith::MatrixView;
use crate::arith::scalar::Rotation;
use crate::backend::{Operation, OperationSketches, StepOutput};
use crate::model::ModelConfig;

/// One step through the model.
///
/// `residual` in the buffers is the residual stream, `[row][hidden]`. Every operation reads `activations`, which the
/// operation before it left, and ends by adding to the residual stream.
pub(super) struct Forward<'a> {
    pub config: &'a ModelConfig,
    pub weights: &'a PackedWeights,
    pub embedding: MatrixView<'a>,
    /// One per row.
    pub rotations: &'a [Rotation],
    pub plan: &'a RowPlan<'a>,
    pub compute: &'a mut Compute,
    pub cache: &'a mut KvCache,
    pub state: &'a mut ConvolutionState,
    pub buffers: &'a mut Buffers,
    /// `None` if the step is not sketched.
    pub sketcher: Option<&'a Sketcher>,
}

impl Forward<'_> {
    /// Computes the wanted rows into `output`.
    pub(super) fn run(mut self, output: &mut StepOutput) -> Result<(), RegionPanicked> {
        let sketches = &mut output.sketches;
        sketches.clear();
        self.embed()?;
        self.sketch(None, Operation::Embedding, sketches)?;
        for (index, layer) in self.weights.layers.iter().enumerate() {
            let index = Some(index);
            match &layer.operator {
                PackedOperator::Attention(attention) => {
                    self.normalize(
                        &layer.operator_norm,
                        Forms::of([&attention.query, &attention.key, &attention.value]),
                    )?;
                    self.attention(attention)?;
                    self.sketch(index, Operation::Attention, sketches)?;
                }
                PackedOperator::ShortConvolution(convolution) => {
                    self.normalize(&layer.operator_norm, Forms::of([&convolution.in_projection]))?;
                    self.short_convolution(convolution)?;
                    self.sketch(index, Operation::History, sketches)?;
                    self.sketch(index, Operation::ShortConvolution, sketches)?;
                }
            }
            self.normalize(&layer.feed_forward_norm, Forms::of([&layer.gate, &layer.up]))?;
            self.feed_forward(layer)?;
            self.sketch(index, Operation::Layer, sketches)?;
        }
        self.head(output)
    }
}

impl Forward<'_> {
    /// `residual = embedding[token]`.
    fn embed(&mut self) -> Result<(), RegionPanicked> {
        self.compute.embed(&self.embedding, self.plan, &mut self.buffers.residual)
    }

    /// `activations = rms_norm(residual) * weight`.
    fn normalize(&mut self, weight: &[f32], forms: Forms) -> Result<(), RegionPanicked> {
        let Buffers { residual, normalized, activations, .. } = &mut *self.buffers;
        self.compute.normalize(residual, weight, self.config.norm_epsilon, normalized, forms, activations)
    }

    /// Grouped-query attention, `residual += output * attention(query, key, value)`.
    fn attention(&mut self, layer: &PackedAttention) -> Result<(), RegionPanicked> {
        let Buffers { residual, activations, query, key, value, mixed, product, .. } = &mut *self.buffers;
        let heads = Heads::of(self.config);
        let mixed = &mut mixed[..query.len()];
        let products = [(&layer.query, &mut *query), (&layer.key, &mut *key), (&layer.value, &mut *value)];
        self.compute.project(activations, products.map(|(matrix, out)| Product { matrix, out }))?;
        self.compute.rotate(query, layer.query_norm.as_deref(), self.rotations, heads)?;
        self.compute.rotate(key, layer.key_norm.as_deref(), self.rotations, heads)?;
        self.compute.store(self.cache, layer.cache_layer, self.plan, [key, value], heads)?;
        self.compute.attend(self.cache, layer.cache_layer, self.plan, [query, mixed], heads)?;
        self.compute.activate(mixed, heads.heads * heads.head_size, Forms::of([&layer.output]), activations)?;
        self.compute.project_onto(activations, &layer.output, product, residual)
    }

    /// Gated short convolution, `residual += out_projection * (C * convolution(B * x))`.
    fn short_convolution(&mut self, layer: &PackedConvolution) -> Result<(), RegionPanicked> {
        let state = &mut *self.state;
        let Buffers { residual, activations, gates, window, mixed, product, .. } = &mut *self.buffers;
        let hidden = self.config.hidden_size;
        let mixed = &mut mixed[..residual.len()];
        let windows = &mut Windows { rows: window, history: state.history_columns(), channels: hidden };
        self.compute.project(activations, [Product { matrix: &layer.in_projection, out: gates }])?;
        convolution::load_histories(self.plan, layer.state_layer, state, windows);
        self.compute.convolve(self.plan, &layer.taps, gates, windows, mixed)?;
        convolution::roll(self.plan, layer.state_layer, state, windows);
        self.compute.activate(mixed, hidden, Forms::of([&layer.out_projection]), activations)?;
        self.compute.project_onto(activations, &layer.out_projection, product, residual)
    }

    /// SwiGLU, `residual += down * (silu(gate) * up)`.
    fn feed_forward(&mut self, layer: &PackedLayer) -> Result<(), RegionPanicked> {
        let Buffers { residual, activations, gated, raised, fed, product, .. } = &mut *self.buffers;
        self.compute.project_gated(activations, [&layer.gate, &layer.up], [gated, raised, fed])?;
        self.compute.activate(fed, self.config.feed_forward_size, Forms::of([&layer.down]), activations)?;
        self.compute.project_onto(activations, &layer.down, product, residual)
    }

    /// Sketches what the operation left, if the step is sketched.
    fn sketch(
        &mut self,
        layer: Option<usize>,
        operation: Operation,
        out: &mut Vec<OperationSketches>,
    ) -> Result<(), RegionPanicked> {
        let Some(sketcher) = self.sketcher else { return Ok(()) };
        out.push(sketcher.sketch(self.compute, self.plan, self.buffers, (layer, operation))?);
        Ok(())
    }

    /// The logits of the wanted rows, what the head read for them, and their statistics.
    fn head(mut self, output: &mut StepOutput) -> Result<(), RegionPanicked> {
        self.keep_wanted_rows();
        let head = &self.weights.head;
        self.normalize(&self.weights.output_norm, Forms::of([head]))?;
        let activations = &mut self.buffers.activations;
        output.rows.resize(self.plan.wanted.len() * head.rows(), 0.0);
        self.compute.project(activations, [Product { matrix: head, out: &mut output.rows }])?;
        std::mem::swap(&mut output.inputs, activations.for_format_mut(head.format()));
        self.compute.statistics(&output.rows, head.rows(), &mut output.statistics)
    }

    /// Moves the rows whose logits are wanted to the front of the residual stream, and drops the others.
    fn keep_wanted_rows(&mut self) {
        let hidden = self.config.hidden_size;
        let Buffers { residual, normalized, .. } = &mut *self.buffers;
        for (index, &row) in self.plan.wanted.iter().enumerate() {
            residual.copy_within(row * hidden..(row + 1) * hidden, index * hidden);
        }
        let kept = self.plan.wanted.len() * hidden;
        residual.truncate(kept);
        normalized.truncate(kept);
    }
}
