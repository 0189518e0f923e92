//! Canonical NaN, and the 16-bit float formats.

use super::super::KvType;

/// The one NaN that is stored, hashed or compared.
pub const CANONICAL_NAN: f32 = f32::from_bits(0x7fc0_0000);

/// `x`, with any NaN replaced by [`CANONICAL_NAN`].
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    if x.is_nan() { CANONICAL_NAN } else { x }
}

/// The exact value of binary16 bits; a NaN becomes canonical.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let normal = (magnitude << 13) + (112 << 23);
    // The fraction of a subnormal stands below the leading bit of 2^-14, which is taken away again.
    let smallest_normal = f32::from_bits(0x3880_0000);
    let subnormal = (f32::from_bits(smallest_normal.to_bits() | (magnitude << 13)) - smallest_normal).to_bits();
    let finite = if magnitude < 0x0400 { subnormal } else { normal };
    let number = (if magnitude < 0x7c00 { finite } else { f32::INFINITY.to_bits() }) | sign;
    f32::from_bits(if magnitude > 0x7c00 { CANONICAL_NAN.to_bits() } else { number })
}

/// The nearest binary16, ties to even; beyond 65520 it is infinity, and a NaN becomes 0x7e00.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7e00;
    }
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    let rounded = if magnitude < 0x3880_0000 {
        // One unit in the last place of 0.5 is the spacing of binary16 subnormals.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        (magnitude - 0x3800_0000 + 0x0fff + ((magnitude >> 13) & 1)) >> 13
    };
    sign | rounded as u16
}

/// A little-endian binary32.
#[inline(always)]
pub(super) fn f32_from_bytes(bytes: [u8; 4]) -> f32 {
    f32::from_le_bytes(bytes)
}

/// The exact value of a little-endian binary16.
#[inline(always)]
pub(super) fn f16_from_bytes(bytes: [u8; 2]) -> f32 {
    f16_to_f32(u16::from_le_bytes(bytes))
}

/// The exact value of a little-endian bfloat16.
#[inline(always)]
pub(super) fn bf16_from_bytes(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

impl KvType {
    /// What is read back of `x` once it is stored.
    #[inline(always)]
    pub fn stored(self, x: f32) -> f32 {
        match self {
            Self::F32 => x,
            Self::F16 => f16_to_f32(f32_to_f16(x)),
        }
    }
}
