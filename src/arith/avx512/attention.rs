//! The two products of attention: scores have one key per lane, outputs one element per lane.

use std::arch::x86_64::*;

use super::super::ATTENTION_CHUNK;
use super::super::kernels::KvNumber;

const WIDTH: usize = 16;
const VECTORS: usize = ATTENTION_CHUNK / WIDTH;

/// The products of the query with every key of `P` pages; several pages at once, for one alone would wait for its fma.
#[target_feature(enable = "avx512f,avx2,fma,f16c")]
pub(in crate::arith) fn scores<T: KvNumber, const P: usize>(
    query: &[f32],
    pages: [&[T]; P],
) -> [[f32; ATTENTION_CHUNK]; P] {
    let pages = pages.map(|keys| keys.as_chunks::<ATTENTION_CHUNK>().0);
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; P];
    for (element, &query) in query.iter().enumerate() {
        let query = _mm512_set1_ps(query);
        for (sums, keys) in sums.iter_mut().zip(&pages) {
            for (sum, keys) in sums.iter_mut().zip(keys[element].as_chunks::<WIDTH>().0) {
                *sum = _mm512_fmadd_ps(query, load(keys), *sum);
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
#[target_feature(enable = "avx512f,avx2,fma,f16c")]
pub(in crate::arith) fn weigh<T: KvNumber>(weights: &[f32], values: &[T], out: &mut [f32]) {
    let head = out.len();
    let (groups, rest) = out.as_chunks_mut::<{ 4 * WIDTH }>();
    let first_of_rest = head - rest.len();
    for (group, out) in groups.iter_mut().enumerate() {
        let mut sums = [_mm512_setzero_ps(); 4];
        for (weight, values) in weights.iter().zip(values.chunks_exact(head)) {
            let weight = _mm512_set1_ps(*weight);
            let values = values[group * 4 * WIDTH..].as_chunks::<WIDTH>().0;
            for (sum, values) in sums.iter_mut().zip(values) {
                *sum = _mm512_fmadd_ps(weight, load(values), *sum);
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
#[target_feature(enable = "avx512f")]
fn load<T: KvNumber>(values: &[T; WIDTH]) -> __m512 {
    let pointer = values.as_ptr();
    // SAFETY: `values` is 16 halves if `T` is the 2-byte type and 16 floats if it is the 4-byte one, and the loads read as
    // many and need no alignment.
    unsafe {
        match size_of::<T>() {
            2 => _mm512_cvtph_ps(_mm256_loadu_si256(pointer.cast())),
            _ => _mm512_loadu_ps(pointer.cast()),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(out: &mut [f32; WIDTH], values: __m512) {
    // SAFETY: `out` is 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) };
}
