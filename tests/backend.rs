//! The CPU backend against recorded numbers of the PyPI package `transformers` (tests/fixtures/reference.py).

use std::path::Path;

use stepscope::arith::KvType;
use stepscope::backend::{BackendKind, BackendOptions, BatchEntry, StateAccess, StepBatch, StepOutput, open};
use stepscope::model::Model;
use stepscope::model::synthetic::reference_models;
use stepscope::types::{PageId, Position, StateSlot, TokenId};

/// Logits of these models spread over some units; float32 in another order of operations differs by about 1e-5.
const TOLERANCE: f32 = 2e-4;

const OPTIONS: BackendOptions = BackendOptions {
    threads: 2,
    isa: None,
    kv_type: KvType::F32,
    pages: 2,
    state_slots: 1,
    snapshots: 0,
    drafts: 0,
    sketches: false,
};

#[test]
fn rows_are_those_of_transformers() {
    for (name, description) in reference_models() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        description.write_gguf(&path).unwrap();
        let model = Model::load(&path).unwrap();
        let (tokens, recorded) = recorded(name);
        let output = rows(&model, &tokens);
        let difference = greatest_difference(&output.rows, &recorded);
        assert!(difference <= TOLERANCE, "{name}: rows differ by {difference}");

        // One token in the middle is another: the rows before it stay, the rest moves by far more than the tolerance.
        let mut changed = tokens.clone();
        changed[20] = TokenId(tokens[20].0 ^ 1);
        let vocabulary = model.config.vocabulary_size;
        let output = rows(&model, &changed);
        assert!(greatest_difference(&output.rows[..20 * vocabulary], &recorded[..20 * vocabulary]) <= TOLERANCE);
        for row in 20..tokens.len() {
            let row = row * vocabulary..(row + 1) * vocabulary;
            let difference = greatest_difference(&output.rows[row.clone()], &recorded[row]);
            assert!(difference > 5.0 * TOLERANCE, "{name}: a changed token moves a row by {difference} only");
        }
    }
}

#[test]
fn cuda_says_why_there_is_none_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let [(_, description), ..] = reference_models();
    description.write_gguf(&path).unwrap();
    let model = Model::load(&path).unwrap();
    let error = open(BackendKind::Cuda, &model, &OPTIONS).err().unwrap().to_string();
    assert!(error.contains("no CUDA kernels yet") && error.contains("--backend cpu"), "{error}");
}

/// All rows of a sequence, computed in one prefill.
fn rows(model: &Model, tokens: &[TokenId]) -> StepOutput {
    let mut backend = open(BackendKind::Cpu, model, &OPTIONS).unwrap();
    let has_state = backend.capacity().state_slots > 0;
    let entry = BatchEntry {
        tokens: tokens.to_vec(),
        first_position: Position(0),
        pages: vec![PageId(1), PageId(0)],
        state: has_state.then_some(StateAccess { slot: StateSlot(0), column: 0 }),
        convolves: true,
        logits_from: 0,
        prefill: true,
        snapshots: Vec::new(),
    };
    let mut output = StepOutput::default();
    backend.forward(&StepBatch { entries: vec![entry] }, &mut output).unwrap();
    output
}

/// The recorded tokens and their logits rows.
fn recorded(name: &str) -> (Vec<TokenId>, Vec<f32>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reference");
    let description = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    let description: serde_json::Value = serde_json::from_slice(&description).unwrap();
    let tokens = description["tokens"].as_array().unwrap().iter();
    let tokens = tokens.map(|token| TokenId(token.as_u64().unwrap() as u32)).collect();
    let bytes = std::fs::read(folder.join(format!("{name}.f32"))).unwrap();
    (tokens, bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn greatest_difference(rows: &[f32], recorded: &[f32]) -> f32 {
    assert_eq!(rows.len(), recorded.len(), "as many logits as were recorded");
    // A NaN on either side is the greatest difference of all.
    let difference = |(a, b): (&f32, &f32)| if a.is_nan() || b.is_nan() { f32::INFINITY } else { (a - b).abs() };
    rows.iter().zip(recorded).map(difference).fold(0.0, f32::max)
}
