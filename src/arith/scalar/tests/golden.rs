//! Every operation against tests/golden, on both copies of the code.

use super::super::super::{MatrixView, RopeLayout, Sketch};
use super::super::*;
use super::*;

#[test]
fn products_of_every_format() {
    on_both_copies(|| {
        for case in golden_of("dot") {
            let (format, row, x) = (format(&case), bytes(&case, "row"), floats(&case, "x"));
            let matrix = MatrixView::new(format, 1, x.len(), &row).unwrap();
            let found = dot(&matrix, 0, &activation(format, &x));
            assert_same(&[found], &floats(&case, "out"), &format!("{format} with {} columns", x.len()));
        }
    });
}

#[test]
fn dequantization_of_every_format() {
    on_both_copies(|| {
        for case in golden_of("dequantize") {
            let (format, row, expected) = (format(&case), bytes(&case, "row"), floats(&case, "out"));
            let mut found = vec![0.0; expected.len()];
            dequantize_row(&MatrixView::new(format, 1, found.len(), &row).unwrap(), 0, &mut found);
            assert_same(&found, &expected, format.name());
        }
    });
}

#[test]
fn activation_blocks() {
    on_both_copies(|| {
        for case in golden_of("quantize") {
            let x = floats(&case, "x");
            let found = quantize(&x);
            let expected: Vec<i8> = bytes(&case, "values").into_iter().map(|byte| byte as i8).collect();
            assert_eq!(found.values, expected, "{x:?}");
            assert_same(&found.scales, &floats(&case, "scales"), "scales");
            assert!(found.scales.iter().all(|scale| !scale.is_nan() || scale.to_bits() == CANONICAL_NAN.to_bits()));
        }
    });
}

#[test]
fn rms_norms() {
    on_both_copies(|| {
        for case in golden_of("rms_norm") {
            let x = floats(&case, "x");
            let mut out = vec![0.0; x.len()];
            rms_norm(&x, &floats(&case, "weight"), floats(&case, "epsilon")[0], &mut out);
            assert_same(&out, &floats(&case, "out"), "rms_norm");
        }
    });
}

#[test]
fn silu_products() {
    on_both_copies(|| {
        for case in golden_of("silu_product") {
            let gate = floats(&case, "gate");
            let mut out = vec![0.0; gate.len()];
            silu_product(&gate, &floats(&case, "up"), &mut out);
            assert_same(&out, &floats(&case, "out"), "silu_product");
        }
    });
}

#[test]
fn exponentials() {
    for case in golden_of("exp") {
        let found: Vec<f32> = floats(&case, "x").into_iter().map(exp).collect();
        assert_same(&found, &floats(&case, "out"), "exp");
    }
}

#[test]
fn rotary_embeddings() {
    on_both_copies(|| {
        for case in golden_of("rope") {
            let mut head = floats(&case, "head");
            let factors = floats(&case, "factors");
            let factors = (!factors.is_empty()).then_some(factors.as_slice());
            let table = RopeTable::new(case["theta"].as_f64().unwrap(), head.len(), factors).unwrap();
            let layout = match text(&case, "layout") {
                "interleaved" => RopeLayout::Interleaved,
                _ => RopeLayout::Halves,
            };
            table.rotate(layout, integer(&case, "position"), &mut head);
            assert_same(&head, &floats(&case, "out"), text(&case, "layout"));
        }
    });
}

#[test]
fn attention_over_several_chunks() {
    on_both_copies(|| {
        for case in golden_of("attention") {
            let (query, keys, values) = (floats(&case, "query"), floats(&case, "keys"), floats(&case, "values"));
            let (size, length) = (query.len(), keys.len() / query.len());
            let (key, value) = (|k| &keys[k * size..][..size], |k| &values[k * size..][..size]);
            let mut out = vec![0.0; size];
            attention(&query, length, key, value, 1.0 / (size as f32).sqrt(), &mut out);
            assert_same(&out, &floats(&case, "out"), &format!("{length} keys"));
        }
    });
}

#[test]
fn short_convolutions() {
    on_both_copies(|| {
        for case in golden_of("short_convolution") {
            let (columns, expected) = (floats(&case, "columns"), floats(&case, "out"));
            let columns: Vec<&[f32]> = columns.chunks(expected.len()).collect();
            let mut out = vec![0.0; expected.len()];
            short_convolution(&floats(&case, "weights"), &columns, &mut out);
            assert_same(&out, &expected, "short_convolution");
        }
    });
}

#[test]
fn log_sum_exps() {
    on_both_copies(|| {
        for case in golden_of("log_sum_exp") {
            let found = row_statistics(&floats(&case, "x")).log_sum_exp;
            assert_same(&[found], &floats(&case, "out"), "log_sum_exp");
        }
    });
}

#[test]
fn checksums() {
    on_both_copies(|| {
        for case in golden_of("checksum") {
            assert_eq!(checksum(&floats(&case, "x")), word(&case, "out"));
        }
    });
}

#[test]
fn sketches() {
    on_both_copies(|| {
        for case in golden_of("sketch") {
            let Sketch { magnitude, projections } = sketch(&floats(&case, "x"));
            assert_same(&[&[magnitude], &projections[..]].concat(), &floats(&case, "out"), "sketch");
        }
    });
}

#[test]
fn gumbel_noise() {
    on_both_copies(|| {
        for case in golden_of("gumbel") {
            let (seed, position, choice) = (word(&case, "seed"), integer(&case, "position"), integer(&case, "choice"));
            let token = integer(&case, "token");
            assert_eq!(gumbel(seed, position, choice, token).to_bits(), word(&case, "out"));
            let mut row = vec![0.0; token as usize + 1];
            gumbel_row(seed, position, choice, &mut row);
            assert_eq!(row[token as usize].to_bits(), word(&case, "out"));
        }
    });
}

#[test]
fn philox_of_the_published_vectors() {
    let lines = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/philox.txt"));
    let mut count = 0;
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<u32> = line.split(' ').map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
        let [c0, c1, c2, c3, k0, k1, ref result @ ..] = words[..] else { panic!("{line}") };
        assert_eq!(philox(u64::from(k1) << 32 | u64::from(k0), [c0, c1, c2, c3]), result[..]);
        count += 1;
    }
    assert_eq!(count, 3);
}
