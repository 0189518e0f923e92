//! Sine and cosine, f64, for the angles of rotary tables.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Greatest magnitude of an angle: every position is below it, and no frequency is above 1.
const LIMIT: f64 = 4_294_967_296.0;
/// 1.5 * 2^52: adding it leaves the nearest integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// pi/2 in three parts, each the f64 nearest to what is left.
const FRAC_PI_2_PARTS: [f64; 3] = [FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33];

/// The sine of `x` radians; NaN beyond 2^32.
#[inline(always)]
pub fn sin(x: f64) -> f64 {
    sine_of_quarter(x, 0)
}

/// The cosine of `x` radians; NaN beyond 2^32.
#[inline(always)]
pub fn cos(x: f64) -> f64 {
    sine_of_quarter(x, 1)
}

/// sin(x + quarters * pi/2).
#[inline(always)]
fn sine_of_quarter(x: f64, quarters: u64) -> f64 {
    let shifted = x.mul_add(FRAC_2_PI, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-FRAC_PI_2_PARTS[0], x);
    let r = n.mul_add(-FRAC_PI_2_PARTS[1], r);
    let r = n.mul_add(-FRAC_PI_2_PARTS[2], r);
    let quadrant = shifted.to_bits().wrapping_add(quarters);
    let z = r * r;
    let value = if quadrant & 1 == 0 { sine(r, z) } else { cosine(z) };
    let value = if quadrant & 2 == 0 { value } else { -value };
    if x.abs() <= LIMIT { value } else { f64::NAN }
}

/// sin(r) for |r| <= pi/4, z = r^2.
#[inline(always)]
fn sine(r: f64, z: f64) -> f64 {
    const C: [f64; 6] = [
        -0.16666666666666666,
        0.008333333333330936,
        -0.00019841269836740532,
        2.7557316093198404e-6,
        -2.5051129896450185e-8,
        1.5917988979397435e-10,
    ];
    let sum = C[..5].iter().rev().fold(C[5], |sum, c| sum.mul_add(z, *c));
    (r * z).mul_add(sum, r)
}

/// cos(r) for |r| <= pi/4, z = r^2.
#[inline(always)]
fn cosine(z: f64) -> f64 {
    const C: [f64; 6] = [
        0.041666666666666664,
        -0.0013888888888887389,
        2.48015872987544e-5,
        -2.755731726587808e-7,
        2.087614504941318e-9,
        -1.138254464534925e-11,
    ];
    let sum = C[..5].iter().rev().fold(C[5], |sum, c| sum.mul_add(z, *c));
    (z * z).mul_add(sum, z.mul_add(-0.5, 1.0))
}
