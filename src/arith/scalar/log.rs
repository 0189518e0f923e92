//! The natural logarithm and the power function, f64.

use super::exp_f64;

/// The f64 nearest to ln(2).
pub(super) const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fefa_39ef);
/// The f64 nearest to what is left of ln(2).
pub(super) const LN_2_LOW: f64 = f64::from_bits(0x3c7a_bc9e_3b39_803f);

/// The natural logarithm of `x`, within 1 unit in the last place.
///
/// Of a zero it is -infinity, of +infinity +infinity, of anything negative or NaN it is NaN.
#[inline(always)]
pub fn log(x: f64) -> f64 {
    // A subnormal is scaled up by 2^54.
    let tiny = x < f64::MIN_POSITIVE;
    let bits = (if tiny { x * 18_014_398_509_481_984.0 } else { x }).to_bits();
    // The exponent such that the significand lies within sqrt(1/2)..sqrt(2).
    let shifted = bits.wrapping_sub(SQRT_HALF);
    let exponent = ((shifted as i64) >> 52) as i32;
    let significand = f64::from_bits((shifted & ((1 << 52) - 1)).wrapping_add(SQRT_HALF));
    let k = f64::from(exponent - if tiny { 54 } else { 0 });

    let f = significand - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let correction = f - z * polynomial(z);
    let low = (-s).mul_add(correction, k * LN_2_LOW);
    let result = k.mul_add(LN_2_HIGH, f + low);

    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x == f64::INFINITY {
        f64::INFINITY
    } else if x > 0.0 {
        result
    } else {
        f64::NAN
    }
}

/// Bits of the double just below sqrt(1/2).
const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcc;

/// (2 atanh(s) - 2 s) / s^3 as a function of z = s^2, for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
#[inline(always)]
fn polynomial(z: f64) -> f64 {
    const C: [f64; 7] = [
        0.666666666666667,
        0.3999999999989889,
        0.28571428626253836,
        0.22222211089379496,
        0.1818289243253687,
        0.15331611722055008,
        0.14617807153417325,
    ];
    C[..6].iter().rev().fold(C[6], |sum, c| sum.mul_add(z, *c))
}

/// `x` to the power of `y`, as `exp(y * log(x))`: for the frequencies of rotary tables; NaN for a negative `x`.
#[inline(always)]
pub fn pow(x: f64, y: f64) -> f64 {
    exp_f64(y * log(x))
}
