//! Matrix products: which kernel runs for which layout.

use super::super::packed::{PackedMatrix, Storage, TILE};
use super::super::{ActivationRow, MatrixView, scalar};
use super::{Kernels, OutputColumns};

impl Kernels {
    /// The product of `weights` with each activation row, for the outputs that `out` covers.
    ///
    /// A thread computes whole tiles: the first output of `out` is a multiple of [`TILE`]. The result does not depend on
    /// how outputs and activation rows are grouped into calls.
    ///
    /// # Panics
    ///
    /// If the matrix was packed for another path, or if shapes or formats disagree.
    pub fn matmul(&self, weights: &PackedMatrix, activations: &[ActivationRow], mut out: OutputColumns<'_>) {
        assert_eq!(weights.isa(), self.isa, "the matrix is packed for another path");
        assert_eq!(activations.len(), out.rows(), "activation rows and output rows");
        assert!(out.range().end <= weights.rows(), "outputs {:?} of {}", out.range(), weights.rows());
        if out.range().is_empty() {
            return;
        }
        assert!(out.range().start.is_multiple_of(TILE), "outputs {:?} start within a tile", out.range());
        match &weights.storage {
            Storage::Rows(bytes) => self.multiply_matrix(weights, bytes, activations, &mut out),
            #[cfg(target_arch = "x86_64")]
            Storage::Tiles(tiles) => self.multiply_tiles(weights, tiles, activations, &mut out),
        }
    }

    /// A product with a matrix in its file layout.
    fn multiply_matrix(
        &self,
        weights: &PackedMatrix,
        bytes: &[u8],
        activations: &[ActivationRow],
        out: &mut OutputColumns<'_>,
    ) {
        let view = MatrixView::new(weights.format(), weights.rows(), weights.columns(), bytes)
            .unwrap_or_else(|error| unreachable!("packed from a view of the same shape: {error}"));
        #[cfg(target_arch = "x86_64")]
        if self.isa != super::super::Isa::Scalar {
            return self.multiply_floats(&view, activations, out);
        }
        let range = out.range();
        for (row, activation) in activations.iter().enumerate() {
            for (output, value) in range.clone().zip(out.row_mut(row, range.clone())) {
                *value = scalar::dot(&view, output, activation);
            }
        }
    }
}
