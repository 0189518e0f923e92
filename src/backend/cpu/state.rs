//! The recurrent state of short convolutions: one row of columns per slot and layer, and saved histories.

use crate::backend::{BackendError, SnapshotId, StateAccess};
use crate::types::StateSlot;

/// State rows of every slot, laid out `[slot][layer][column][channel]`, and snapshots `[layer][column][channel]`.
///
/// A model without convolutions has a state of no layers, no slots and no snapshots.
pub(super) struct ConvolutionState {
    layers: usize,
    channels: usize,
    /// Columns a convolution looks back: its width minus 1.
    history: usize,
    /// Columns of a row: the history and one per draft.
    columns: usize,
    rows: Vec<f32>,
    snapshots: Vec<Option<Box<[f32]>>>,
}

/// The shape of the state of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateShape {
    /// Short convolution layers.
    pub layers: usize,
    /// Channels of each.
    pub channels: usize,
    /// Width of the convolutions, history included.
    pub width: usize,
    /// Most drafts of a step.
    pub drafts: usize,
}

impl ConvolutionState {
    pub(super) fn new(shape: StateShape, slots: usize, snapshots: usize) -> Result<Self, BackendError> {
        let history = shape.width.saturating_sub(1);
        let columns = history.saturating_add(shape.drafts);
        let elements = [shape.layers, columns, shape.channels].iter().try_fold(slots, |all, n| all.checked_mul(*n));
        let fits = |elements: &usize| Vec::<f32>::new().try_reserve_exact(*elements).is_ok();
        let Some(elements) = elements.filter(fits) else {
            let message =
                format!("{slots} state slots with {} drafts do not fit in memory; ask for fewer", shape.drafts);
            return Err(BackendError::Configuration(message));
        };
        let rows = vec![0.0; elements];
        let snapshots = if shape.layers == 0 { Vec::new() } else { vec![None; snapshots] };
        Ok(Self { layers: shape.layers, channels: shape.channels, history, columns, rows, snapshots })
    }

    /// Whether the model has recurrent layers at all.
    pub(super) fn exists(&self) -> bool {
        self.layers > 0
    }

    /// Columns a convolution looks back.
    pub(super) fn history_columns(&self) -> usize {
        self.history
    }

    /// The history of `layer` that begins at the accessed column, `[column][channel]`.
    pub(super) fn history(&self, layer: usize, access: StateAccess) -> &[f32] {
        let start = self.row_start(layer, access.slot) + access.column * self.channels;
        &self.rows[start..start + self.history * self.channels]
    }

    /// Replaces the row of `layer` from column 0 by `columns`, `[column][channel]`; later columns become meaningless.
    pub(super) fn replace(&mut self, layer: usize, slot: StateSlot, columns: &[f32]) {
        let start = self.row_start(layer, slot);
        self.rows[start..start + columns.len()].copy_from_slice(columns);
    }

    /// The part of a snapshot that belongs to `layer`, to be written.
    pub(super) fn snapshot_mut(&mut self, layer: usize, snapshot: SnapshotId) -> &mut [f32] {
        let length = self.history * self.channels;
        let size = self.layers * length;
        let stored = self.snapshots[snapshot.0 as usize].get_or_insert_with(|| vec![0.0; size].into_boxed_slice());
        &mut stored[layer * length..(layer + 1) * length]
    }

    /// See [`crate::backend::Backend::save_state`].
    pub(super) fn save(&mut self, from: StateAccess, to: SnapshotId) -> Result<(), BackendError> {
        self.check_access(from)?;
        self.check_snapshot(to)?;
        for layer in 0..self.layers {
            let history = self.history(layer, from).to_vec();
            self.snapshot_mut(layer, to).copy_from_slice(&history);
        }
        Ok(())
    }

    /// See [`crate::backend::Backend::restore_state`].
    pub(super) fn restore(&mut self, from: SnapshotId, to: StateSlot) -> Result<(), BackendError> {
        self.check_access(StateAccess { slot: to, column: 0 })?;
        self.check_snapshot(from)?;
        let Some(snapshot) = self.snapshots[from.0 as usize].take() else {
            let message = "it holds no state; save one before it is restored".to_owned();
            return Err(BackendError::Resource { kind: "snapshot", id: from.0, message });
        };
        let length = self.history * self.channels;
        for layer in 0..self.layers {
            self.replace(layer, to, &snapshot[layer * length..(layer + 1) * length]);
        }
        self.snapshots[from.0 as usize] = Some(snapshot);
        Ok(())
    }

