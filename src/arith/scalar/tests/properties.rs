//! Random inputs against plain f64 references, and what must hold for every row.

use half::f16;
use proptest::prelude::*;

use super::super::super::{ActivationRow, ArithError, MatrixView, WeightFormat};
use super::super::*;
use super::canonical_bits;

fn quantized_format() -> impl Strategy<Value = WeightFormat> {
    proptest::sample::select(WeightFormat::ALL.into_iter().filter(|format| format.is_quantized()).collect::<Vec<_>>())
}

/// Random bytes with scales that are finite.
fn matrix_bytes(format: WeightFormat, columns: usize) -> impl Strategy<Value = Vec<u8>> {
    let length = format.row_bytes(columns).unwrap();
    let scale_offsets: &[usize] = match format {
        WeightFormat::Q4_1 | WeightFormat::Q4K => &[0, 2],
        WeightFormat::Q6K => &[208],
        _ => &[0],
    };
    proptest::collection::vec(any::<u8>(), length).prop_map(move |mut bytes| {
        for block in bytes.chunks_mut(format.block_bytes()) {
            for offset in scale_offsets {
                let scale = f32::from(i16::from_le_bytes([block[*offset], block[*offset + 1]])) / 1e6;
                block[*offset..*offset + 2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
            }
        }
        bytes
    })
}

fn row(columns: usize) -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec(-8.0f32..8.0, columns)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The product is that of the dequantized weights and activations, up to f32 rounding.
    #[test]
    fn a_quantized_product_is_the_product_of_what_it_stands_for(
        (format, bytes, x) in quantized_format().prop_flat_map(|f| (Just(f), matrix_bytes(f, 768), row(768)))
    ) {
        let matrix = MatrixView::new(format, 1, 768, &bytes).unwrap();
        let mut weights = vec![0.0; 768];
        dequantize_row(&matrix, 0, &mut weights);
        let activation = quantize(&x);
        let terms = (0..768).map(|i| {
            f64::from(weights[i]) * f64::from(activation.values[i]) * f64::from(activation.scales[i / 32])
        });
        let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
        let found = dot(&matrix, 0, &ActivationRow::Quantized(activation));
        prop_assert!((f64::from(found) - exact).abs() <= size * 2f64.powi(-21), "{format}: {found} and {exact}");
    }

    #[test]
    fn a_float_product_is_within_rounding_of_f64(weights in row(200), x in row(200)) {
        let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
        let matrix = MatrixView::new(WeightFormat::F32, 1, 200, &bytes).unwrap();
        let terms = weights.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x));
        let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
        let found = dot(&matrix, 0, &activation(WeightFormat::F32, &x));
        // Seven additions per lane and five in the tree, each half a unit in the last place.
        prop_assert!((f64::from(found) - exact).abs() <= size * 12.0 * 2f64.powi(-24));
    }

    #[test]
    fn a_matvec_is_its_rows(bytes in matrix_bytes(WeightFormat::Q4K, 512 * 5), x in row(512)) {
        let matrix = MatrixView::new(WeightFormat::Q4K, 5, 512, &bytes).unwrap();
        let x = activation(WeightFormat::Q4K, &x);
        let mut all = [0.0; 5];
        matvec(&matrix, &x, &mut all);
        let each: Vec<f32> = (0..5).map(|row| dot(&matrix, row, &x)).collect();
        prop_assert_eq!(canonical_bits(&all), canonical_bits(&each));
    }

    #[test]
    fn quantization_errs_by_half_a_step_at_most(x in row(64)) {
        let quantized = quantize(&x);
        for (i, x) in x.iter().enumerate() {
            let scale = quantized.scales[i / 32];
            prop_assert!((f32::from(quantized.values[i]) * scale - x).abs() <= scale * 0.501);
        }
    }

    #[test]
    fn attention_is_softmax_within_rounding(query in row(16), keys in row(16 * 75), values in row(16 * 75)) {
        let mut out = [0.0; 16];
        attention(&query, 75, |k| &keys[16 * k..][..16], |k| &values[16 * k..][..16], 0.25, &mut out);
        let scores: Vec<f64> = keys.chunks(16)
            .map(|key| 0.25 * key.iter().zip(&query).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum::<f64>())
            .collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for element in 0..16 {
            let exact: f64 = weights.iter().zip(values.chunks(16)).map(|(p, v)| p / sum * f64::from(v[element])).sum();
            // Scores reach 256, whose rounding error the exponential turns into a relative one.
            prop_assert!((f64::from(out[element]) - exact).abs() <= 2e-3, "{} and {exact}", out[element]);
        }
    }

    #[test]
    fn the_checksum_sees_every_single_change(mut x in row(40), at in 0usize..40, bit in 0u32..32) {
        let before = checksum(&x);
        x[at] = f32::from_bits(x[at].to_bits() ^ (1 << bit));
        prop_assert_ne!(before, checksum(&x));
        x.push(0.0);
        let longer = checksum(&x);
        x.swap(0, 1);
        prop_assert!(x[0].to_bits() == x[1].to_bits() || longer != checksum(&x));
    }

    #[test]
    fn gumbel_noise_is_finite(seed: u64, position: u32, choice in 0u32..128, id: u32) {
        let noise = gumbel(seed, position, choice, id);
        prop_assert!((-3.2..23.0).contains(&noise), "{noise}");
    }
}

