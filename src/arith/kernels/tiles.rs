//! Products with quantized matrices in tiles.

use std::cell::RefCell;
use std::ops::Range;

use super::super::packed::{PackedMatrix, TILE, TileBlock, Tiles};
use super::super::{ActivationRow, BLOCK, Isa, QuantizedRow, avx2, avx512};
use super::prepared::{PreparedBlock, prepare};
use super::{Kernels, OutputColumns, compiled_for};

thread_local! {
    static PREPARED: RefCell<Vec<PreparedBlock>> = const { RefCell::new(Vec::new()) };
}

impl Kernels {
    /// A product with a quantized matrix in tiles.
    pub(super) fn multiply_tiles(
        &self,
        weights: &PackedMatrix,
        tiles: &Tiles,
        activations: &[ActivationRow],
        out: &mut OutputColumns<'_>,
    ) {
        let rows: Vec<&QuantizedRow> = activations.iter().map(|row| quantized(row, weights.columns())).collect();
        let blocks = weights.columns() / BLOCK;
        match tiles {
            Tiles::Q4_0(tiles) => self.multiply_blocks(tiles, blocks, &rows, out),
            Tiles::Q4_1(tiles) => self.multiply_blocks(tiles, blocks, &rows, out),
            Tiles::Q8_0(tiles) => self.multiply_blocks(tiles, blocks, &rows, out),
            Tiles::Q4K(tiles) => self.multiply_blocks(tiles, blocks, &rows, out),
            Tiles::Q6K(tiles) => self.multiply_blocks(tiles, blocks, &rows, out),
        }
    }

    /// A product with tiles of `blocks` blocks each.
    fn multiply_blocks<B: TileBlock>(
        &self,
        tiles: &[B],
        blocks: usize,
        rows: &[&QuantizedRow],
        out: &mut OutputColumns<'_>,
    ) {
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
            // SAFETY: `Kernels::new` checked that this machine has the features of the path.
            Isa::Avx512 => unsafe { avx512::multiply_tile::<B, M>(tile, activations) },
            // SAFETY: as above.
            Isa::Avx2 => unsafe { avx2::multiply_tile::<B, M>(tile, activations) },
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
