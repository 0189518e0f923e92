//! Every operation against tests/golden, on both copies of the code.

use super::super::*;
use super::*;
use crate::arith::golden::{Path, philox as published, vectors};

/// Every vector of an operation, on both copies.
fn check(operation: &str) {
    on_both_copies(|| {
        for case in golden_of(operation) {
            assert_eq!(case.found(Path::Scalar).unwrap(), Some(case.expected().unwrap()), "{case:?}");
        }
    });
}

/// The operations that have vectors.
const OPERATIONS: [&str; 13] = [
    "dot",
    "dequantize",
    "quantize",
    "rms_norm",
    "silu_product",
    "exp",
    "rope",
    "attention",
    "short_convolution",
    "log_sum_exp",
    "checksum",
    "sketch",
    "gumbel",
];

#[test]
fn every_operation_gives_its_golden_vectors() {
    OPERATIONS.into_iter().for_each(check);
    let unknown = vectors().unwrap().into_iter().find(|case| !OPERATIONS.contains(&case.operation()));
    assert!(unknown.is_none(), "{unknown:?}");
}

#[test]
fn scales_of_activation_blocks_are_canonical() {
    on_both_copies(|| {
        for case in golden_of("quantize") {
            let found = quantize(&floats(&case, "x"));
            assert!(found.scales.iter().all(|scale| !scale.is_nan() || scale.to_bits() == CANONICAL_NAN.to_bits()));
        }
    });
}

#[test]
fn gumbel_rows_are_their_elements() {
    on_both_copies(|| {
        for case in golden_of("gumbel") {
            let (seed, position, choice) = (word(&case, "seed"), integer(&case, "position"), integer(&case, "choice"));
            let token = integer(&case, "token");
            let mut row = vec![0.0; token as usize + 1];
            gumbel_row(seed, position, choice, &mut row);
            assert_eq!(row[token as usize].to_bits(), word(&case, "out"));
        }
    });
}

#[test]
fn philox_of_the_published_vectors() {
    let vectors = published().unwrap();
    assert_eq!(vectors.len(), 3);
    for vector in vectors {
        assert_eq!(philox(vector.key, vector.counter), vector.out);
    }
}
