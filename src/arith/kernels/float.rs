//! Products with float matrices.

use super::super::{ActivationRow, Isa, MatrixView, WeightFormat, avx2, avx512};
use super::tiles::row_groups;
use super::{Kernels, OutputColumns, scalar};

/// The contract's lanes of a float dot product.
pub(in crate::arith) const LANES: usize = 32;
/// Matrix rows that the kernels take at once, so that their fma chains overlap.
const ROWS: usize = 2;

/// A float format whose elements are `N` bytes.
pub(in crate::arith) trait FloatWeight<const N: usize> {
    /// Which.
    const FORMAT: WeightFormat;

    /// The exact value of an element.
    fn widen(bytes: [u8; N]) -> f32;
}

struct F32;
struct F16;
struct Bf16;

impl FloatWeight<4> for F32 {
    const FORMAT: WeightFormat = WeightFormat::F32;

    #[inline(always)]
    fn widen(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }
}

impl FloatWeight<2> for F16 {
    const FORMAT: WeightFormat = WeightFormat::F16;

    #[inline(always)]
    fn widen(bytes: [u8; 2]) -> f32 {
        scalar::f16_to_f32(u16::from_le_bytes(bytes))
    }
}

impl FloatWeight<2> for Bf16 {
    const FORMAT: WeightFormat = WeightFormat::Bf16;

    #[inline(always)]
    fn widen(bytes: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
    }
}

/// Adds the last columns, fewer than [`LANES`], to their lanes, and the lanes by the contract's tree.
#[inline(always)]
pub(in crate::arith) fn sum_lanes<W: FloatWeight<N>, const N: usize>(
    mut lanes: [f32; LANES],
    weights: &[[u8; N]],
    values: &[f32],
) -> f32 {
    for ((lane, weight), value) in lanes.iter_mut().zip(weights).zip(values) {
        *lane = W::widen(*weight).mul_add(*value, *lane);
    }
    scalar::canonical(super::sum_by_halves(lanes))
}

impl Kernels {
    /// A product with a float matrix in its file layout, on a vector path.
    pub(super) fn multiply_floats(
        &self,
        matrix: &MatrixView<'_>,
        activations: &[ActivationRow],
        out: &mut OutputColumns<'_>,
    ) {
        let rows: Vec<&[f32]> = activations.iter().map(|row| floats(row, matrix.columns())).collect();
        match matrix.format() {
            WeightFormat::F32 => self.multiply_format::<F32, 4>(matrix, &rows, out),
            WeightFormat::F16 => self.multiply_format::<F16, 2>(matrix, &rows, out),
            WeightFormat::Bf16 => self.multiply_format::<Bf16, 2>(matrix, &rows, out),
            format => unreachable!("{format} is packed in tiles"),
        }
    }

    fn multiply_format<W: FloatWeight<N>, const N: usize>(
        &self,
        matrix: &MatrixView<'_>,
        activations: &[&[f32]],
        out: &mut OutputColumns<'_>,
    ) {
        let end = out.range().end;
        for first in out.range().step_by(ROWS) {
            for group in row_groups(activations.len(), 2) {
                // The last row is computed twice rather than read past the end.
                let rows = [first, (first + 1).min(end - 1)].map(|row| matrix.row_bytes(row));
                match activations[group.clone()] {
                    [one] => self.store_rows(self.multiply_rows::<W, N, 1>(rows, [one]), first, group.start, out),
                    [one, two] => {
                        self.store_rows(self.multiply_rows::<W, N, 2>(rows, [one, two]), first, group.start, out)
                    }
                    _ => unreachable!("groups of up to two"),
                }
            }
        }
    }

    fn multiply_rows<W: FloatWeight<N>, const N: usize, const M: usize>(
        &self,
        rows: [&[u8]; ROWS],
        activations: [&[f32]; M],
    ) -> [[f32; M]; ROWS] {
        match self.isa {
            // SAFETY: `Kernels::new` checked that this machine has the features of the path.
            Isa::Avx512 => unsafe { avx512::multiply_rows::<W, N, ROWS, M>(rows, activations) },
            // SAFETY: as above.
            Isa::Avx2 => unsafe { avx2::multiply_rows::<W, N, ROWS, M>(rows, activations) },
            isa => unreachable!("{isa} has no float kernel"),
        }
    }

    fn store_rows<const M: usize>(
        &self,
        products: [[f32; M]; ROWS],
        first_output: usize,
        first_row: usize,
        out: &mut OutputColumns<'_>,
    ) {
        let outputs = first_output..out.range().end.min(first_output + ROWS);
        for row in 0..M {
            for (value, products) in out.row_mut(first_row + row, outputs.clone()).iter_mut().zip(&products) {
                *value = products[row];
            }
        }
    }
}

fn floats(row: &ActivationRow, columns: usize) -> &[f32] {
    match row {
        ActivationRow::Float(row) if row.len() == columns => row,
        ActivationRow::Float(row) => panic!("a row of {} for {columns} columns", row.len()),
        ActivationRow::Quantized(_) => panic!("a float matrix reads float activation rows"),
    }
}
