//! The weights of a model, as they stand in its files.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::arith::{MatrixView, WeightFormat};
use crate::backend::mapped_file::MappedFile;
use crate::model::error::Problem;

/// Every weight of a model.
#[derive(Clone, Debug)]
pub struct Weights {
    /// Vocabulary size x hidden size: one row per token.
    pub embedding: Tensor,
    /// From the embedding up.
    pub layers: Vec<LayerWeights>,
    /// Hidden size: the norm before the head.
    pub output_norm: Vec<f32>,
    /// Vocabulary size x hidden size; the embedding where the two are tied.
    pub head: Tensor,
}

/// One layer: `x += operator(norm(x))`, then `x += down(silu(gate(n)) * up(n))` with `n = feed_forward_norm(x)`.
#[derive(Clone, Debug)]
pub struct LayerWeights {
    /// Hidden size.
    pub operator_norm: Vec<f32>,
    /// Attention or convolution.
    pub operator: OperatorWeights,
    /// Hidden size.
    pub feed_forward_norm: Vec<f32>,
    /// Feed-forward size x hidden size.
    pub gate: Tensor,
    /// Feed-forward size x hidden size.
    pub up: Tensor,
    /// Hidden size x feed-forward size.
    pub down: Tensor,
}

/// The operator of a layer.
#[derive(Clone, Debug)]
pub enum OperatorWeights {
    /// Grouped-query attention.
    Attention(AttentionWeights),
    /// Gated short convolution.
    ShortConvolution(ConvolutionWeights),
}

/// Grouped-query attention; no biases.
#[derive(Clone, Debug)]
pub struct AttentionWeights {
    /// (Heads · head size) x hidden size, rows ordered for the config's rope layout.
    pub query: Tensor,
    /// (Key-value heads · head size) x hidden size, likewise.
    pub key: Tensor,
    /// (Key-value heads · head size) x hidden size.
    pub value: Tensor,
    /// Hidden size x (heads · head size).
    pub output: Tensor,
    /// Head size: an RMS norm of each query head before the rotation; `None` where the architecture has none.
    pub query_norm: Option<Vec<f32>>,
    /// Head size: likewise of each key head.
    pub key_norm: Option<Vec<f32>>,
}

/// Gated short convolution: `out_projection(C * convolution(B * x))` with `B, C, x = in_projection(input)`.
#[derive(Clone, Debug)]
pub struct ConvolutionWeights {
    /// (3 · hidden size) x hidden size: the rows of B, then C, then x.
    pub in_projection: Tensor,
    /// Hidden size x convolution width, one channel after the other; tap 0 meets the oldest input.
    pub convolution: Vec<f32>,
    /// Hidden size x hidden size.
    pub out_projection: Tensor,
}

/// A weight matrix inside a mapped file. Cheap to clone.
#[derive(Clone)]
pub struct Tensor {
    name: Arc<str>,
    format: WeightFormat,
    rows: usize,
    columns: usize,
    file: Arc<MappedFile>,
    range: Range<usize>,
}

impl Tensor {
    /// A matrix whose bytes stand at `range` of `file`.
    pub(crate) fn new(
        name: &str,
        format: WeightFormat,
        rows: usize,
        columns: usize,
        file: Arc<MappedFile>,
        range: Range<usize>,
    ) -> Result<Self, Problem> {
        let bytes = file.bytes().get(range.clone()).unwrap_or_default();
        if let Err(error) = MatrixView::new(format, rows, columns, bytes) {
            return Err(Problem::tensor(name, format!("a {rows} x {columns} matrix"), error.to_string()));
        }
        Ok(Self { name: name.into(), format, rows, columns, file, range })
    }

    /// The matrix itself.
    pub fn view(&self) -> MatrixView<'_> {
        // The same arguments made a view when the tensor was made.
        MatrixView::new(self.format, self.rows, self.columns, self.bytes()).expect("checked by Tensor::new")
    }

    /// Its name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its elements are stored.
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// Outputs of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs of the matrix.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Its bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.file.bytes()[self.range.clone()]
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, format, rows, columns, .. } = self;
        write!(formatter, "{name} ({format:?}, {rows} x {columns})")
    }
}
