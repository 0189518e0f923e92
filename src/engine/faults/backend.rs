//! Faults of recurrent state, of what feeds the model, and of the LM head.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::{Fault, Switch};
use crate::arith::scalar;
use crate::backend::{
    Backend, BackendError, BatchEntry, Capacity, DeviceDescription, SnapshotId, StateAccess, StepBatch, StepOutput,
};
use crate::types::{PageId, StateSlot};

/// Columns of history that a convolution of the usual width 4 or 3 reads; more is cut by a bound on the width.
const NARROW: usize = 2;
/// Rows of a tile of the LM head.
const TILE: usize = 32;

/// A backend that computes something else than it was asked to, and says nothing of it.
pub struct FaultyBackend {
    fault: Fault,
    inner: Box<dyn Backend>,
    switch: Switch,
    /// The column that each slot was last read at.
    columns: HashMap<StateSlot, usize>,
    /// Rows that were computed so far.
    rows: usize,
}

impl FaultyBackend {
    pub fn new(fault: Fault, inner: Box<dyn Backend>, switch: Switch) -> Self {
        Self { fault, inner, switch, columns: HashMap::new(), rows: 0 }
    }

    fn entry(&mut self, entry: &mut BatchEntry) {
        let query = entry.tokens.len();
        if let Some(access) = entry.state.as_mut().filter(|_| !entry.prefill) {
            let asked = access.column;
            entry.convolves = self.fault != Fault::STATE_BOUND_BY_QUERY || asked < query;
            let before = self.columns.insert(access.slot, asked).unwrap_or(0);
            access.column = match self.fault {
                Fault::STATE_CLAMP_TO_QUERY => asked.min(query - 1),
                Fault::STATE_CLAMP_TO_WIDTH => asked.min(NARROW),
                Fault::STATE_SLOT_ZERO if query == 1 => 0,
                Fault::STATE_STALE_COUNT => before,
                Fault::STATE_ROLLED_SHORT => asked.saturating_sub(1),
                Fault::STATE_COUNT_ZERO if asked == 0 => self.inner.capacity().drafts,
                _ => asked,
            };
        }
        match self.fault {
            Fault::PREFILL_TAIL if entry.prefill && query == 1 && entry.first_position.0 > 0 => {
                entry.tokens[0].0 ^= 1;
            }
            Fault::VERIFY_POSITION if !entry.prefill && query > 2 => entry.tokens[query - 1] = entry.tokens[query - 2],
            _ => {}
        }
    }

    /// Damages the rows that were computed; their statistics are of what they are then.
    fn damage(&mut self, output: &mut StepOutput) {
        let vocabulary = self.inner.capacity().vocabulary_size;
        let mut rows: Vec<&mut [f32]> = output.rows.chunks_mut(vocabulary).collect();
        let count = rows.len();
        match self.fault {
            Fault::HEAD_TAIL => {
                let tail = vocabulary - vocabulary.min(TILE);
                for row in &mut rows {
                    let neighbour = tail.saturating_sub(TILE);
                    row.copy_within(neighbour..neighbour + vocabulary - tail, tail);
                }
            }
            Fault::ROWS_FROM_NEIGHBOUR if count > 1 => output.rows.rotate_right(vocabulary),
            Fault::NAN_SANITISED | Fault::INVALID_ROW_TO_ZERO => {
                for (index, row) in rows.iter_mut().enumerate() {
                    // Now and then a kernel gives nothing but NaN.
                    if (self.rows + index) % 17 == 11 {
                        let value = if self.fault == Fault::NAN_SANITISED { 0.0 } else { f32::NAN };
                        row.fill(value);
                    }
                }
            }
            _ => return,
        }
        for (row, statistics) in output.rows.chunks(vocabulary).zip(&mut output.statistics) {
            *statistics = scalar::row_statistics(row);
        }
        self.rows += count;
    }
}

impl Backend for FaultyBackend {
    fn device(&self) -> DeviceDescription {
        self.inner.device()
    }

    fn capacity(&self) -> Capacity {
        self.inner.capacity()
    }

    fn forward(&mut self, batch: &StepBatch, output: &mut StepOutput) -> Result<(), BackendError> {
        if !self.switch.load(Ordering::Relaxed) {
            return self.inner.forward(batch, output);
        }
        let mut batch = batch.clone();
        batch.entries.iter_mut().for_each(|entry| self.entry(entry));
        self.inner.forward(&batch, output)?;
        self.damage(output);
        Ok(())
    }

    fn copy_page(&mut self, from: PageId, to: PageId) -> Result<(), BackendError> {
        self.inner.copy_page(from, to)
    }

    fn save_state(&mut self, from: StateAccess, to: SnapshotId) -> Result<(), BackendError> {
        self.inner.save_state(from, to)
    }

    fn restore_state(&mut self, from: SnapshotId, to: StateSlot) -> Result<(), BackendError> {
        self.inner.restore_state(from, to)
    }

    fn free_snapshot(&mut self, snapshot: SnapshotId) -> Result<(), BackendError> {
        self.inner.free_snapshot(snapshot)
    }
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
