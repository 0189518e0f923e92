use proptest::prelude::*;

use super::support::{Random, exact_bits, paths};
use crate::arith::{ActivationRow, Kernels, MatrixView, OutputRows, TILE, WeightFormat, WeightMemory, scalar};

fn expected(view: &MatrixView<'_>, activations: &[ActivationRow]) -> Vec<f32> {
    let mut out = vec![0.0; activations.len() * view.rows()];
    for (out, activation) in out.chunks_exact_mut(view.rows()).zip(activations) {
        scalar::matvec(view, activation, out);
    }
    out
}

/// The product in two parts, split at the tile nearest to `split` outputs.
fn product(kernels: &Kernels, view: &MatrixView<'_>, activations: &[ActivationRow], split: usize) -> Vec<f32> {
    let packed = kernels.pack(view, &mut WeightMemory::new()).expect("memory");
    let mut values = vec![f32::MAX; activations.len() * view.rows()];
    let output = OutputRows::new(&mut values, view.rows());
    let split = (split / TILE * TILE).min(view.rows());
    for range in [0..split, split..view.rows()] {
        // SAFETY: one view at a time.
        kernels.matmul(&packed, activations, unsafe { output.columns(range) });
    }
    values
}

fn activations(random: &mut Random, format: WeightFormat, rows: usize, columns: usize, bad: u64) -> Vec<ActivationRow> {
    (0..rows).map(|_| scalar::activation(format, &random.activation_row(columns, bad))).collect()
}

fn check(format: WeightFormat, outputs: usize, columns: usize, rows: usize, split: usize, bad: u64, seed: u64) {
    let mut random = Random(seed);
    let bytes = random.matrix(format, outputs, columns);
    let view = MatrixView::new(format, outputs, columns, &bytes).expect("whole rows");
    let activations = activations(&mut random, format, rows, columns, bad);
    let expected = expected(&view, &activations);
    for kernels in paths() {
        let found = product(&kernels, &view, &activations, split);
        assert_eq!(exact_bits(&found), exact_bits(&expected), "{format} on {}", kernels.isa());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_equal_the_scalar_form(
        format in prop::sample::select(WeightFormat::ALL.to_vec()),
        outputs in 1usize..70,
        units in 1usize..12,
        rows in 1usize..18,
        split in 0usize..70,
        bad in prop::sample::select(vec![0u64, 0, 40]),
        seed: u64,
    ) {
        let unit = match format.block_elements() { 1 => 23, 32 => 32, block => block };
        check(format, outputs, units * unit, rows, split, bad, seed);
    }
}

#[test]
fn extreme_weights_and_activations_do_not_saturate() {
    for format in WeightFormat::ALL.into_iter().filter(|format| format.is_quantized()) {
        for weight in [0x00, 0x7f, 0x80, 0xff] {
            let mut bytes = vec![weight; 17 * format.block_bytes()];
            for block in bytes.chunks_exact_mut(format.block_bytes()) {
                let one = half::f16::ONE.to_le_bytes();
                match format {
                    WeightFormat::Q6K => block[208..].copy_from_slice(&one),
                    WeightFormat::Q4_1 | WeightFormat::Q4K => {
                        block[..2].copy_from_slice(&one);
                        block[2..4].copy_from_slice(&one);
                    }
                    _ => block[..2].copy_from_slice(&one),
                }
            }
            let columns = format.block_elements();
            let view = MatrixView::new(format, 17, columns, &bytes).expect("whole rows");
            for value in [1.0, -1.0] {
                let activations = vec![scalar::activation(format, &vec![value; columns]); 5];
                let expected = expected(&view, &activations);
                for kernels in paths() {
                    let found = product(&kernels, &view, &activations, 16);
                    assert_eq!(exact_bits(&found), exact_bits(&expected), "{format} on {}", kernels.isa());
                }
            }
        }
    }
}

#[test]
fn the_comparison_sees_one_changed_weight() {
    for format in WeightFormat::ALL {
        let columns = 3 * format.block_elements().max(32);
        let mut random = Random(7);
        let bytes = random.matrix(format, 20, columns);
        let view = MatrixView::new(format, 20, columns, &bytes).expect("whole rows");
        let activation = vec![scalar::activation(format, &vec![0.5; columns])];
        let expected = expected(&view, &activation);

        let mut faulty = bytes.clone();
        // A byte that holds a weight in every format.
        let weight = 19 * bytes.len() / 20 + 7;
        faulty[weight + if format == WeightFormat::Q4K { 12 } else { 0 }] ^= 0x40;
        let view = MatrixView::new(format, 20, columns, &faulty).expect("whole rows");
        for kernels in paths() {
            let found = product(&kernels, &view, &activation, 16);
            assert_ne!(exact_bits(&found), exact_bits(&expected), "{format} on {}", kernels.isa());
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
#[should_panic(expected = "packed for another path")]
fn a_matrix_packed_for_another_path_is_refused() {
    let kernels = paths();
    let bytes = [0; 34];
    let view = MatrixView::new(WeightFormat::Q8_0, 1, 32, &bytes).expect("a row");
    let packed = Kernels { isa: crate::arith::Isa::Avx2 }.pack(&view, &mut WeightMemory::new()).expect("memory");
    let activations = [scalar::activation(WeightFormat::Q8_0, &[0.0; 32])];
    kernels[0].matmul(&packed, &activations, OutputRows::new(&mut [0.0], 1).all());
}
