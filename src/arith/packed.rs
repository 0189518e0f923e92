//! Weight matrices laid out for the vector kernels.
//!
//! A quantized matrix is cut into tiles of [`TILE`] rows, one vector lane per row; a tile is its blocks of 32 columns
//! in *lane order*: the blocks of contract lane 0, then those of lanes 4, 2, 6, 1, 5, 3, 7. Read front to back, each
//! contract lane is finished before the next begins, and the lanes arrive in the order in which the contract's tree
//! `((0+4)+(2+6))+((1+5)+(3+7))` adds them. Float matrices, and every matrix of the scalar path, keep their file
//! layout.

mod blocks;
mod memory;

pub(in crate::arith) use blocks::{Q4_0, Q4_1, Q4K, Q6K, Q8_0, Scales, TileBlock};
pub use memory::WeightMemory;

use std::io;

use memory::{Plain, Stored};

use super::{Isa, MatrixView, WeightFormat};

/// Rows of one tile: outputs that a matrix product computes together.
pub const TILE: usize = 16;

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

/// A weight matrix in the layout that one [`Isa`] reads; [`super::Kernels::pack`] makes it.
#[derive(Clone, Debug)]
pub struct PackedMatrix {
    format: WeightFormat,
    rows: usize,
    columns: usize,
    isa: Isa,
    pub(in crate::arith) storage: Storage,
}

/// The bytes of a packed matrix.
#[derive(Clone, Debug)]
pub(in crate::arith) enum Storage {
    /// As in the file.
    Rows(Stored<u8>),
    Q4_0(Stored<Q4_0>),
    Q4_1(Stored<Q4_1>),
    Q8_0(Stored<Q8_0>),
    Q4K(Stored<Q4K>),
    Q6K(Stored<Q6K>),
}

impl PackedMatrix {
    /// Copies `matrix` into the layout of `isa`.
    pub(in crate::arith) fn new(isa: Isa, matrix: &MatrixView<'_>, memory: &mut WeightMemory) -> io::Result<Self> {
        let storage = match (isa, matrix.format()) {
            (Isa::Scalar, _) | (_, WeightFormat::F32 | WeightFormat::F16 | WeightFormat::Bf16) => {
                let bytes = matrix.bytes();
                Storage::Rows(memory.store(bytes.len(), |stored| stored.copy_from_slice(bytes))?)
            }
            (_, WeightFormat::Q4_0) => Storage::Q4_0(pack_tiles(matrix, memory)?),
            (_, WeightFormat::Q4_1) => Storage::Q4_1(pack_tiles(matrix, memory)?),
            (_, WeightFormat::Q8_0) => Storage::Q8_0(pack_tiles(matrix, memory)?),
            (_, WeightFormat::Q4K) => Storage::Q4K(pack_tiles(matrix, memory)?),
            (_, WeightFormat::Q6K) => Storage::Q6K(pack_tiles(matrix, memory)?),
        };
        Ok(Self { format: matrix.format(), rows: matrix.rows(), columns: matrix.columns(), isa, storage })
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The format of the matrix it was packed from.
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// The path whose kernels read this layout.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Bytes that one product reads.
    pub fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Rows(bytes) => bytes.len(),
            Storage::Q4_0(blocks) => size_of_val::<[Q4_0]>(blocks),
            Storage::Q4_1(blocks) => size_of_val::<[Q4_1]>(blocks),
            Storage::Q8_0(blocks) => size_of_val::<[Q8_0]>(blocks),
            Storage::Q4K(blocks) => size_of_val::<[Q4K]>(blocks),
            Storage::Q6K(blocks) => size_of_val::<[Q6K]>(blocks),
        }
    }
}

/// Packs a quantized matrix; the last tile is filled up with rows of zeros.
fn pack_tiles<B: TileBlock + Plain>(matrix: &MatrixView<'_>, memory: &mut WeightMemory) -> io::Result<Stored<B>> {
    let blocks = matrix.columns() / super::BLOCK;
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
