//! Rows of a float matrix, as they lie in the file, times activation rows: the contract's 32 lanes are two zmm registers.

use std::arch::x86_64::*;

use super::super::WeightFormat;
use super::super::kernels::{FloatWeight, LANES, sum_lanes};

const WIDTH: usize = 16;
const VECTORS: usize = LANES / WIDTH;

/// The products of `R` matrix rows with `M` activation rows.
#[target_feature(enable = "avx512f,avx2,fma,f16c")]
pub(in crate::arith) fn multiply_rows<W: FloatWeight<N>, const N: usize, const R: usize, const M: usize>(
    rows: [&[u8]; R],
    activations: [&[f32]; M],
) -> [[f32; M]; R] {
    let weights = rows.map(|row| row.as_chunks::<N>().0);
    let chunks = weights.map(|weights| weights.as_chunks::<LANES>());
    let values = activations.map(|values| values.as_chunks::<LANES>());
    let mut sums = [[[_mm512_setzero_ps(); VECTORS]; M]; R];
    for chunk in 0..chunks[0].0.len() {
        for (sums, (weights, _)) in sums.iter_mut().zip(&chunks) {
            for vector in 0..VECTORS {
                let weight = load_weights::<W, N>(&weights[chunk].as_chunks::<WIDTH>().0[vector]);
                for (sums, (values, _)) in sums.iter_mut().zip(&values) {
                    let value = load(&values[chunk].as_chunks::<WIDTH>().0[vector]);
                    sums[vector] = _mm512_fmadd_ps(weight, value, sums[vector]);
                }
            }
        }
    }
    std::array::from_fn(|row| {
        std::array::from_fn(|activation| {
            let mut lanes = [0.0; LANES];
            for (lanes, sum) in lanes.as_chunks_mut::<WIDTH>().0.iter_mut().zip(sums[row][activation]) {
                store(lanes, sum);
            }
            sum_lanes::<W, N>(lanes, chunks[row].1, values[activation].1)
        })
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_weights<W: FloatWeight<N>, const N: usize>(weights: &[[u8; N]; WIDTH]) -> __m512 {
    let pointer = weights.as_ptr();
    // SAFETY: `weights` is 16 elements of the size that the format has, so each load reads no more; none needs alignment.
    unsafe {
        match W::FORMAT {
            WeightFormat::F16 => _mm512_cvtph_ps(_mm256_loadu_si256(pointer.cast())),
            WeightFormat::Bf16 => {
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(pointer.cast()))))
            }
            _ => _mm512_loadu_ps(pointer.cast()),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; WIDTH]) -> __m512 {
    // SAFETY: `values` is 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(out: &mut [f32; WIDTH], values: __m512) {
    // SAFETY: `out` is 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) };
}
