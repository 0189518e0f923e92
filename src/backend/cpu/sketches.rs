//! Sketches of what the wanted rows pass through.

use super::buffers::Buffers;
use super::compute::Compute;
use super::disjoint::Disjoint;
use super::plan::RowPlan;
use super::pool::RegionPanicked;
use crate::arith::{Sketch, SketchSigns};
use crate::backend::{Operation, OperationSketches};
use crate::model::ModelConfig;

/// What sketching needs, kept between steps.
pub(super) struct Sketcher {
    signs: SketchSigns,
    hidden: usize,
    /// Heads times head size.
    attention: usize,
    /// Columns that a short convolution looks back on.
    history: usize,
}

impl Sketcher {
    pub(super) fn new(config: &ModelConfig, history: usize) -> Self {
        let (hidden, attention) = (config.hidden_size, config.heads * config.head_size);
        Self { signs: SketchSigns::new(hidden.max(attention).max(history * hidden)), hidden, attention, history }
    }

    /// Sketches the operation's output, which still stands in the buffers, for every wanted row.
    pub(super) fn sketch(
        &self,
        compute: &mut Compute,
        plan: &RowPlan<'_>,
        buffers: &Buffers,
        (layer, operation): (Option<usize>, Operation),
    ) -> Result<OperationSketches, RegionPanicked> {
        let output = |row: usize| match operation {
            Operation::Embedding | Operation::Layer => &buffers.residual[row * self.hidden..][..self.hidden],
            Operation::Attention => &buffers.mixed[row * self.attention..][..self.attention],
            Operation::ShortConvolution => &buffers.mixed[row * self.hidden..][..self.hidden],
            // Every entry's window begins with its history, which shifts the rows after it.
            Operation::History => {
                let first = row + plan.rows[row].entry * self.history;
                &buffers.window[first * self.hidden..][..self.history * self.hidden]
            }
        };
        let kernels = compute.kernels;
        let mut rows = vec![Sketch { magnitude: 0.0, projections: [0.0; Sketch::PROJECTIONS] }; plan.wanted.len()];
        let out = Disjoint::new(&mut rows);
        compute.pool.split(plan.wanted.len(), 1, &|range| {
            for index in range {
                // SAFETY: every row belongs to one range of the split.
                unsafe { out.row(index, 1) }.fill(kernels.sketch(&self.signs, output(plan.wanted[index])));
            }
        })?;
        Ok(OperationSketches { layer, operation, rows })
    }
}
