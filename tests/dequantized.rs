//! SmolLM2 with its weights widened to f32, against what `transformers` computed on the same weights
//! (tests/fixtures/README.md).

use std::path::{Path, PathBuf};

use serde_json::Value;
use stepscope::arith::{Isa, KvType};
use stepscope::model::{Model, write_dequantized};
use stepscope::replay::forward::{PlainModel, Products};

/// Largest difference of a logit that rounding explains: 5.8e-5 was seen, and logits reach 27.
const ROUNDING: f64 = 5e-4;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reference").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `make model` puts it there.
fn smollm2() -> PathBuf {
    let default = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
        cache.expect("a home folder").join("stepscope/SmolLM2-135M-Instruct.Q4_1.gguf")
    };
    let path = std::env::var_os("STEPSCOPE_MODEL").map_or_else(default, PathBuf::from);
    assert!(path.exists(), "{} is missing: run `make model`", path.display());
    path
}

fn log_sum_exp(row: &[f32]) -> f64 {
    let maximum = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    f64::from(maximum) + row.iter().map(|value| f64::from(value - maximum).exp()).sum::<f64>().ln()
}

/// Rows of the plain forward pass, on the fastest path of this machine: every path computes the same bits.
fn rows(model: &Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    let products =
        [Isa::Avx512, Isa::Avx2, Isa::Scalar].into_iter().find_map(|isa| Products::new(isa, &model.weights).ok());
    let plain =
        PlainModel::new(model, products.expect("scalar runs everywhere"), KvType::F32).expect("a rotary embedding");
    let mut memory = plain.start();
    let row = |token: &u32| {
        let hidden = plain.feed(&mut memory, *token).expect("a known token");
        plain.logits(&plain.head_input(&hidden))
    };
    tokens.iter().map(row).collect()
}

#[test]
fn rows_are_those_of_transformers_up_to_rounding() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let widened = folder.path().join("f32.gguf");
    write_dequantized(&smollm2(), &widened).expect("a valid file");
    let model = Model::load(&widened).expect("a valid file");

    let recorded = serde_json::from_slice::<Value>(&fixture("smollm2.json")).expect("valid JSON");
    let tokens = serde_json::from_value::<Vec<u32>>(recorded["tokens"].clone()).expect("token ids");
    let text = recorded["text"].as_str().expect("a text");
    let encoded = model.tokenizer.encode(text, true).expect("encoded").iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(encoded, tokens);

    let found = rows(&model, &tokens);
    let expected = recorded["rows"].as_array().expect("an array");
    assert_eq!(found.len(), expected.len());
    let mut largest = 0.0_f64;
    for (row, expected) in found.iter().zip(expected) {
        let sum = expected["log_sum_exp"].as_f64().expect("a number");
        largest = largest.max((log_sum_exp(row) - sum).abs());
        let best = expected["top"].as_array().expect("an array");
        assert_eq!(best.len(), 20);
        for entry in best {
            let (id, logit) = (entry[0].as_u64().expect("an id"), entry[1].as_f64().expect("a logit"));
            largest = largest.max((f64::from(row[id as usize]) - logit).abs());
        }
    }
    let whole = fixture("smollm2_last_row.f32");
    let whole = whole.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<_>>();
    let last = found.last().expect("a row");
    assert_eq!(last.len(), whole.len());
    for (found, expected) in last.iter().zip(&whole) {
        largest = largest.max(f64::from((found - expected).abs()));
    }
    println!("largest difference {largest:e}");
    assert!(largest <= ROUNDING, "logits differ by up to {largest}");

    // The row of another position is far outside of what rounding explains.
    let other = &found[found.len() - 2];
    let shifted = other.iter().zip(&whole).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max);
    assert!(f64::from(shifted) > 1000.0 * ROUNDING, "{shifted}");
}
