//! The two products of attention: scores have one key per lane, outputs one element per lane.

use std::arch::x86_64::*;

use super::super::ATTENTION_CHUNK;
use super::super::kernels::KvNumber;

const WIDTH: usize = 8;
const VECTORS: usize = ATTENTION_CHUNK / WIDTH;

/// The products of the query with every key of `P` pages; several pages at once, for one alone would wait for its fma.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::arith) fn scores<T: KvNumber, const P: usize>(
    query: &[f32],
    pages: [&[T]; P],
) -> [[f32; ATTENTION_CHUNK]; P] {
    let pages = pages.map(|keys| keys.as_chunks::<ATTENTION_CHUNK>().0);
    let mut sums = [[_mm256_setzero_ps(); VECTORS]; P];
    for (element, &query) in query.iter().enumerate() {
        let query = _mm256_set1_ps(query);
        for (sums, keys) in sums.iter_mut().zip(&pages) {
            for (sum, keys) in sums.iter_mut().zip(keys[element].as_chunks::<WIDTH>().0) {
                *sum = _mm256_fmadd_ps(query, load(keys), *sum);
            }
        }
    }
    sums.map(|sums| {
        let mut stored = [0.0; ATTENTION_CHUNK];
        for (stored, sum) in stored.as_chunks_mut::<WIDTH>().0.iter_mut().zip(sums) {
            store(stored, sum);
        }
        stored
    })
}

/// `out[element]` = the sum over keys, in order, of `weights[key] * values[key][element]`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::arith) fn weigh<T: KvNumber>(weights: &[f32], values: &[T], out: &mut [f32]) {
    let head = out.len();
    let (groups, rest) = out.as_chunks_mut::<{ 4 * WIDTH }>();
    let first_of_rest = head - rest.len();
    for (group, out) in groups.iter_mut().enumerate() {
        let mut sums = [_mm256_setzero_ps(); 4];
        for (weight, values) in weights.iter().zip(values.chunks_exact(head)) {
            let weight = _mm256_set1_ps(*weight);
            let values = values[group * 4 * WIDTH..].as_chunks::<WIDTH>().0;
            for (sum, values) in sums.iter_mut().zip(values) {
                *sum = _mm256_fmadd_ps(weight, load(values), *sum);
            }
        }
        for (out, sum) in out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(sums) {
            store(out, sum);
        }
    }
    for (element, out) in (first_of_rest..).zip(rest) {
        let column = values.iter().skip(element).step_by(head);
        *out = weights.iter().zip(column).fold(0.0, |sum, (weight, value)| weight.mul_add(value.widen(), sum));
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn load<T: KvNumber>(values: &[T; WIDTH]) -> __m256 {
    let pointer = values.as_ptr();
    // SAFETY: `values` is 8 halves if `T` is the 2-byte type and 8 floats if it is the 4-byte one, and the loads read as
    // many and need no alignment.
    unsafe {
        match size_of::<T>() {
            2 => _mm256_cvtph_ps(_mm_loadu_si128(pointer.cast())),
            _ => _mm256_loadu_ps(pointer.cast()),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn store(out: &mut [f32; WIDTH], values: __m256) {
    // SAFETY: `out` is 32 writable bytes; the store needs no alignment.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), values) };
}
