//! A tile of a quantized matrix times up to four activation rows: one ymm lane per output, eight outputs at a time.

use std::arch::x86_64::*;

use super::super::kernels::PreparedBlock;
use super::super::packed::{LANE_ORDER, Scales, TILE, TileBlock, lane_blocks};

/// Outputs of one pass over the tile.
const HALF_TILE: usize = TILE / 2;

/// The product of one tile with `M` activation rows.
///
/// `tile` and `activations` hold the same blocks, in lane order.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::arith) fn multiply_tile<B: TileBlock, const M: usize>(
    tile: &[B],
    activations: &[[PreparedBlock; M]],
) -> [[f32; TILE]; M] {
    debug_assert_eq!(tile.len(), activations.len());
    let mut outputs = [[0.0; TILE]; M];
    for half in 0..2 {
        let sums = multiply_half_tile(tile, activations, half);
        for (output, sum) in outputs.iter_mut().zip(sums) {
            output[half * HALF_TILE..][..HALF_TILE].copy_from_slice(&store(canonical(sum)));
        }
    }
    outputs
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn multiply_half_tile<B: TileBlock, const M: usize>(
    tile: &[B],
    activations: &[[PreparedBlock; M]],
    half: usize,
) -> [__m256; M] {
    // `partial[k]` holds a finished subtree of 2^k lanes, as a binary counter does.
    let mut partial = [[_mm256_setzero_ps(); M]; 4];
    let mut rest = tile.iter().zip(activations);
    for (position, lane) in LANE_ORDER.into_iter().enumerate() {
        let mut sums = [_mm256_setzero_ps(); M];
        for (block, activation) in rest.by_ref().take(lane_blocks(tile.len(), lane)) {
            accumulate(block, activation, half, &mut sums);
        }
        let mut level = 0;
        while position >> level & 1 == 1 {
            for (sum, earlier) in sums.iter_mut().zip(&partial[level]) {
                *sum = _mm256_add_ps(*earlier, *sum);
            }
            level += 1;
        }
        partial[level] = sums;
    }
    partial[3]
}

/// Adds one block's contribution to the lane sums of each activation row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn accumulate<B: TileBlock, const M: usize>(
    block: &B,
    activations: &[PreparedBlock; M],
    half: usize,
    sums: &mut [__m256; M],
) {
    let weights = unpack(block.weights(), half);
    let (scales, minima) = match block.scales() {
        Scales::Half(scales) | Scales::HalfSubscales(scales, _) => (widen(scales, half), None),
        Scales::HalfMinimum(scales, minima) => (widen(scales, half), Some(widen(minima, half))),
        Scales::FullMinimum(scales, minima) => (load(scales, half), Some(load(minima, half))),
    };
    for (activation, sum) in activations.iter().zip(sums) {
        let [first_start, second_start] = activation.starts;
        let (first, second) = (weights.split_at(4), activation.words.split_at(4));
        let integer = match block.scales() {
            Scales::HalfSubscales(_, [first_factor, second_factor]) => {
                let first_sum = dot_six_bits(first_start, first.0, second.0);
                let second_sum = dot_six_bits(second_start, first.1, second.1);
                _mm256_add_epi32(
                    _mm256_mullo_epi32(first_sum, widen_bytes(first_factor, half)),
                    _mm256_mullo_epi32(second_sum, widen_bytes(second_factor, half)),
                )
            }
            _ if block.weights().len() == 4 => dot_nibbles(first_start, &weights, &activation.words),
            _ => dot_signed(&weights, &activation.words),
        };
        let scale = _mm256_set1_ps(activation.scale);
        *sum = _mm256_fmadd_ps(_mm256_mul_ps(scales, scale), _mm256_cvtepi32_ps(integer), *sum);
        if let Some(minima) = minima {
            *sum = _mm256_fmadd_ps(_mm256_mul_ps(minima, scale), _mm256_set1_ps(activation.sum), *sum);
        }
    }
}

