//! Decompressed segments, the least recently used thrown out first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::block::Block;

#[derive(Debug)]
pub(super) struct Cache {
    state: Mutex<State>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Block and time of last use, by segment.
    entries: HashMap<u32, (Arc<Block>, u64)>,
    /// Segment by time of last use.
    uses: BTreeMap<u64, u32>,
    clock: u64,
    bytes: usize,
}

impl Cache {
    pub(super) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), capacity }
    }

    /// The segment's block; `load` runs without the lock, so that other segments can be read meanwhile.
    pub(super) fn get<E>(&self, segment: u32, load: impl FnOnce() -> Result<Block, E>) -> Result<Arc<Block>, E> {
        if let Some(block) = self.find(segment) {
            return Ok(block);
        }
        let block = Arc::new(load()?);
        self.insert(segment, &block);
        Ok(block)
    }

    fn find(&self, segment: u32) -> Option<Arc<Block>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let (block, last_use) = state.entries.get_mut(&segment)?;
        state.clock += 1;
        state.uses.remove(&*last_use);
        state.uses.insert(state.clock, segment);
        *last_use = state.clock;
        Some(Arc::clone(block))
    }

    fn insert(&self, segment: u32, block: &Arc<Block>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.entries.contains_key(&segment) {
            return;
        }
        state.clock += 1;
        let now = state.clock;
        state.bytes += block.memory();
        state.uses.insert(now, segment);
        state.entries.insert(segment, (Arc::clone(block), now));
        while state.bytes > self.capacity && state.entries.len() > 1 {
            let Some((_, oldest)) = state.uses.pop_first() else { break };
            if let Some((evicted, _)) = state.entries.remove(&oldest) {
                state.bytes -= evicted.memory();
            }
        }
    }
}