#[test]
fn uniforms_reach_neither_end() {
    assert!(uniform(0) > 0.0 && uniform(u32::MAX) < 1.0);
    assert_eq!(uniform(1 << 31), 0.5 + 0.5 / 4_294_967_296.0);
}

#[test]
fn gumbel_noise_has_the_mean_and_variance_of_its_distribution() {
    let mut noise = vec![0.0; 100_000];
    gumbel_row(20261129, 5, 0, &mut noise);
    let mean = noise.iter().sum::<f64>() / 1e5;
    let variance = noise.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / 1e5;
    // Euler's constant and pi^2 / 6; six standard errors.
    assert!((mean - 0.577_215_7).abs() < 0.025, "{mean}");
    assert!((variance - 1.644_934_1).abs() < 0.07, "{variance}");
}

#[test]
fn a_non_finite_activation_reaches_every_output() {
    let bytes = vec![0x11; WeightFormat::Q4_0.row_bytes(64).unwrap() * 3];
    let matrix = MatrixView::new(WeightFormat::Q4_0, 3, 64, &bytes).unwrap();
    for fault in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = vec![1.0; 64];
        x[40] = fault;
        let mut out = [0.0; 3];
        matvec(&matrix, &activation(WeightFormat::Q4_0, &x), &mut out);
        assert!(out.iter().all(|y| y.to_bits() == CANONICAL_NAN.to_bits()), "{out:?}");
    }
}

#[test]
fn statistics_of_rows_with_special_values() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let ties = row_statistics(&[1.0, 3.0, 3.0]);
    assert_eq!((ties.argmax, ties.maximum), (Some(1), 3.0));
    let zeros = row_statistics(&[-1.0, -0.0, 0.0]);
    assert_eq!((zeros.argmax, zeros.maximum.to_bits()), (Some(1), 0));
    let with_nan = row_statistics(&[nan, 2.0, -nan, -infinity]);
    assert_eq!((with_nan.argmax, with_nan.maximum, with_nan.nan_count), (None, 2.0, 2));
    assert_eq!(with_nan.negative_infinity_count, 1);
    assert_eq!(with_nan.log_sum_exp.to_bits(), CANONICAL_NAN.to_bits());
    let with_infinity = row_statistics(&[0.0, infinity]);
    assert_eq!((with_infinity.argmax, with_infinity.positive_infinity_count), (Some(1), 1));
    assert!(with_infinity.log_sum_exp.is_nan());
    let nothing = row_statistics(&[-infinity; 5]);
    assert_eq!((nothing.argmax, nothing.maximum, nothing.negative_infinity_count), (None, -infinity, 5));
    assert!(nothing.log_sum_exp.is_nan());
    let masked = row_statistics(&[-infinity, 2.0, -infinity, 1.0]);
    assert_eq!(masked.argmax, Some(1));
    assert!((masked.log_sum_exp - 2.313_261_7).abs() < 1e-6);
}

#[test]
fn a_matrix_of_the_wrong_size_is_an_error() {
    let columns = MatrixView::new(WeightFormat::Q4K, 1, 128, &[0; 72]).unwrap_err();
    assert!(matches!(columns, ArithError::Columns { block: 256, columns: 128, .. }));
    let short = MatrixView::new(WeightFormat::Q8_0, 2, 32, &[0; 67]).unwrap_err();
    assert!(matches!(short, ArithError::Bytes { expected: 68, found: 67, .. }));
    assert!(MatrixView::new(WeightFormat::F32, usize::MAX, usize::MAX, &[]).is_err());
    assert!(MatrixView::new(WeightFormat::F32, usize::MAX / 4, 2, &[]).is_err());
}

#[test]
fn a_rotary_table_refuses_what_has_no_frequencies() {
    for theta in [0.0, 0.5, -1.0, f64::NAN, f64::INFINITY] {
        assert!(RopeTable::new(theta, 8, None).is_err(), "{theta}");
    }
    assert!(RopeTable::new(1e4, 7, None).is_err());
    assert!(RopeTable::new(1e4, 0, None).is_err());
    assert!(RopeTable::new(1e4, 8, Some(&[1.0; 3])).is_err());
    assert!(RopeTable::new(1e4, 8, Some(&[1.0, 1.0, 0.0, 1.0])).is_err());
    assert!(RopeTable::new(1e4, 8, Some(&[1.0; 4])).is_ok());
}
