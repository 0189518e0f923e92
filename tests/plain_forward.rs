//! The plain forward pass against the recorded logits of PyPI `transformers` (tests/fixtures/README.md).

use std::path::Path;

use serde_json::Value;
use stepscope::arith::KvType;
use stepscope::model::Model;
use stepscope::model::synthetic::reference_models;
use stepscope::replay::forward::{PlainModel, Products};

/// Largest difference of a logit that rounding explains.
///
/// Both sides compute in binary32 and differ in the order of sums alone. A logit is a sum of some thousand rounded
/// terms of size 1 behind at most four layers of the like: errors of 2^-24 per operation that add up as a random walk
/// stay below 2^-24 · 4 · 1000, and seldom pass a tenth of that. A wrong pairing, layout, position or norm changes
/// logits by tenths and more.
const ROUNDING: f32 = 2.4e-4;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reference").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The recorded tokens of a model, and its rows.
fn recorded(name: &str) -> (Vec<u32>, Vec<Vec<f32>>) {
    let description: Value = serde_json::from_slice(&fixture(&format!("{name}.json"))).unwrap();
    let tokens: Vec<u32> = serde_json::from_value(description["tokens"].clone()).unwrap();
    let vocabulary_size = description["vocabulary_size"].as_u64().unwrap() as usize;
    let values: Vec<f32> =
        fixture(&format!("{name}.f32")).as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let rows: Vec<Vec<f32>> = values.chunks(vocabulary_size).map(<[f32]>::to_vec).collect();
    assert_eq!(rows.len(), tokens.len());
    (tokens, rows)
}

fn rows(model: &Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    let plain = PlainModel::new(model, Products::Scalar, KvType::F32).unwrap();
    let mut memory = plain.start();
    let row = |&token| plain.logits(&plain.head_input(&plain.feed(&mut memory, token).unwrap()));
    tokens.iter().map(row).collect()
}

fn largest_difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn rows_are_those_of_transformers_up_to_rounding() {
    let folder = tempfile::tempdir().unwrap();
    for (name, synthetic) in reference_models() {
        let path = folder.path().join(format!("{name}.gguf"));
        synthetic.write_gguf(&path).unwrap();
        let (tokens, expected) = recorded(name);
        let found = rows(&Model::load(&path).unwrap(), &tokens);
        let difference = largest_difference(&expected, &found);
        println!("{name}: {difference:e}");
        assert!(difference <= ROUNDING, "{name}: logits differ by up to {difference}");
        assert!(difference > 0.0, "{name}: two programs that sum in different orders do not agree to the last bit");
    }
}

/// The tolerance tells a right forward pass from one that is off by one position.
#[test]
fn a_shifted_sequence_is_far_outside_the_tolerance() {
    let folder = tempfile::tempdir().unwrap();
    for (name, synthetic) in reference_models() {
        let path = folder.path().join(format!("{name}.gguf"));
        synthetic.write_gguf(&path).unwrap();
        let (tokens, expected) = recorded(name);
        let found = rows(&Model::load(&path).unwrap(), &tokens[1..]);
        let difference = largest_difference(&expected[39..], &found[38..]);
        assert!(difference > 10.0 * ROUNDING, "{name}: {difference}");
    }
}

/// What was taken back was never there.
#[test]
fn truncated_memory_goes_on_as_if_nothing_had_been() {
    let folder = tempfile::tempdir().unwrap();
    for (name, synthetic) in reference_models() {
        let path = folder.path().join(format!("{name}.gguf"));
        synthetic.write_gguf(&path).unwrap();
        let model = Model::load(&path).unwrap();
        let plain = PlainModel::new(&model, Products::Scalar, KvType::F32).unwrap();
        let mut straight = plain.start();
        let mut taken_back = plain.start();
        for token in 10..15 {
            plain.feed(&mut straight, token).unwrap();
            plain.feed(&mut taken_back, token).unwrap();
        }
        for draft in [100, 101, 102] {
            plain.feed(&mut taken_back, draft).unwrap();
        }
        taken_back.truncate(5);
        assert_eq!(plain.feed(&mut straight, 20).unwrap(), plain.feed(&mut taken_back, 20).unwrap(), "{name}");
    }
}
