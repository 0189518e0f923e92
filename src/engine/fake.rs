//! A backend for tests whose logits depend on everything that the engine must get right.
//!
//! Where a real one stores keys and values, it stores a hash of the token and of the two tokens before it, which it reads
//! from the recurrent state. A row is a hash of all that is read through the pages. A wrong page, a stale column or a
//! snapshot of another sequence therefore gives other tokens from there on than [`reference_row`], which knows nothing
//! of either.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::arith::{ATTENTION_CHUNK, ActivationRow, scalar};
use crate::backend::{
    Backend, BackendError, BatchEntry, Capacity, DeviceDescription, SnapshotId, StateAccess, StepBatch, StepOutput,
};
use crate::types::{PageId, StateSlot, TokenId};

/// Logits in a row, as in the incident with the invalid rows.
pub const VOCABULARY: usize = 64;
/// Drafts that a step may verify.
const MOST_DRAFTS: usize = 15;
/// Tokens of history that the recurrent state holds.
const HISTORY: usize = 2;

pub struct FakeBackend {
    capacity: Capacity,
    pages: Vec<[u32; ATTENTION_CHUNK]>,
    states: Vec<Vec<u32>>,
    snapshots: BTreeMap<SnapshotId, Vec<u32>>,
    shared: Arc<Mutex<Shared>>,
}

/// What a test sees of a backend that the engine owns.
#[derive(Default)]
pub struct Shared {
    /// Every batch so far.
    pub batches: Vec<StepBatch>,
    /// Rows to return instead of the right ones; each is used once.
    pub planted: Vec<Planted>,
}

/// A row to return for the sequence that begins with `first_token`, once it has `length` tokens.
pub struct Planted {
    pub first_token: TokenId,
    pub length: usize,
    pub row: Vec<f32>,
}

impl FakeBackend {
    pub fn new(pages: usize, state_slots: usize) -> (Self, Arc<Mutex<Shared>>) {
        let snapshots = if state_slots > 0 { pages } else { 0 };
        let shared = Arc::new(Mutex::new(Shared::default()));
        let backend = Self {
            capacity: Capacity { vocabulary_size: VOCABULARY, pages, state_slots, snapshots, drafts: MOST_DRAFTS },
            pages: vec![[u32::MAX; ATTENTION_CHUNK]; pages],
            states: vec![vec![u32::MAX; HISTORY]; state_slots],
            snapshots: BTreeMap::new(),
            shared: shared.clone(),
        };
        (backend, shared)
    }

    /// The row after token `index` of an entry, whose cells are in place.
    fn row(&self, entry: &BatchEntry, index: usize) -> Vec<f32> {
        let length = entry.first_position.index() + index + 1;
        let read = |position: usize| {
            self.pages[entry.pages[position / ATTENTION_CHUNK].0 as usize][position % ATTENTION_CHUNK]
        };
        let cells: Vec<u32> = (0..length).map(read).collect();
        let mut shared = self.shared.lock().unwrap();
        let history = if entry.state.is_some() { HISTORY } else { 0 };
        let first_cell = |planted: &Planted| cell(planted.first_token.0, &[0; HISTORY][..history]);
        let here = |planted: &Planted| first_cell(planted) == cells[0] && planted.length == length;
        match shared.planted.iter().position(here) {
            Some(index) => shared.planted.remove(index).row,
            None => hashed_row(&cells),
        }
    }
}

/// The row after `tokens`, straight from the definition.
pub fn reference_row(tokens: &[TokenId], recurrent: bool) -> Vec<f32> {
    let padded: Vec<u32> = [0; HISTORY].into_iter().chain(tokens.iter().map(|token| token.0)).collect();
    let history = if recurrent { HISTORY } else { 0 };
    let cells: Vec<u32> = padded.windows(HISTORY + 1).map(|window| cell(window[HISTORY], &window[..history])).collect();
    hashed_row(&cells)
}

/// What a page holds of a token that comes after `history`.
fn cell(token: u32, history: &[u32]) -> u32 {
    let mut hasher = blake3::Hasher::new();
    for token in history.iter().chain([&token]) {
        hasher.update(&token.to_le_bytes());
    }
    let mut bytes = [0; 4];
    hasher.finalize_xof().fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

fn hashed_row(cells: &[u32]) -> Vec<f32> {
    let mut hasher = blake3::Hasher::new();
    for cell in cells {
        hasher.update(&cell.to_le_bytes());
    }
    let mut bytes = [0; 4 * VOCABULARY];
    hasher.finalize_xof().fill(&mut bytes);
    let value = |bytes: &[u8]| f32::from(u16::from_le_bytes([bytes[0], bytes[1]])) / 8192.0 - 4.0;
    bytes.chunks_exact(4).map(value).collect()
}

impl Backend for FakeBackend {
    fn device(&self) -> DeviceDescription {
        DeviceDescription {
            backend: "fake",
            name: None,
            isa: None,
            threads: 1,
            arithmetic_version: crate::arith::VERSION,
            kernels: Vec::new(),
        }
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn forward(&mut self, batch: &StepBatch, output: &mut StepOutput) -> Result<(), BackendError> {
        *output = StepOutput::default();
        for entry in &batch.entries {
            let history: Vec<u32> = match entry.state {
                Some(_) if entry.first_position.index() == 0 => vec![0; HISTORY],
                Some(state) => self.states[state.slot.0 as usize][state.column..][..HISTORY].to_vec(),
                None => Vec::new(),
            };
            let length = history.len();
            let inputs: Vec<u32> = history.into_iter().chain(entry.tokens.iter().map(|token| token.0)).collect();
            for (index, token) in entry.tokens.iter().enumerate() {
                let position = entry.first_position.index() + index;
                let page = entry.pages[position / ATTENTION_CHUNK];
                let cell = cell(token.0, &inputs[index..][..length]);
                self.pages[page.0 as usize][position % ATTENTION_CHUNK] = cell;
            }
            for index in entry.logits_from..entry.tokens.len() {
                let row = self.row(entry, index);
                output.statistics.push(scalar::row_statistics(&row));
                output.inputs.push(ActivationRow::Float(Vec::new()));
                output.rows.extend(row);
            }
            for &(position, snapshot) in &entry.snapshots {
                let read = position.index() - entry.first_position.index();
                self.snapshots.insert(snapshot, inputs[read..][..HISTORY].to_vec());
            }
            if let Some(state) = entry.state {
                let first = if entry.prefill { inputs.len() - HISTORY } else { 1 };
                self.states[state.slot.0 as usize] = inputs[first..].to_vec();
            }
        }
        self.shared.lock().unwrap().batches.push(batch.clone());
        Ok(())
    }

    fn copy_page(&mut self, from: PageId, to: PageId) -> Result<(), BackendError> {
        self.pages[to.0 as usize] = self.pages[from.0 as usize];
        Ok(())
    }

    fn save_state(&mut self, from: StateAccess, to: SnapshotId) -> Result<(), BackendError> {
        let history = self.states[from.slot.0 as usize][from.column..][..HISTORY].to_vec();
        self.snapshots.insert(to, history);
        Ok(())
    }

    fn restore_state(&mut self, from: SnapshotId, to: StateSlot) -> Result<(), BackendError> {
        let missing =
            || BackendError::Resource { kind: "snapshot", id: from.0, message: "it holds nothing".to_owned() };
        self.states[to.0 as usize] = self.snapshots.get(&from).ok_or_else(missing)?.clone();
        Ok(())
    }

    fn free_snapshot(&mut self, snapshot: SnapshotId) -> Result<(), BackendError> {
        self.snapshots.remove(&snapshot);
        Ok(())
    }
}
