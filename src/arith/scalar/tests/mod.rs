//! What holds the definition to its text, to published numbers, and to plain references.

mod accuracy;
mod golden;
mod properties;
mod teeth;

use std::cell::Cell;

use serde_json::Value;

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

/// The operations that tests/golden/make.py computed.
fn golden() -> Vec<Value> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/operations.json"));
    serde_json::from_str(text).expect("tests/golden/operations.json")
}

/// The golden cases of one operation; never none.
fn golden_of(operation: &str) -> Vec<Value> {
    let cases: Vec<Value> = golden().into_iter().filter(|case| case["op"] == operation).collect();
    assert!(!cases.is_empty(), "no golden case of {operation}");
    cases
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("{key} of {}", case["op"]))
}

fn bytes(case: &Value, key: &str) -> Vec<u8> {
    let digits = text(case, key).as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn floats(case: &Value, key: &str) -> Vec<f32> {
    let words = bytes(case, key);
    words.as_chunks::<4>().0.iter().map(|word| f32::from_bits(u32::from_be_bytes(*word))).collect()
}

fn word(case: &Value, key: &str) -> u64 {
    u64::from_str_radix(text(case, key), 16).unwrap()
}

fn integer(case: &Value, key: &str) -> u32 {
    u32::try_from(case[key].as_u64().unwrap()).unwrap()
}

fn format(case: &Value) -> super::super::WeightFormat {
    let all = super::super::WeightFormat::ALL;
    *all.iter().find(|format| format.name() == text(case, "format")).expect("a known format")
}

/// Bits, with every NaN the same.
fn canonical_bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| super::canonical(*x).to_bits()).collect()
}

#[track_caller]
fn assert_same(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(canonical_bits(found), canonical_bits(expected), "{what}: found {found:?}, expected {expected:?}");
}
