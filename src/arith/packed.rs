//! Weight matrices laid out for the vector kernels.
//!
//! A quantized matrix is cut into tiles of [`TILE`] rows. Float matrices, and every matrix of the scalar path, keep their
//! file layout.

#[cfg(target_arch = "x86_64")]
mod blocks;
mod memory;
#[cfg(target_arch = "x86_64")]
mod tiles;

#[cfg(target_arch = "x86_64")]
pub(in crate::arith) use blocks::{Scales, TileBlock};
pub use memory::WeightMemory;
#[cfg(target_arch = "x86_64")]
pub(in crate::arith) use tiles::{LANE_ORDER, Tiles, lane_blocks, lane_order};

use std::io;

use memory::Stored;

use super::{Isa, MatrixView, WeightFormat};

/// Rows of one tile: outputs that a matrix product computes together.
pub const TILE: usize = 16;

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
    /// Quantized, for the vector paths.
    #[cfg(target_arch = "x86_64")]
    Tiles(Tiles),
}

impl Storage {
    fn new(isa: Isa, matrix: &MatrixView<'_>, memory: &mut WeightMemory) -> io::Result<Self> {
        #[cfg(target_arch = "x86_64")]
        if isa != Isa::Scalar
            && let Some(tiles) = Tiles::pack(matrix, memory)?
        {
            return Ok(Self::Tiles(tiles));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let Isa::Scalar = isa else { unreachable!("{isa} kernels on this architecture") };
        let bytes = matrix.bytes();
        Ok(Self::Rows(memory.store(bytes.len(), |stored| stored.copy_from_slice(bytes))?))
    }
}

impl PackedMatrix {
    /// Copies `matrix` into the layout of `isa`.
    pub(in crate::arith) fn new(isa: Isa, matrix: &MatrixView<'_>, memory: &mut WeightMemory) -> io::Result<Self> {
        let storage = Storage::new(isa, matrix, memory)?;
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
            #[cfg(target_arch = "x86_64")]
            Storage::Tiles(tiles) => tiles.bytes(),
        }
    }
}
