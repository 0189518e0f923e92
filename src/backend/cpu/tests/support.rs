//! Small models, and a way to take a sequence through a backend.

use super::plain;
use crate::arith::{ATTENTION_CHUNK, ActivationRow, Isa, KvType, WeightFormat, scalar};
use crate::backend::cpu::CpuBackend;
use crate::backend::{Backend, BackendOptions, BatchEntry, StateAccess, StepBatch, StepOutput};
use crate::model::synthetic::SyntheticModel;
use crate::model::{Architecture, Model};
use crate::types::{PageId, Position, StateSlot, TokenId};

pub const ARCHITECTURES: [Architecture; 2] = [Architecture::Llama, Architecture::Lfm2];
/// Three pages and a bit.
pub const LENGTH: usize = 100;
/// Most drafts of a step.
pub const DRAFTS: usize = 15;

pub fn options() -> BackendOptions {
    BackendOptions {
        threads: 2,
        isa: None,
        kv_type: KvType::F32,
        pages: 16,
        state_slots: 4,
        snapshots: 4,
        drafts: DRAFTS,
        sketches: false,
    }
}

/// A small random model, every matrix in `format`.
pub fn model(architecture: Architecture, format: WeightFormat) -> Model {
    let description = match architecture {
        Architecture::Llama => SyntheticModel::llama(7),
        Architecture::Lfm2 => SyntheticModel::lfm2(7),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    description.with_format(format).write_gguf(&path).unwrap();
    Model::load(&path).unwrap()
}

pub fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_supported())
}

/// Tokens that look like nothing in particular, different for each `seed`.
pub fn tokens(model: &Model, seed: u32, count: usize) -> Vec<TokenId> {
    let vocabulary = model.config.vocabulary_size as u32;
    let word = |index: u32| scalar::philox(u64::from(seed), [index, 0, 0, 0])[0];
    (0..count as u32).map(|index| TokenId(word(index) % vocabulary)).collect()
}

/// What the definition gives for each token of a sequence.
pub struct Expected {
    pub rows: Vec<Vec<f32>>,
    pub inputs: Vec<ActivationRow>,
}

pub fn expected(model: &Model, kv_type: KvType, tokens: &[TokenId]) -> Expected {
    let inputs = plain::head_inputs(model, kv_type, tokens);
    Expected { rows: inputs.iter().map(|input| plain::logits(model, input)).collect(), inputs }
}

/// A sequence inside a backend: its pages and its slot.
#[derive(Clone)]
pub struct Sequence {
    pub pages: Vec<PageId>,
    pub slot: Option<StateSlot>,
    pub position: usize,
    pub column: usize,
}

impl Sequence {
    /// Pages `first_page, first_page + stride, ..`: not in order of their numbers when the stride wraps.
    pub fn new(backend: &CpuBackend, first_page: u32, slot: u32) -> Self {
        let pages = (0..LENGTH.div_ceil(ATTENTION_CHUNK) as u32).rev().map(|page| PageId(first_page + page)).collect();
        let slot = (backend.capacity().state_slots > 0).then_some(StateSlot(slot));
        Self { pages, slot, position: 0, column: 0 }
    }

    pub fn entry(&self, tokens: &[TokenId], prefill: bool) -> BatchEntry {
        BatchEntry {
            tokens: tokens.to_vec(),
            first_position: Position(self.position as u32),
            pages: self.pages.clone(),
            state: self.slot.map(|slot| StateAccess { slot, column: self.column }),
            convolves: true,
            logits_from: 0,
            prefill,
            snapshots: Vec::new(),
        }
    }

    /// Goes on after `accepted` tokens of a step.
    pub fn advance(&mut self, accepted: usize, prefill: bool) {
        self.position += accepted;
        self.column = if prefill { 0 } else { accepted - 1 };
    }

    /// Takes `tokens` through the backend as prefill in chunks of `chunk`; returns the rows of all of them.
    pub fn prefill(&mut self, backend: &mut CpuBackend, tokens: &[TokenId], chunk: usize) -> StepOutput {
        let mut all = StepOutput::default();
        for tokens in tokens.chunks(chunk) {
            let output = forward(backend, vec![self.entry(tokens, true)]);
            self.advance(tokens.len(), true);
            all.rows.extend(output.rows);
            all.inputs.extend(output.inputs);
            all.statistics.extend(output.statistics);
        }
        all
    }
}

pub fn forward(backend: &mut CpuBackend, entries: Vec<BatchEntry>) -> StepOutput {
    let mut output = StepOutput::default();
    backend.forward(&StepBatch { entries }, &mut output).unwrap();
    output
}

pub fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|value| value.to_bits()).collect()
}

/// Whether row `index` of `output` is `expected`, bit for bit.
pub fn same(output: &StepOutput, index: usize, expected: &[f32]) -> bool {
    output.row(index).is_some_and(|row| bits(row) == bits(expected))
}

#[track_caller]
pub fn assert_rows(output: &StepOutput, expected: &[Vec<f32>], what: &str) {
    assert_eq!(output.statistics.len(), expected.len(), "{what}: number of rows");
    for (index, expected) in expected.iter().enumerate() {
        assert!(same(output, index, expected), "{what}: row {index} differs");
    }
}