/// The block's weights as eight vectors of unsigned bytes; vector `j` holds columns `4j..4j+4` of eight rows.
#[inline]
#[target_feature(enable = "avx2")]
fn unpack(packed: &[[u8; 4 * TILE]], half: usize) -> [__m256i; 8] {
    let nibble = _mm256_set1_epi8(15);
    match packed.len() {
        4 => std::array::from_fn(|vector| {
            let pair = load_bytes(&packed[vector % 4], half);
            let shifted = if vector < 4 { pair } else { _mm256_srli_epi16::<4>(pair) };
            _mm256_and_si256(shifted, nibble)
        }),
        _ => std::array::from_fn(|vector| load_bytes(&packed[vector], half)),
    }
}

/// 4-bit weights: eight pairs of products sum to at most 8 * 2 * 15 * 127 = 30,480, so the 16-bit sums never saturate.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_nibbles(start: i32, weights: &[__m256i; 8], words: &[i32; 8]) -> __m256i {
    let pairs = weights.iter().zip(words).fold(_mm256_setzero_si256(), |sum, (&four, &word)| {
        _mm256_add_epi16(sum, _mm256_maddubs_epi16(four, _mm256_set1_epi32(word)))
    });
    _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

/// 6-bit weights: a pair of products is at most 2 * 63 * 127 = 16,002, so two pairs still fit 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_six_bits(start: i32, weights: &[__m256i], words: &[i32]) -> __m256i {
    let products = |index: usize| _mm256_maddubs_epi16(weights[index], _mm256_set1_epi32(words[index]));
    let one = _mm256_set1_epi16(1);
    let first = _mm256_madd_epi16(_mm256_add_epi16(products(0), products(1)), one);
    let second = _mm256_madd_epi16(_mm256_add_epi16(products(2), products(3)), one);
    _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_add_epi32(first, second))
}

/// 8-bit weights, biased by 128. Unsigned, a pair of products could reach 2 * 255 * 127 and saturate; magnitudes are at
/// most 128, and a pair at most 2 * 128 * 127 = 32,512, so the weights' signs go to the activations instead.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_signed(weights: &[__m256i; 8], words: &[i32; 8]) -> __m256i {
    let one = _mm256_set1_epi16(1);
    weights.iter().zip(words).fold(_mm256_setzero_si256(), |sum, (&biased, &word)| {
        let signed = _mm256_xor_si256(biased, _mm256_set1_epi8(-128));
        let activation = _mm256_sign_epi8(_mm256_set1_epi32(word), signed);
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(signed), activation);
        _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, one))
    })
}

/// Replaces every NaN by the contract's.
#[inline]
#[target_feature(enable = "avx2")]
fn canonical(values: __m256) -> __m256 {
    let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values);
    _mm256_blendv_ps(values, _mm256_set1_ps(f32::from_bits(0x7fc0_0000)), nan)
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen(halves: &[u16; TILE], half: usize) -> __m256 {
    let halves = halves[half * HALF_TILE..].as_ptr();
    // SAFETY: the slice begins at 0 or at half of 16 halves, so 16 bytes are readable; the load needs no alignment.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(halves.cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn widen_bytes(bytes: &[i8; TILE], half: usize) -> __m256i {
    let bytes = bytes[half * HALF_TILE..].as_ptr();
    // SAFETY: the slice begins at 0 or at half of 16 bytes, so 8 bytes are readable; the load needs no alignment.
    _mm256_cvtepi8_epi32(unsafe { _mm_loadl_epi64(bytes.cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_bytes(bytes: &[u8; 4 * TILE], half: usize) -> __m256i {
    let bytes = bytes[half * 4 * HALF_TILE..].as_ptr();
    // SAFETY: the slice begins at 0 or at half of 64 bytes, so 32 bytes are readable; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(values: &[f32; TILE], half: usize) -> __m256 {
    let values = values[half * HALF_TILE..].as_ptr();
    // SAFETY: the slice begins at 0 or at half of 16 floats, so 8 are readable; the load needs no alignment.
    unsafe { _mm256_loadu_ps(values) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(values: __m256) -> [f32; HALF_TILE] {
    let mut stored = [0.0; HALF_TILE];
    // SAFETY: `stored` is 32 writable bytes; the store needs no alignment.
    unsafe { _mm256_storeu_ps(stored.as_mut_ptr(), values) };
    stored
}
