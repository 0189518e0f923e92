//! A backend whose rows a gate makes up.

use std::collections::HashMap;

use crate::arith::{ActivationRow, VERSION, scalar};
use crate::backend::{
    Backend, BackendError, Capacity, DeviceDescription, SnapshotId, StateAccess, StepBatch, StepOutput,
};
use crate::types::{PageId, StateSlot, TokenId};

/// Where a row stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The first token of the sequence's prompt: what tells a gate's sequences apart.
    pub first: TokenId,
    /// Position of the token that the row comes after.
    pub position: u32,
    /// That token.
    pub token: TokenId,
}

/// Fills rows by their place alone, so that they depend on no batch and on no draft before.
pub(super) struct Scripted<F> {
    capacity: Capacity,
    /// The first token of the sequence that a first page belongs to.
    first_of: HashMap<PageId, TokenId>,
    row: F,
}

impl<F: FnMut(Place, &mut [f32]) + Send> Scripted<F> {
    pub fn new(vocabulary_size: usize, pages: usize, drafts: usize, row: F) -> Self {
        let capacity = Capacity { vocabulary_size, pages, state_slots: 0, snapshots: 0, drafts };
        Self { capacity, first_of: HashMap::new(), row }
    }
}

impl<F: FnMut(Place, &mut [f32]) + Send> Backend for Scripted<F> {
    fn device(&self) -> DeviceDescription {
        DeviceDescription {
            backend: "scripted",
            name: None,
            isa: None,
            threads: 1,
            arithmetic_version: VERSION,
            kernels: Vec::new(),
        }
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn forward(&mut self, batch: &StepBatch, output: &mut StepOutput) -> Result<(), BackendError> {
        *output = StepOutput::default();
        for (number, entry) in batch.entries.iter().enumerate() {
            let wrong = |message: &str| BackendError::Entry { entry: number, message: message.to_owned() };
            let (Some(page), Some(first)) = (entry.pages.first(), entry.tokens.first()) else {
                return Err(wrong("expected a page and a token, found none"));
            };
            if entry.first_position.0 == 0 {
                self.first_of.insert(*page, *first);
            }
            let first =
                *self.first_of.get(page).ok_or_else(|| wrong("expected a sequence that began at position 0"))?;
            for (position, token) in (entry.first_position.0..).zip(&entry.tokens).skip(entry.logits_from) {
                let mut row = vec![0.0; self.capacity.vocabulary_size];
                (self.row)(Place { first, position, token: *token }, &mut row);
                output.statistics.push(scalar::row_statistics(&row));
                output.inputs.push(ActivationRow::Float(Vec::new()));
                output.rows.extend(row);
            }
        }
        Ok(())
    }

    fn copy_page(&mut self, _from: PageId, _to: PageId) -> Result<(), BackendError> {
        Ok(())
    }

    fn save_state(&mut self, _from: StateAccess, _to: SnapshotId) -> Result<(), BackendError> {
        Ok(())
    }

    fn restore_state(&mut self, _from: SnapshotId, _to: StateSlot) -> Result<(), BackendError> {
        Ok(())
    }

    fn free_snapshot(&mut self, _snapshot: SnapshotId) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Words that look like chance and depend on `key` and `place` alone.
pub(super) fn word(key: u64, place: [u32; 3]) -> u32 {
    scalar::philox(key, [place[0], place[1], place[2], 0])[0]
}

/// A number below `bound`, likewise.
pub(super) fn below(key: u64, place: [u32; 3], bound: usize) -> usize {
    ((u64::from(word(key, place)) * bound as u64) >> 32) as usize
}

/// A number between 0 and 1, likewise.
pub(super) fn unit(key: u64, place: [u32; 3]) -> f64 {
    scalar::uniform(word(key, place))
}
