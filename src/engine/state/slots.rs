//! State slots: the rows of recurrent state that running sequences own.

use std::collections::BTreeSet;

use crate::types::StateSlot;

/// Hands out state slots, lowest first.
#[derive(Debug)]
pub struct StateSlots {
    free: BTreeSet<StateSlot>,
}

impl StateSlots {
    /// `count` slots, all free.
    pub fn new(count: usize) -> Self {
        Self { free: (0..count as u32).map(StateSlot).collect() }
    }

    /// Takes the lowest free slot.
    pub fn allocate(&mut self) -> Option<StateSlot> {
        self.free.pop_first()
    }

    /// Gives a slot back.
    pub fn release(&mut self, slot: StateSlot) {
        let was_taken = self.free.insert(slot);
        debug_assert!(was_taken, "state slot {slot} was released twice");
    }
}
