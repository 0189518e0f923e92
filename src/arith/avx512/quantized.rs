//! A tile of a quantized matrix times up to eight activation rows: one zmm lane per output.

use std::arch::x86_64::*;

use super::super::kernels::PreparedBlock;
use super::super::packed::{LANE_ORDER, Scales, TILE, TileBlock, lane_blocks};

/// The product of one tile with `M` activation rows.
///
/// `tile` and `activations` hold the same blocks, in lane order.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(in crate::arith) fn multiply_tile<B: TileBlock, const M: usize>(
    tile: &[B],
    activations: &[[PreparedBlock; M]],
) -> [[f32; TILE]; M] {
    debug_assert_eq!(tile.len(), activations.len());
    // `partial[k]` holds a finished subtree of 2^k lanes, as a binary counter does.
    let mut partial = [[_mm512_setzero_ps(); M]; 4];
    let mut rest = tile.iter().zip(activations);
    for (position, lane) in LANE_ORDER.into_iter().enumerate() {
        let mut sums = [_mm512_setzero_ps(); M];
        for (block, activation) in rest.by_ref().take(lane_blocks(tile.len(), lane)) {
            accumulate(block, activation, &mut sums);
        }
        let mut level = 0;
        while position >> level & 1 == 1 {
            for (sum, earlier) in sums.iter_mut().zip(&partial[level]) {
                *sum = _mm512_add_ps(*earlier, *sum);
            }
            level += 1;
        }
        partial[level] = sums;
    }
    partial[3].map(|sums| store(canonical(sums)))
}

/// Adds one block's contribution to the lane sums of each activation row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn accumulate<B: TileBlock, const M: usize>(block: &B, activations: &[PreparedBlock; M], sums: &mut [__m512; M]) {
    let weights = unpack(block.weights());
    let (scales, minima) = match block.scales() {
        Scales::Half(scales) | Scales::HalfSubscales(scales, _) => (widen(scales), None),
        Scales::HalfMinimum(scales, minima) => (widen(scales), Some(widen(minima))),
        Scales::FullMinimum(scales, minima) => (load(scales), Some(load(minima))),
    };
    for (activation, sum) in activations.iter().zip(sums) {
        let integer = match block.scales() {
            Scales::HalfSubscales(_, [first, second]) => {
                let halves = weights.split_at(4);
                let first = _mm512_mullo_epi32(
                    dot(_mm512_set1_epi32(activation.starts[0]), halves.0, &activation.words[..4]),
                    widen_bytes(first),
                );
                let second = _mm512_mullo_epi32(
                    dot(_mm512_set1_epi32(activation.starts[1]), halves.1, &activation.words[4..]),
                    widen_bytes(second),
                );
                _mm512_add_epi32(first, second)
            }
            _ => dot(_mm512_set1_epi32(activation.starts[0]), &weights, &activation.words),
        };
        let scale = _mm512_set1_ps(activation.scale);
        *sum = _mm512_fmadd_ps(_mm512_mul_ps(scales, scale), _mm512_cvtepi32_ps(integer), *sum);
        if let Some(minima) = minima {
            *sum = _mm512_fmadd_ps(_mm512_mul_ps(minima, scale), _mm512_set1_ps(activation.sum), *sum);
        }
    }
}

/// The block's weights as eight vectors of unsigned bytes; vector `j` holds columns `4j..4j+4` of every row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn unpack(packed: &[[u8; 4 * TILE]]) -> [__m512i; 8] {
    let nibble = _mm512_set1_epi8(15);
    match packed.len() {
        4 => std::array::from_fn(|vector| {
            let pair = load_bytes(&packed[vector % 4]);
            let shifted = if vector < 4 { pair } else { _mm512_srli_epi16::<4>(pair) };
            _mm512_and_si512(shifted, nibble)
        }),
        _ => std::array::from_fn(|vector| load_bytes(&packed[vector])),
    }
}

/// Adds products of unsigned weights and signed activations, all four columns of a word at once. The sums stay below
/// 32 * 255 * 127, so `vpdpbusd` neither wraps nor rounds.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot(start: __m512i, weights: &[__m512i], words: &[i32]) -> __m512i {
    weights.iter().zip(words).fold(start, |sum, (&four, &word)| _mm512_dpbusd_epi32(sum, four, _mm512_set1_epi32(word)))
}

/// Replaces every NaN by the contract's.
#[inline]
#[target_feature(enable = "avx512f")]
fn canonical(values: __m512) -> __m512 {
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
    _mm512_mask_blend_ps(nan, values, _mm512_set1_ps(f32::from_bits(0x7fc0_0000)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn widen(halves: &[u16; TILE]) -> __m512 {
    // SAFETY: `halves` is 32 readable bytes; the load needs no alignment.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(halves.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn widen_bytes(bytes: &[i8; TILE]) -> __m512i {
    // SAFETY: `bytes` is 16 readable bytes; the load needs no alignment.
    _mm512_cvtepi8_epi32(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_bytes(bytes: &[u8; 4 * TILE]) -> __m512i {
    // SAFETY: `bytes` is 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; TILE]) -> __m512 {
    // SAFETY: `values` is 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(values: __m512) -> [f32; TILE] {
    let mut stored = [0.0; TILE];
    // SAFETY: `stored` is 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_ps(stored.as_mut_ptr(), values) };
    stored
}