    /// See [`crate::backend::Backend::free_snapshot`].
    pub(super) fn free(&mut self, snapshot: SnapshotId) -> Result<(), BackendError> {
        self.check_snapshot(snapshot)?;
        self.snapshots[snapshot.0 as usize] = None;
        Ok(())
    }

    pub(super) fn slots(&self) -> usize {
        self.rows.len().checked_div(self.layers * self.columns * self.channels).unwrap_or(0)
    }

    pub(super) fn snapshots(&self) -> usize {
        self.snapshots.len()
    }

    /// The legal bound is the row: a column from which a whole history can be read.
    pub(super) fn check_access(&self, access: StateAccess) -> Result<(), BackendError> {
        self.check_exists()?;
        let (slots, last) = (self.slots(), self.columns - self.history);
        let message = match access {
            StateAccess { slot, .. } if slot.0 as usize >= slots => format!("there are {slots} state slots"),
            StateAccess { column, .. } if column > last => {
                format!("column {column} asked for; a history can begin at columns 0 to {last} (the number of drafts)")
            }
            _ => return Ok(()),
        };
        Err(BackendError::Resource { kind: "state slot", id: access.slot.0, message })
    }

    pub(super) fn check_snapshot(&self, snapshot: SnapshotId) -> Result<(), BackendError> {
        self.check_exists()?;
        if (snapshot.0 as usize) < self.snapshots.len() {
            return Ok(());
        }
        let message = format!("there are {} snapshots", self.snapshots.len());
        Err(BackendError::Resource { kind: "snapshot", id: snapshot.0, message })
    }

    fn check_exists(&self) -> Result<(), BackendError> {
        if self.exists() {
            return Ok(());
        }
        Err(BackendError::Model("it has no recurrent layers, and so no state to name, save or restore".to_owned()))
    }

    fn row_start(&self, layer: usize, slot: StateSlot) -> usize {
        (slot.0 as usize * self.layers + layer) * self.columns * self.channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> ConvolutionState {
        ConvolutionState::new(StateShape { layers: 2, channels: 3, width: 3, drafts: 4 }, 2, 2).unwrap()
    }

    fn access(slot: u32, column: usize) -> StateAccess {
        StateAccess { slot: StateSlot(slot), column }
    }

    #[test]
    fn a_history_begins_at_any_column_up_to_the_number_of_drafts() {
        let mut state = state();
        let columns: Vec<f32> = (0..6 * 3).map(|value| value as f32).collect();
        state.replace(1, StateSlot(1), &columns);
        for column in 0..=4 {
            state.check_access(access(1, column)).unwrap();
            assert_eq!(state.history(1, access(1, column)), &columns[column * 3..(column + 2) * 3]);
        }
        assert!(state.check_access(access(1, 5)).unwrap_err().to_string().contains("columns 0 to 4"));
        assert!(state.check_access(access(2, 0)).unwrap_err().to_string().contains("2 state slots"));
        assert_eq!(state.history(0, access(1, 0)), [0.0; 6], "the other layer is untouched");
        assert_eq!(state.history(1, access(0, 0)), [0.0; 6], "the other slot is untouched");
    }

    #[test]
    fn a_state_that_cannot_fit_is_an_error() {
        let shape = StateShape { layers: 2, channels: 3, width: 3, drafts: usize::MAX };
        let error = ConvolutionState::new(shape, 1, 0).err().unwrap().to_string();
        assert!(error.contains("do not fit in memory"), "{error}");
    }

    #[test]
    fn a_snapshot_brings_a_history_back_to_column_0() {
        let mut state = state();
        for layer in 0..2 {
            let columns: Vec<f32> = (0..6 * 3).map(|value| (100 * layer + value) as f32).collect();
            state.replace(layer, StateSlot(0), &columns);
        }
        state.save(access(0, 3), SnapshotId(1)).unwrap();
        state.restore(SnapshotId(1), StateSlot(1)).unwrap();
        for layer in 0..2 {
            assert_eq!(state.history(layer, access(1, 0)), state.history(layer, access(0, 3)));
        }
        state.free(SnapshotId(1)).unwrap();
        assert!(state.restore(SnapshotId(1), StateSlot(1)).unwrap_err().to_string().contains("holds no state"));
        assert!(state.save(access(0, 0), SnapshotId(2)).unwrap_err().to_string().contains("2 snapshots"));
    }
}
