//! What goes into a step and what comes out of it.

use crate::arith::{ActivationRow, RowStatistics, Sketch};
use crate::types::{PageId, Position, StateSlot, TokenId};

/// A saved history of every recurrent layer; numbered by the engine, stored by the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u32);

/// The recurrent state an entry reads and replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateAccess {
    /// The row of the state table.
    pub slot: StateSlot,
    /// Column its history begins at: `prev_accepted - 1`, and 0 after prefill or a restored snapshot.
    pub column: usize,
}

/// The work of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepBatch {
    /// One entry per sequence. No two may write to the same page or name the same state slot.
    pub entries: Vec<BatchEntry>,
}

/// One sequence's share of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchEntry {
    /// Consecutive tokens, at least one.
    pub tokens: Vec<TokenId>,
    /// Position of the first of them.
    pub first_position: Position,
    /// Pages of the sequence in order; they cover positions `0 .. first_position + tokens.len()`.
    pub pages: Vec<PageId>,
    /// The recurrent state; `None` exactly when the model has none.
    pub state: Option<StateAccess>,
    /// Whether the short convolutions run. Where they do not, they give zeros and leave the state row as it was, as kernels do
    /// with an access that their bounds refuse: what the engine asks for is always legal, so only planted faults set this.
    pub convolves: bool,
    /// Index of the first token whose logits row is wanted; all later ones are too. `tokens.len()` for none.
    pub logits_from: usize,
    /// Whether this is a chunk of the prompt, all of it committed. Otherwise it is one committed token and drafts.
    pub prefill: bool,
    /// Snapshots to take inside a prefill chunk: the state of a sequence that ends just before the position, which is
    /// within `first_position + 1 ..= first_position + tokens.len()`.
    pub snapshots: Vec<(Position, SnapshotId)>,
}

impl BatchEntry {
    /// Logits rows the entry asks for.
    pub fn logits_rows(&self) -> usize {
        self.tokens.len().saturating_sub(self.logits_from)
    }
}

/// An operation whose outputs are sketched, as docs/arithmetic.md defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The residual stream before the first layer.
    Embedding,
    /// What the heads of an attention layer give.
    Attention,
    /// What a short convolution reads of the tokens before.
    History,
    /// What it gives.
    ShortConvolution,
    /// The residual stream after a layer.
    Layer,
}

impl Operation {
    /// Its name in captures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Attention => "attention",
            Self::History => "history",
            Self::ShortConvolution => "short_convolution",
            Self::Layer => "layer",
        }
    }
}

/// The sketches of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationSketches {
    /// The layer; `None` outside the layers.
    pub layer: Option<usize>,
    /// The operation.
    pub operation: Operation,
    /// One per wanted row, in batch order.
    pub rows: Vec<Sketch>,
}

/// What a step computed: the wanted rows of every entry, in batch order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutput {
    /// Raw logits, `[row][vocabulary]`.
    pub rows: Vec<f32>,
    /// What the LM head read, per row.
    pub inputs: Vec<ActivationRow>,
    /// Statistics of each raw row.
    pub statistics: Vec<RowStatistics>,
    /// Sketches of what the wanted rows passed through, in the order of the operations; empty unless asked for.
    pub sketches: Vec<OperationSketches>,
    /// Time the step took, in nanoseconds.
    pub forward_ns: u64,
}

impl StepOutput {
    /// The raw logits of row `index`, or `None` past the last one.
    pub fn row(&self, index: usize) -> Option<&[f32]> {
        let vocabulary = self.rows.len().checked_div(self.statistics.len())?;
        self.rows.chunks_exact(vocabulary.max(1)).nth(index)
    }
}
