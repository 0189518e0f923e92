//! The error bounds that docs/arithmetic.md states, and special values.

use super::super::*;
use super::on_both_copies;

/// Distance of `found` from `high + low`, in units in the last place of an f64 of that size.
fn ulps(found: f64, high: f64, low: f64) -> f64 {
    let ulp = (f64::from_bits(high.abs().to_bits() + 1) - high.abs()).max(f64::from_bits(1));
    ((found - high) - low).abs() / ulp
}

#[test]
fn f64_functions_stay_within_their_bounds_of_60_digit_values() {
    let lines = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/elementary.txt"));
    let mut worst = std::collections::BTreeMap::new();
    for line in lines.lines() {
        let [name, numbers @ ..] = &line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let [x, high, low] = [0, 1, 2].map(|i| f64::from_bits(u64::from_str_radix(numbers[i], 16).unwrap()));
        let (error, bound) = match *name {
            "exp" => (ulps(exp_f64(x), high, low), 1.0),
            "log" => (ulps(log(x), high, low), 1.0),
            "sin" => ((sin(x) - high - low).abs(), f64::EPSILON),
            "cos" => ((cos(x) - high - low).abs(), f64::EPSILON),
            other => panic!("{other}"),
        };
        assert!(error <= bound, "{name}({x:e}) is off by {error}");
        let entry = worst.entry(*name).or_insert((0.0f64, 0));
        *entry = (entry.0.max(error), entry.1 + 1);
    }
    assert!(worst.len() == 4 && worst.values().all(|(_, count)| *count >= 100), "{worst:?}");
    println!("worst error and count: {worst:?}");
}

/// With STRIDE 1 this is every f32 and takes minutes; that run gave 0.9876 and 0.7505.
#[test]
fn exp_stays_within_its_bound_over_the_floats() {
    const STRIDE: usize = 1_009;
    let (mut worst, mut worst_subnormal) = (0.0f64, 0.0f64);
    for x in (0..=105.0f32.to_bits()).step_by(STRIDE).flat_map(|bits| [bits, bits | 0x8000_0000]).map(f32::from_bits) {
        // The f64 exponential of the platform errs by 2^-29 of an f32's last place.
        let exact = f64::from(x).exp();
        let ulp = 2f64.powi((exact.log2().floor() as i32 - 23).max(-149));
        if exact >= f64::from(f32::MAX) + ulp / 2.0 {
            assert_eq!(exp(x), f32::INFINITY, "{x}");
            continue;
        }
        let error = (f64::from(exp(x)) - exact).abs() / ulp;
        let worst = if exact >= f64::from(f32::MIN_POSITIVE) { &mut worst } else { &mut worst_subnormal };
        *worst = worst.max(error);
    }
    assert!(worst <= 0.988 && worst_subnormal <= 0.751, "{worst} and {worst_subnormal}");
    assert!(worst > 0.8, "the bound is tight, so a comparison that saw only {worst} did not look");
}

#[test]
fn pow_is_as_exact_as_rotary_frequencies_need() {
    // 10^(2 * 7/16) and others as mpmath gives them.
    for (x, y, exact) in [
        (10_000.0, -0.4375, 0.017_782_794_100_389_23_f64),
        (1e6, -63.0 / 64.0, 1.240_937_760_751_720_1e-6),
        (500_000.0, -0.5, 1.414_213_562_373_095_e-3),
        (2.0, 10.0, 1024.0),
        (1.0, -3.5, 1.0),
    ] {
        assert!((pow(x, y) / exact - 1.0).abs() <= 2f64.powi(-47), "{x}^{y} = {:e}", pow(x, y));
    }
}

#[test]
fn special_values() {
    on_both_copies(|| {
        assert_eq!(exp(0.0).to_bits(), 1f32.to_bits());
        assert_eq!(exp(-0.0).to_bits(), 1f32.to_bits());
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY).to_bits(), 0);
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
        assert_eq!(exp(88.722_84), f32::INFINITY);
        assert!(exp(88.722_83).is_finite());
        assert_eq!(exp(-103.98).to_bits(), 0);
        assert_eq!(exp(-103.9).to_bits(), 1);

        assert_eq!(log(0.0), f64::NEG_INFINITY);
        assert_eq!(log(-0.0), f64::NEG_INFINITY);
        assert_eq!(log(1.0).to_bits(), 0);
        assert_eq!(log(f64::INFINITY), f64::INFINITY);
        assert!(log(-1.0).is_nan() && log(f64::NAN).is_nan() && log(f64::NEG_INFINITY).is_nan());

        assert_eq!((sin(0.0), cos(0.0)), (0.0, 1.0));
        assert!(sin(f64::NAN).is_nan() && cos(f64::INFINITY).is_nan() && sin(5e9).is_nan());
        assert!(sin(4_294_967_296.0).is_finite());
    });
}

#[test]
fn f16_conversions_are_those_of_the_half_crate() {
    for bits in 0..=u16::MAX {
        let expected = half::f16::from_bits(bits);
        let found = f16_to_f32(bits);
        assert_eq!(found.to_bits(), canonical(expected.to_f32()).to_bits(), "{bits:#x}");
        if expected.is_nan() {
            assert_eq!(f32_to_f16(found), 0x7e00);
        } else {
            assert_eq!(f32_to_f16(found), bits, "{bits:#x}");
        }
    }
    // Around every f16 and half way between neighbours, where rounding is decided.
    for bits in (0..0x7c00u16).flat_map(|bits| [bits, bits | 0x8000]) {
        let (low, high) = (f16_to_f32(bits), f16_to_f32((bits + 1) & !0x7c00 | (bits + 1) & 0x7c00));
        let middle = if high.is_finite() { (low + high) / 2.0 } else { low };
        for x in [middle, middle.next_up(), middle.next_down(), low.next_up(), low.next_down()] {
            assert_eq!(f32_to_f16(x), half::f16::from_f32(x).to_bits(), "{x:e}");
        }
    }
    for x in [65_519.996_f32, 65_520.0, 1e30, f32::INFINITY, -1e30, 1e-45, -1e-45] {
        assert_eq!(f32_to_f16(x), half::f16::from_f32(x).to_bits(), "{x:e}");
    }
}
