//! The contract through the instruction set of the machine: the operations of [`scalar`] on whole rows, bit for bit.
//!
//! A NaN that is not stored, hashed or compared may keep another payload than the scalar form's.

mod attention;
mod convolution;
mod elementwise;
#[cfg(target_arch = "x86_64")]
mod float;
mod matmul;
mod noise;
mod output;
#[cfg(target_arch = "x86_64")]
mod prepared;
mod quantize;
mod sketch;
mod statistics;
#[cfg(target_arch = "x86_64")]
mod tiles;

#[cfg(target_arch = "x86_64")]
pub(in crate::arith) use attention::KvNumber;
pub use attention::{KvPage, KvPageMut};
#[cfg(target_arch = "x86_64")]
pub(in crate::arith) use float::{FloatWeight, LANES, sum_lanes};
pub use output::{OutputColumns, OutputRows};
#[cfg(target_arch = "x86_64")]
pub(in crate::arith) use prepared::PreparedBlock;
pub use sketch::SketchSigns;

use std::io;

use super::packed::{PackedMatrix, WeightMemory};
use super::scalar::{self, Rotation};
use super::{Isa, MatrixView, UnsupportedIsa, WeightFormat};

/// One path through the contract. Having one proves that this machine supports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernels {
    isa: Isa,
}

impl Kernels {
    /// The kernels of `isa`.
    ///
    /// # Errors
    ///
    /// If this machine lacks a feature of the path.
    pub fn new(isa: Isa) -> Result<Self, UnsupportedIsa> {
        let missing = isa.missing_features();
        if missing.is_empty() { Ok(Self { isa }) } else { Err(UnsupportedIsa { isa, missing }) }
    }

    /// The fastest kernels that this machine supports.
    pub fn detect() -> Self {
        Self { isa: Isa::detect() }
    }

    /// Which path it is.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Copies a matrix into `memory`, in the layout that [`Self::matmul`] reads.
    ///
    /// # Errors
    ///
    /// If the system has no memory left.
    pub fn pack(&self, matrix: &MatrixView<'_>, memory: &mut WeightMemory) -> io::Result<PackedMatrix> {
        PackedMatrix::new(self.isa, matrix, memory)
    }
}

/// Runs `$body`, a call of an `#[inline(always)]` function, compiled with the features of the path.
macro_rules! compiled_for {
    ($isa:expr, fn($($argument:ident: $type:ty = $value:expr),* $(,)?) $(-> $output:ty)? $body:block) => {{
        #[inline(always)]
        fn portable($($argument: $type),*) $(-> $output)? $body

        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2($($argument: $type),*) $(-> $output)? {
                portable($($argument),*)
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            fn avx512($($argument: $type),*) $(-> $output)? {
                portable($($argument),*)
            }

            match $isa {
                $crate::arith::Isa::Scalar => portable($($value),*),
                // SAFETY: the path of a `Kernels` was checked when it was made.
                $crate::arith::Isa::Avx2 => unsafe { avx2($($value),*) },
                // SAFETY: as above.
                $crate::arith::Isa::Avx512 => unsafe { avx512($($value),*) },
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        portable($($value),*)
    }};
}
use compiled_for;

/// The contract's tree of halves: for 32 lanes, lane j takes lane j + 16, then + 8, + 4, + 2, + 1.
#[inline(always)]
fn sum_by_halves<const N: usize>(mut lanes: [f32; N]) -> f32 {
    let mut width = N / 2;
    while width > 0 {
        let (low, high) = lanes.split_at_mut(width);
        for (low, high) in low.iter_mut().zip(&high[..width]) {
            *low += *high;
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests;
