//! Decompressed segments, the least recently used thrown out first.

use std::sync::{Arc, Mutex, PoisonError};

use super::block::Block;

#[derive(Debug)]
pub(super) struct Cache {
    state: Mutex<State>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Least recently used first.
    entries: Vec<(u32, Arc<Block>)>,
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
        let index = state.entries.iter().position(|(cached, _)| *cached == segment)?;
        let entry = state.entries.remove(index);
        let block = Arc::clone(&entry.1);
        state.entries.push(entry);
        Some(block)
    }

    fn insert(&self, segment: u32, block: &Arc<Block>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.entries.iter().any(|(cached, _)| *cached == segment) {
            return;
        }
        state.bytes += block.memory();
        state.entries.push((segment, Arc::clone(block)));
        while state.bytes > self.capacity && state.entries.len() > 1 {
            let (_, evicted) = state.entries.remove(0);
            state.bytes -= evicted.memory();
        }
    }
}
