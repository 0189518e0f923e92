//! Matrix products: which kernel runs for which layout.

use std::cell::RefCell;
use std::ops::Range;

use super::super::packed::{PackedMatrix, Storage, TILE, TileBlock};
use super::super::{ActivationRow, BLOCK, Isa, MatrixView, QuantizedRow, scalar};
use super::prepared::{PreparedBlock, prepare};
use super::{Kernels, OutputColumns, compiled_for};

thread_local! {
    static PREPARED: RefCell<Vec<PreparedBlock>> = const { RefCell::new(Vec::new()) };
}

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
            Storage::Q4_0(tiles) => self.multiply_tiles(weights, tiles, activations, &mut out),
            Storage::Q4_1(tiles) => self.multiply_tiles(weights, tiles, activations, &mut out),
            Storage::Q8_0(tiles) => self.multiply_tiles(weights, tiles, activations, &mut out),
            Storage::Q4K(tiles) => self.multiply_tiles(weights, tiles, activations, &mut out),
            Storage::Q6K(tiles) => self.multiply_tiles(weights, tiles, activations, &mut out),
        }
    }

    fn multiply_tiles<B: TileBlock>(
        &self,
        weights: &PackedMatrix,
        tiles: &[B],
        activations: &[ActivationRow],
        out: &mut OutputColumns<'_>,
    ) {
        let blocks = weights.columns() / BLOCK;
        let rows: Vec<&QuantizedRow> = activations.iter().map(|row| quantized(row, weights.columns())).collect();
        PREPARED.with_borrow_mut(|prepared| {
            prepared.clear();
            for group in row_groups(rows.len(), self.largest_group()) {
                self.prepare::<B>(&rows[group], prepared);
            }
            for first in out.range().step_by(TILE) {
                let outputs = first..out.range().end.min(first + TILE);
                let tile = &tiles[first / TILE * blocks..][..blocks];
                for group in row_groups(rows.len(), self.largest_group()) {
                    let prepared = &prepared[group.start * blocks..group.end * blocks];
                    match group.len() {
                        8 => self.multiply_tile::<B, 8>(tile, prepared, group.start, &outputs, out),
                        4 => self.multiply_tile::<B, 4>(tile, prepared, group.start, &outputs, out),
                        2 => self.multiply_tile::<B, 2>(tile, prepared, group.start, &outputs, out),
                        _ => self.multiply_tile::<B, 1>(tile, prepared, group.start, &outputs, out),
                    }
                }
            }
        });
    }

    fn multiply_tile<B: TileBlock, const M: usize>(
        &self,
        tile: &[B],
        prepared: &[PreparedBlock],
        first_row: usize,
        outputs: &Range<usize>,
        out: &mut OutputColumns<'_>,
    ) {
        let (activations, _) = prepared.as_chunks::<M>();
        let sums = match self.isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels::new` checked that this machine has the features of the path.
            Isa::Avx512 => unsafe { super::super::avx512::multiply_tile::<B, M>(tile, activations) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { super::super::avx2::multiply_tile::<B, M>(tile, activations) },
            isa => unreachable!("{isa} keeps matrices in rows"),
        };
        for (row, sums) in sums.iter().enumerate() {
            let out = out.row_mut(first_row + row, outputs.clone());
            match out.first_chunk_mut() {
                Some(out) => *out = *sums,
                None => out.copy_from_slice(&sums[..out.len()]),
            }
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
        if self.isa != Isa::Scalar {
            return self.multiply_floats(&view, activations, out);
        }
        let range = out.range();
        for (row, activation) in activations.iter().enumerate() {
            for (output, value) in range.clone().zip(out.row_mut(row, range.clone())) {
                *value = scalar::dot(&view, output, activation);
            }
        }
    }

    fn prepare<B: TileBlock>(&self, rows: &[&QuantizedRow], prepared: &mut Vec<PreparedBlock>) {
        let (bias, halves) = (self.bias::<B>(), B::HALVES);
        compiled_for!(
            self.isa,
            fn(
                rows: &[&QuantizedRow] = rows,
                bias: i32 = bias,
                halves: bool = halves,
                prepared: &mut Vec<PreparedBlock> = prepared,
            ) {
                prepare(rows, bias, halves, prepared);
            }
        );
    }

    /// What the path's kernels want taken off for each weight.
    fn bias<B: TileBlock>(&self) -> i32 {
        match (self.isa, B::BIAS) {
            // It restores the signs of 8-bit weights itself, for want of range.
            (Isa::Avx2, 128) => 0,
            (_, bias) => bias,
        }
    }

    /// Activation rows that the path's registers hold at once: a power of two up to 8.
    fn largest_group(&self) -> usize {
        match self.isa {
            Isa::Avx512 => 8,
            Isa::Avx2 | Isa::Scalar => 4,
        }
    }
}

/// Cuts `rows` rows into groups of `largest`, then of its halves.
pub(super) fn row_groups(rows: usize, largest: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let left = rows - start;
        let size = if left == 0 { return None } else { largest.min(1 << left.ilog2()) };
        start += size;
        Some(start - size..start)
    })
}

fn quantized(row: &ActivationRow, columns: usize) -> &QuantizedRow {
    match row {
        ActivationRow::Quantized(row) if row.values.len() == columns && row.scales.len() == columns / BLOCK => row,
        ActivationRow::Quantized(row) => panic!("a row of {} for {columns} columns", row.values.len()),
        ActivationRow::Float(_) => panic!("a quantized matrix reads quantized activation rows"),
    }
}
