//! The exponential function, f32 and f64.

/// 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
const ROUND_F32: f32 = 12_582_912.0;
/// 1.5 * 2^52.
const ROUND_F64: f64 = 6_755_399_441_055_744.0;

/// e to the power of `x`, within 1 unit in the last place; subnormal results are rounded, not flushed.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND_F32);
    let n = shifted - ROUND_F32;
    let r = n.mul_add(-LN_2_HIGH_F32, x);
    let r = n.mul_add(-LN_2_LOW_F32, r);
    let q = polynomial_f32(r);
    let y = (r * r).mul_add(q, r) + 1.0;
    // Two factors, because neither 2^128 nor 2^-150 is a float.
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND_F32.to_bits() as i32);
    let half = exponent >> 1;
    y * power_of_two_f32(half) * power_of_two_f32(exponent.wrapping_sub(half))
}

const LN_2_HIGH_F32: f32 = f32::from_bits(0x3f31_7218);
const LN_2_LOW_F32: f32 = f32::from_bits(0xb102_e308);

/// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2.
#[inline(always)]
fn polynomial_f32(r: f32) -> f32 {
    const C: [f32; 6] = [
        f32::from_bits(0x3f00_0000),
        f32::from_bits(0x3e2a_aaab),
        f32::from_bits(0x3d2a_aa75),
        f32::from_bits(0x3c08_8870),
        f32::from_bits(0x3ab6_a192),
        f32::from_bits(0x3950_9279),
    ];
    C[..5].iter().rev().fold(C[5], |sum, c| sum.mul_add(r, *c))
}

#[inline(always)]
fn power_of_two_f32(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// e to the power of `x`, within 1 unit in the last place; subnormal results are rounded, not flushed.
#[inline(always)]
pub fn exp_f64(x: f64) -> f64 {
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let shifted = x.mul_add(std::f64::consts::LOG2_E, ROUND_F64);
    let n = shifted - ROUND_F64;
    let r = n.mul_add(-super::log::LN_2_HIGH, x);
    let r = n.mul_add(-super::log::LN_2_LOW, r);
    let q = polynomial_f64(r);
    let y = (r * r).mul_add(q, r) + 1.0;
    let exponent = (shifted.to_bits() as i64).wrapping_sub(ROUND_F64.to_bits() as i64);
    let half = exponent >> 1;
    y * power_of_two_f64(half) * power_of_two_f64(exponent.wrapping_sub(half))
}

/// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2.
#[inline(always)]
fn polynomial_f64(r: f64) -> f64 {
    const C: [f64; 10] = [
        0.5000000000000001,
        0.16666666666666669,
        0.04166666666662413,
        0.008333333333330062,
        0.0013888888917213717,
        0.00019841269863053618,
        2.4801521295954376e-5,
        2.7557268459997064e-6,
        2.7620088445409746e-7,
        2.510038549551032e-8,
    ];
    C[..9].iter().rev().fold(C[9], |sum, c| sum.mul_add(r, *c))
}

#[inline(always)]
fn power_of_two_f64(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) as u64) << 52)
}
