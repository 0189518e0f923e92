//! The quantized formats as ggml stores them: where each scale, minimum and value stands.

use super::f16_to_f32;

#[inline(always)]
pub(super) fn f16_at(bytes: &[u8], offset: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([bytes[offset], bytes[offset + 1]]))
}

/// The 6-bit scale and minimum of sub-block `index` (0 to 7) of a Q4_K super-block, from its 12 packed bytes.
#[inline(always)]
pub(super) fn q4k_scale_and_minimum(packed: &[u8; 12], index: usize) -> (u8, u8) {
    if index < 4 {
        (packed[index] & 63, packed[index + 4] & 63)
    } else {
        let low = packed[index + 4];
        ((low & 15) | ((packed[index - 4] >> 6) << 4), (low >> 4) | ((packed[index] >> 6) << 4))
    }
}

/// The 32 values of block `index` (0 to 7) of a Q6_K super-block, each within -32..=31.
#[inline(always)]
pub(super) fn q6k_values(super_block: &[u8; 210], index: usize) -> [i8; 32] {
    // Each half of the super-block holds four blocks: two share the low nibbles of 32 bytes, two the high ones; the
    // upper two bits of all four share one byte.
    let (half, quarter) = (index / 4, index % 4);
    let low = &super_block[half * 64 + (quarter % 2) * 32..][..32];
    let high = &super_block[128 + half * 32..][..32];
    let mut values = [0; 32];
    for (value, (low, high)) in values.iter_mut().zip(low.iter().zip(high)) {
        let low = if quarter < 2 { low & 15 } else { low >> 4 };
        *value = (low | (((high >> (2 * quarter)) & 3) << 4)) as i8 - 32;
    }
    values
}

/// The two 8-bit scales of block `index` (0 to 7) of a Q6_K super-block: of its first and of its last 16 values.
#[inline(always)]
pub(super) fn q6k_scales(super_block: &[u8; 210], index: usize) -> (i8, i8) {
    (super_block[192 + 2 * index] as i8, super_block[193 + 2 * index] as i8)
}
