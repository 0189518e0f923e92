//! The parallel regions of a forward pass: each splits its outputs over the threads, never a reduction.

use super::activations::{Activations, Forms};
use super::disjoint::Disjoint;
use super::plan::RowPlan;
use super::pool::{RegionPanicked, ThreadPool};
use crate::arith::{ActivationRow, Kernels, MatrixView, OutputRows, PackedMatrix, RowStatistics, TILE, scalar};

/// The threads and what they compute with.
pub(super) struct Compute {
    pub kernels: Kernels,
    pub pool: ThreadPool,
}

/// One matrix product of several that read the same rows.
pub(super) struct Product<'a> {
    pub matrix: &'a PackedMatrix,
    /// `[row][output]`.
    pub out: &'a mut [f32],
}

impl Compute {
    /// Looks up the embedding of every row's token.
    pub(super) fn embed(
        &mut self,
        embedding: &MatrixView<'_>,
        plan: &RowPlan<'_>,
        out: &mut [f32],
    ) -> Result<(), RegionPanicked> {
        let width = embedding.columns();
        let out = Disjoint::new(out);
        self.pool.split(plan.rows.len(), 1, &|range| {
            for row in range {
                // SAFETY: every row belongs to one range of the split.
                scalar::dequantize_row(embedding, plan.rows[row].token.index(), unsafe { out.row(row, width) });
            }
        })
    }

    /// The statistics of rows of `width` logits.
    pub(super) fn statistics(
        &mut self,
        rows: &[f32],
        width: usize,
        out: &mut Vec<RowStatistics>,
    ) -> Result<(), RegionPanicked> {
        let kernels = self.kernels;
        let count = rows.len() / width;
        out.resize(count, kernels.row_statistics(&[]));
        let out = Disjoint::new(out);
        self.pool.split(count, 1, &|range| {
            for row in range {
                // SAFETY: every row belongs to one range of the split.
                unsafe { out.row(row, 1) }.fill(kernels.row_statistics(&rows[row * width..][..width]));
            }
        })
    }

    /// Puts rows of `width` elements into the forms that the next matrices read.
    pub(super) fn activate(
        &mut self,
        rows: &[f32],
        width: usize,
        forms: Forms,
        out: &mut Activations,
    ) -> Result<(), RegionPanicked> {
        let count = rows.len() / width;
        out.resize(count, forms);
        let kernels = self.kernels;
        let out = out.forms_mut().map(|rows| (rows.len(), Disjoint::new(rows)));
        self.pool.split(count, 1, &|range| {
            for row in range {
                for (length, activations) in &out {
                    if *length > 0 {
                        // SAFETY: every row belongs to one range of the split.
                        let [activation] = (unsafe { activations.row(row, 1) }) else { continue };
                        write_activation(kernels, &rows[row * width..][..width], activation);
                    }
                }
            }
        })
    }

    /// `normalized = rms_norm(rows) * weight`, and its forms into `out`.
    pub(super) fn normalize(
        &mut self,
        rows: &[f32],
        weight: &[f32],
        epsilon: f32,
        normalized: &mut [f32],
        forms: Forms,
        out: &mut Activations,
    ) -> Result<(), RegionPanicked> {
        let width = weight.len();
        let count = rows.len() / width;
        let kernels = self.kernels;
        let parts = Disjoint::new(normalized);
        self.pool.split(count, 1, &|range| {
            for row in range {
                // SAFETY: every row belongs to one range of the split.
                let normalized = unsafe { parts.row(row, width) };
                kernels.rms_norm(&rows[row * width..][..width], weight, epsilon, normalized);
            }
        })?;
        self.activate(normalized, width, forms, out)
    }

    /// Several products of the same rows in one region.
    pub(super) fn project<const N: usize>(
        &mut self,
        activations: &Activations,
        products: [Product<'_>; N],
    ) -> Result<(), RegionPanicked> {
        let kernels = self.kernels;
        let products = products.map(|Product { matrix, out }| (matrix, OutputRows::new(out, matrix.rows())));
        let tiles: usize = products.iter().map(|(matrix, _)| matrix.rows().div_ceil(TILE)).sum();
        self.pool.split(tiles, 1, &|range| {
            let mut first = 0;
            for (matrix, out) in &products {
                let end = first + matrix.rows().div_ceil(TILE);
                let own = range.start.max(first)..range.end.min(end);
                if !own.is_empty() {
                    let outputs = (own.start - first) * TILE..matrix.rows().min((own.end - first) * TILE);
                    // SAFETY: every tile of every product belongs to one range of the split.
                    let columns = unsafe { out.columns(outputs) };
                    kernels.matmul(matrix, activations.for_format(matrix.format()), columns);
                }
                first = end;
            }
        })
    }

    /// `residual += matrix * activations`; `product` is overwritten.
    pub(super) fn project_onto(
        &mut self,
        activations: &Activations,
        matrix: &PackedMatrix,
        product: &mut [f32],
        residual: &mut [f32],
    ) -> Result<(), RegionPanicked> {
        let kernels = self.kernels;
        let rows = activations.for_format(matrix.format());
        let product = OutputRows::new(product, matrix.rows());
        let residual = OutputRows::new(residual, matrix.rows());
        self.pool.split(matrix.rows(), TILE, &|outputs| {
            // SAFETY: every output belongs to one range of the split, here and below, and the view that `matmul` took is
            // gone when the next is made.
            let columns = unsafe { product.columns(outputs.clone()) };
            kernels.matmul(matrix, rows, columns);
            // SAFETY: as above.
            let (mut product, mut residual) =
                unsafe { (product.columns(outputs.clone()), residual.columns(outputs.clone())) };
            for row in 0..rows.len() {
                kernels.add(residual.row_mut(row, outputs.clone()), product.row_mut(row, outputs.clone()));
            }
        })
    }

    /// `out = silu(gate * activations) * (up * activations)`; `gated` and `raised` are overwritten.
    pub(super) fn project_gated(
        &mut self,
        activations: &Activations,
        [gate, up]: [&PackedMatrix; 2],
        [gated, raised, out]: [&mut [f32]; 3],
    ) -> Result<(), RegionPanicked> {
        let kernels = self.kernels;
        let size = gate.rows();
        let [gated, raised, out] = [gated, raised, out].map(|values| OutputRows::new(values, size));
        let row_count = activations.for_format(gate.format()).len();
        self.pool.split(size, TILE, &|outputs| {
            // SAFETY: every output belongs to one range of the split, here and below, and the views that `matmul` took
            // are gone when the next are made.
            let (gated_columns, raised_columns) =
                unsafe { (gated.columns(outputs.clone()), raised.columns(outputs.clone())) };
            kernels.matmul(gate, activations.for_format(gate.format()), gated_columns);
            kernels.matmul(up, activations.for_format(up.format()), raised_columns);
            // SAFETY: as above.
            let [mut gated, mut raised, mut out] =
                [&gated, &raised, &out].map(|rows| unsafe { rows.columns(outputs.clone()) });
            for row in 0..row_count {
                let [gated, raised, out] =
                    [&mut gated, &mut raised, &mut out].map(|columns| columns.row_mut(row, outputs.clone()));
                kernels.silu_product(gated, raised, out);
            }
        })
    }
}

fn write_activation(kernels: Kernels, x: &[f32], activation: &mut ActivationRow) {
    match activation {
        ActivationRow::Quantized(row) => kernels.quantize(x, row),
        ActivationRow::Float(values) => {
            values.clear();
            values.extend(x.iter().map(|x| scalar::canonical(*x)));
        }
    }
}
