//! Quantized matrices in tiles: one vector lane per matrix row.
//!
//! A tile is its blocks of 32 columns in *lane order*: the blocks of contract lane 0, then those of lanes 4, 2, 6, 1, 5, 3,
//! 7. Read front to back, each contract lane is finished before the next begins, and the lanes arrive in the order in which
//! the contract's tree `((0+4)+(2+6))+((1+5)+(3+7))` adds them.

use std::io;

use super::super::{BLOCK, MatrixView, WeightFormat};
use super::TILE;
use super::blocks::{Q4_0, Q4_1, Q4K, Q6K, Q8_0, TileBlock};
use super::memory::{Plain, Stored, WeightMemory};

/// The contract's block lanes in the order in which its tree consumes them.
pub(in crate::arith) const LANE_ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

/// How many of a row's `blocks` belong to contract lane `lane`.
pub(in crate::arith) fn lane_blocks(blocks: usize, lane: usize) -> usize {
    (blocks + 7 - lane) / 8
}

/// The blocks of a row in lane order.
pub(in crate::arith) fn lane_order(blocks: usize) -> impl Iterator<Item = usize> {
    LANE_ORDER.into_iter().flat_map(move |lane| (lane..blocks).step_by(8))
}

/// The tiles of a matrix, one after another.
#[derive(Clone, Debug)]
pub(in crate::arith) enum Tiles {
    Q4_0(Stored<Q4_0>),
    Q4_1(Stored<Q4_1>),
    Q8_0(Stored<Q8_0>),
    Q4K(Stored<Q4K>),
    Q6K(Stored<Q6K>),
}

impl Tiles {
    /// Packs a quantized matrix; a float matrix has no tiles.
    pub(super) fn pack(matrix: &MatrixView<'_>, memory: &mut WeightMemory) -> io::Result<Option<Self>> {
        Ok(Some(match matrix.format() {
            WeightFormat::F32 | WeightFormat::F16 | WeightFormat::Bf16 => return Ok(None),
            WeightFormat::Q4_0 => Self::Q4_0(pack_tiles(matrix, memory)?),
            WeightFormat::Q4_1 => Self::Q4_1(pack_tiles(matrix, memory)?),
            WeightFormat::Q8_0 => Self::Q8_0(pack_tiles(matrix, memory)?),
            WeightFormat::Q4K => Self::Q4K(pack_tiles(matrix, memory)?),
            WeightFormat::Q6K => Self::Q6K(pack_tiles(matrix, memory)?),
        }))
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Q4_0(blocks) => size_of_val::<[Q4_0]>(blocks),
            Self::Q4_1(blocks) => size_of_val::<[Q4_1]>(blocks),
            Self::Q8_0(blocks) => size_of_val::<[Q8_0]>(blocks),
            Self::Q4K(blocks) => size_of_val::<[Q4K]>(blocks),
            Self::Q6K(blocks) => size_of_val::<[Q6K]>(blocks),
        }
    }
}

/// Packs a quantized matrix; the last tile is filled up with rows of zeros.
fn pack_tiles<B: TileBlock + Plain>(matrix: &MatrixView<'_>, memory: &mut WeightMemory) -> io::Result<Stored<B>> {
    let blocks = matrix.columns() / BLOCK;
    memory.store(matrix.rows().div_ceil(TILE) * blocks, |tiles: &mut [B]| {
        for row in 0..matrix.rows() {
            let tile = &mut tiles[row / TILE * blocks..][..blocks];
            for (packed, block) in tile.iter_mut().zip(lane_order(blocks)) {
                packed.set_lane(row % TILE, matrix.row_bytes(row), block);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_order_visits_every_block_once_and_lane_by_lane() {
        for blocks in 0..40 {
            let order: Vec<usize> = lane_order(blocks).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..blocks).collect::<Vec<_>>());
            let counts: usize = LANE_ORDER.iter().map(|&lane| lane_blocks(blocks, lane)).sum();
            assert_eq!(counts, blocks);
        }
        assert_eq!(lane_order(18).collect::<Vec<_>>(), [0, 8, 16, 4, 12, 2, 10, 6, 14, 1, 9, 17, 5, 13, 3, 11, 7, 15]);
    }
}
