//! The quantized formats as ggml stores them: where each scale, minimum and value stands.

use super::f16_to_f32;

#[inline(always)]
pub(super) fn f16_at(bytes: &[u8], offset: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([bytes[offset], bytes[offset + 1]]))
}

/// The values of 16 bytes: low nibbles first, then high ones.
#[inline(always)]
fn nibbles(packed: &[u8; 16]) -> [i8; 32] {
    let mut values = [0; 32];
    for (i, byte) in packed.iter().enumerate() {
        values[i] = (byte & 15) as i8;
        values[16 + i] = (byte >> 4) as i8;
    }
    values
}

/// The values of a Q4_0 block, each within -8..=7.
#[inline(always)]
pub(super) fn q4_0_values(block: &[u8; 18]) -> [i8; 32] {
    let [_, _, packed @ ..] = block;
    let mut values = nibbles(packed);
    for value in &mut values {
        *value = value.wrapping_sub(8);
    }
    values
}

/// The values of a Q4_1 block, each within 0..=15.
#[inline(always)]
pub(super) fn q4_1_values(block: &[u8; 20]) -> [i8; 32] {
    let [_, _, _, _, packed @ ..] = block;
    nibbles(packed)
}

/// The values of a Q8_0 block.
#[inline(always)]
pub(super) fn q8_0_values(block: &[u8; 34]) -> [i8; 32] {
    let mut values = [0; 32];
    for (value, byte) in values.iter_mut().zip(&block[2..]) {
        *value = *byte as i8;
    }
    values
}

/// The scale and the minimum, as it is added, of the eight sub-blocks of a Q4_K super-block.
#[inline(always)]
pub(super) fn q4k_scales_and_minima(super_block: &[u8; 144]) -> ([f32; 8], [f32; 8]) {
    let (d, dmin) = (f16_at(super_block, 0), f16_at(super_block, 2));
    let packed = &super_block[4..16];
    let (mut scales, mut minima) = ([0.0; 8], [0.0; 8]);
    for i in 0..4 {
        // Six bits each: the first four in whole bytes, the last four in a nibble and those bytes' upper two bits.
        let (first, second, third) = (packed[i], packed[i + 4], packed[i + 8]);
        scales[i] = d * f32::from(first & 63);
        minima[i] = -(dmin * f32::from(second & 63));
        scales[i + 4] = d * f32::from((third & 15) | ((first >> 6) << 4));
        minima[i + 4] = -(dmin * f32::from((third >> 4) | ((second >> 6) << 4)));
    }
    (scales, minima)
}

/// The 32 values of sub-block `index` (0 to 7) of a Q4_K super-block, each within 0..=15.
///
/// An even sub-block has the low nibbles of 32 bytes, the odd one after it the high nibbles of the same bytes.
#[inline(always)]
pub(super) fn q4k_values(super_block: &[u8; 144], index: usize) -> [i8; 32] {
    let mut values = [0; 32];
    for (value, byte) in values.iter_mut().zip(&super_block[16 + (index / 2) * 32..]) {
        *value = ((byte >> (4 * (index % 2))) & 15) as i8;
    }
    values
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
        *value = (low | (((high >> (2 * quarter)) & 3) << 4)) as i8;
        *value = value.wrapping_sub(32);
    }
    values
}

/// The two 8-bit scales of block `index` (0 to 7) of a Q6_K super-block: of its first and of its last 16 values.
#[inline(always)]
pub(super) fn q6k_scales(super_block: &[u8; 210], index: usize) -> (i8, i8) {
    (super_block[192 + 2 * index] as i8, super_block[193 + 2 * index] as i8)
}
