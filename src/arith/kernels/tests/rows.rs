//! Operations on rows: elementwise, convolution, statistics, noise.

use proptest::prelude::*;

use super::support::{Random, bits, exact_bits, paths};
use crate::arith::{QuantizedRow, RopeLayout, SketchSigns, WeightFormat, scalar};

/// A row with one of the numbers that a fault or a mask leaves, now and then.
fn row(random: &mut Random, length: usize, special: Option<f32>) -> Vec<f32> {
    let mut row = random.row(length);
    if let (Some(special), true) = (special, length > 0) {
        row[length / 2] = special;
        row[length - 1] = special;
    }
    row
}

fn specials() -> impl Strategy<Value = Option<f32>> {
    prop::sample::select(vec![
        None,
        None,
        Some(f32::NAN),
        Some(f32::INFINITY),
        Some(f32::NEG_INFINITY),
        Some(-0.0),
        Some(100.0),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn elementwise_operations_equal_the_scalar_form(length in 1usize..200, special in specials(), seed: u64) {
        let mut random = Random(seed);
        let (x, y) = (row(&mut random, length, special), row(&mut random, length, None));
        let by_scalar = |operation: fn(&[f32], &[f32], &mut [f32])| {
            let mut out = vec![f32::MAX; length];
            operation(&x, &y, &mut out);
            bits(&out)
        };
        let norm = by_scalar(|x, y, out| scalar::rms_norm(x, y, 1e-5, out));
        let silu = by_scalar(scalar::silu_product);
        let product = by_scalar(scalar::product);
        let sum = by_scalar(|x, y, out| {
            out.copy_from_slice(x);
            scalar::add(out, y);
        });
        let exponentials: Vec<f32> = x.iter().map(|x| scalar::exp(*x - 1.5)).collect();
        for kernels in paths() {
            let mut out = vec![f32::MAX; length];
            kernels.rms_norm(&x, &y, 1e-5, &mut out);
            prop_assert_eq!(&bits(&out), &norm);
            kernels.silu_product(&x, &y, &mut out);
            prop_assert_eq!(&bits(&out), &silu);
            kernels.product(&x, &y, &mut out);
            prop_assert_eq!(&bits(&out), &product);
            kernels.exp_difference(&x, 1.5, &mut out);
            prop_assert_eq!(bits(&out), bits(&exponentials));
            out.copy_from_slice(&x);
            kernels.add(&mut out, &y);
            prop_assert_eq!(&bits(&out), &sum);
        }
    }

    #[test]
    fn sketches_equal_the_scalar_form(length in 0usize..200, special in specials(), seed: u64) {
        let x = row(&mut Random(seed), length, special);
        let expected = scalar::sketch(&x);
        for kernels in paths() {
            let found = kernels.sketch(&SketchSigns::new(200), &x);
            prop_assert_eq!(found.magnitude.to_bits(), expected.magnitude.to_bits());
            prop_assert_eq!(exact_bits(&found.projections), exact_bits(&expected.projections));
        }
    }

    #[test]
    fn activations_equal_the_scalar_form(blocks in 0usize..20, special in specials(), seed: u64) {
        let x = row(&mut Random(seed), 32 * blocks, special);
        let expected = scalar::quantize(&x);
        for kernels in paths() {
            let mut found = QuantizedRow { values: vec![9; 7], scales: vec![9.0; 3] };
            kernels.quantize(&x, &mut found);
            prop_assert_eq!(&found.values, &expected.values);
            prop_assert_eq!(exact_bits(&found.scales), exact_bits(&expected.scales));
            for format in WeightFormat::ALL {
                let (found, expected) = (kernels.activation(format, &x), scalar::activation(format, &x));
                prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            }
        }
    }

    #[test]
    fn rotations_equal_the_scalar_form(
        pairs in 1usize..70,
        layout in prop::sample::select(vec![RopeLayout::Interleaved, RopeLayout::Halves]),
        position: u32,
        special in specials(),
        seed: u64,
    ) {
        let table = scalar::RopeTable::new(1e5, 2 * pairs, None).expect("a table");
        let head = row(&mut Random(seed), 2 * pairs, special);
        let mut expected = head.clone();
        table.rotate(layout, position, &mut expected);
        let rotation = table.rotation(position);
        for kernels in paths() {
            let mut found = head.clone();
            kernels.rotate(&rotation, layout, &mut found);
            prop_assert_eq!(bits(&found), bits(&expected));
        }
    }

    #[test]
    fn convolutions_equal_the_scalar_form(channels in 1usize..100, width in 1usize..6, special in specials(), seed: u64) {
        let mut random = Random(seed);
        let weights = random.row(channels * width);
        let columns: Vec<Vec<f32>> = (0..width).map(|_| row(&mut random, channels, special)).collect();
        let columns: Vec<&[f32]> = columns.iter().map(Vec::as_slice).collect();
        let mut expected = vec![0.0; channels];
        scalar::short_convolution(&weights, &columns, &mut expected);
        for kernels in paths() {
            let mut found = vec![f32::MAX; channels];
            kernels.short_convolution(&weights, &columns, &mut found);
            prop_assert_eq!(bits(&found), bits(&expected));
        }
    }

    #[test]
    fn statistics_equal_the_scalar_form(length in 0usize..5000, special in specials(), masked: bool, seed: u64) {
        let mut random = Random(seed);
        let mut row = row(&mut random, length, special);
        if masked {
            row.iter_mut().filter(|_| !random.one_in(3)).for_each(|x| *x = f32::NEG_INFINITY);
        }
        let expected = scalar::row_statistics(&row);
        for kernels in paths() {
            prop_assert_eq!(format!("{:?}", kernels.row_statistics(&row)), format!("{expected:?}"));
            prop_assert_eq!(kernels.checksum(&row), expected.checksum);
        }
    }

    #[test]
    fn noise_equals_the_scalar_form(length in 0usize..300, seed: u64, position: u32, choice: u32) {
        let expected: Vec<u64> =
            (0..length as u32).map(|id| scalar::gumbel(seed, position, choice, id).to_bits()).collect();
        for kernels in paths() {
            let mut found = vec![f64::NAN; length];
            kernels.gumbel(seed, position, choice, &mut found);
            prop_assert_eq!(found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected.clone());
        }
    }
}

#[test]
fn the_comparison_sees_one_unit_in_the_last_place() {
    let x: Vec<f32> = (0..100).map(|i| i as f32 * 0.01).collect();
    let mut next = x.clone();
    next[99] = f32::from_bits(next[99].to_bits() + 1);
    for kernels in paths() {
        let mut out = [vec![0.0; 100], vec![0.0; 100]];
        kernels.product(&x, &x, &mut out[0]);
        kernels.product(&next, &next, &mut out[1]);
        assert_ne!(bits(&out[0]), bits(&out[1]));
        assert_ne!(kernels.checksum(&x), kernels.checksum(&next));
    }
}
