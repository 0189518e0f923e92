//! What running sequences hold: pages of the key-value cache, state slots, and what the prefix cache shares.

mod pages;
mod prefix_cache;
mod slots;

pub use pages::Pages;
pub use prefix_cache::{PrefixCache, Visibility};
pub use slots::StateSlots;

use crate::arith::ATTENTION_CHUNK;
use crate::backend::{Capacity, SnapshotId};
use crate::engine::Owner;
use crate::types::{PageId, RequestId, StateSlot, TokenId};

/// The resources of a backend, and who holds them.
#[derive(Debug)]
pub struct State {
    pages: Pages,
    /// `None` for a model without recurrent layers.
    slots: Option<StateSlots>,
    /// `None` when the prefix cache is off.
    cache: Option<PrefixCache>,
}

/// What one running sequence holds, from admission to its end.
///
/// All pages that the sequence can ever fill are taken at admission: a sequence that runs is never short of pages, so
/// none is ever preempted.
#[derive(Debug)]
pub struct Holding {
    /// The sequence's pages in order; the first [`Holding::cached_pages`] came from the prefix cache.
    pub pages: Vec<PageId>,
    /// Its row of recurrent state.
    pub slot: Option<StateSlot>,
    /// Pages that are computed already.
    pub cached_pages: usize,
}

impl Holding {
    /// The snapshot to begin from, taken at the end of the last cached page; `None` at position 0.
    pub fn snapshot(&self) -> Option<SnapshotId> {
        self.cached_pages.checked_sub(1).map(|last| snapshot_of(self.pages[last]))
    }
}

/// The snapshot of recurrent state at the end of a page goes by the page's number, and lives and dies with it.
pub fn snapshot_of(page: PageId) -> SnapshotId {
    SnapshotId(page.0)
}

/// Pages that `positions` positions fill.
pub fn pages_for(positions: usize) -> usize {
    positions.div_ceil(ATTENTION_CHUNK)
}

impl State {
    /// Everything free.
    pub fn new(capacity: &Capacity, prefix_cache: bool) -> Self {
        Self {
            pages: Pages::new(capacity.pages),
            slots: (capacity.state_slots > 0).then(|| StateSlots::new(capacity.state_slots)),
            cache: prefix_cache.then(PrefixCache::default),
        }
    }

    /// Whether cached pages need a snapshot of recurrent state.
    pub fn takes_snapshots(&self) -> bool {
        self.slots.is_some() && self.cache.is_some()
    }

    /// How many pages there are in all.
    pub fn page_count(&self) -> usize {
        self.pages.count()
    }

    /// Takes all that a sequence needs to begin with `prompt` and reach `positions` positions, or nothing.
    pub fn take(&mut self, prompt: &[TokenId], positions: usize, owner: &Owner, request: RequestId) -> Option<Holding> {
        let mut held = match &mut self.cache {
            Some(cache) => cache.find(prompt, owner, request, &self.pages),
            None => Vec::new(),
        };
        held.iter().for_each(|&page| self.pages.retain(page));
        let cached_pages = held.len();
        let missing = pages_for(positions).saturating_sub(cached_pages);
        let slot = match (self.make_room(missing), &mut self.slots) {
            (true, None) => None,
            (true, Some(slots)) => match slots.allocate() {
                Some(slot) => Some(slot),
                None => return self.give_up(held),
            },
            (false, _) => return self.give_up(held),
        };
        for _ in 0..missing {
            let page = self.pages.allocate(owner, held.last().copied())?;
            held.push(page);
        }
        Some(Holding { pages: held, slot, cached_pages })
    }

    /// Gives back what a sequence held.
    pub fn release(&mut self, holding: Holding) {
        holding.pages.into_iter().for_each(|page| self.pages.release(page));
        if let (Some(slots), Some(slot)) = (&mut self.slots, holding.slot) {
            slots.release(slot);
        }
    }

    /// Offers the full pages of `tokens` to others: to the choices of one request ([`Visibility::Private`]) or, after a
    /// valid finish, to everybody.
    pub fn share(&mut self, tokens: &[TokenId], holding: &Holding, owner: &Owner, visibility: Visibility) {
        if let Some(cache) = &mut self.cache {
            cache.insert(tokens, &holding.pages, owner, visibility, &mut self.pages);
        }
    }

    /// Removes an owner from the cache without blame: its request ended.
    pub fn forget(&mut self, owner: &Owner) {
        if let Some(cache) = &mut self.cache {
            cache.forget(owner, &mut self.pages);
        }
    }

    /// Removes an owner whose computation went bad everywhere, and closes what it shared in making.
    pub fn condemn(&mut self, owner: &Owner) {
        self.forget(owner);
        self.pages.close_made_by(owner);
    }

    /// Snapshots whose pages came free since the last call.
    pub fn take_freed_snapshots(&mut self) -> Vec<SnapshotId> {
        let freed = self.pages.take_freed();
        if self.takes_snapshots() { freed.into_iter().map(snapshot_of).collect() } else { Vec::new() }
    }

    /// Pages in use, by sequences or the cache.
    #[cfg(test)]
    pub fn pages_in_use(&self) -> usize {
        self.pages.count() - self.pages.free_count()
    }

    /// Pages in the prefix cache.
    #[cfg(test)]
    pub fn cached_pages(&self) -> usize {
        self.cache.as_ref().map_or(0, PrefixCache::len)
    }

    /// Evicts until `missing` pages are free; evicts nothing when that cannot be reached.
    fn make_room(&mut self, missing: usize) -> bool {
        let short = missing.saturating_sub(self.pages.free_count());
        match &mut self.cache {
            Some(cache) if short > 0 => {
                short <= cache.evictable(&self.pages) && (0..short).all(|_| cache.evict(&mut self.pages))
            }
            _ => short == 0,
        }
    }

    fn give_up<T>(&mut self, held: Vec<PageId>) -> Option<T> {
        held.into_iter().for_each(|page| self.pages.release(page));
        None
    }
}
