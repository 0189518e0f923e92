//! What holds the definition to its text, to published numbers, and to plain references.

mod accuracy;
mod golden;
mod properties;
mod teeth;

use std::cell::Cell;

use crate::arith::golden::{Vector, vectors};

thread_local! {
    /// Makes this thread run the copies that any processor can run.
    pub(super) static PORTABLE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a check on the copies for this processor, then on the portable ones.
fn on_both_copies(check: impl Fn()) {
    check();
    PORTABLE.set(true);
    check();
    PORTABLE.set(false);
}

/// The golden cases of one operation; never none.
fn golden_of(operation: &str) -> Vec<Vector> {
    let cases = vectors().unwrap().into_iter().filter(|case| case.operation() == operation);
    let cases: Vec<Vector> = cases.collect();
    assert!(!cases.is_empty(), "no golden case of {operation}");
    cases
}

fn bytes(case: &Vector, key: &str) -> Vec<u8> {
    case.bytes(key).unwrap()
}

fn floats(case: &Vector, key: &str) -> Vec<f32> {
    case.floats(key).unwrap()
}

fn word(case: &Vector, key: &str) -> u64 {
    case.word(key).unwrap()
}

fn integer(case: &Vector, key: &str) -> u32 {
    case.integer(key).unwrap()
}

fn format(case: &Vector) -> super::super::WeightFormat {
    case.format().unwrap()
}

/// Bits, with every NaN the same.
fn canonical_bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| super::canonical(*x).to_bits()).collect()
}
