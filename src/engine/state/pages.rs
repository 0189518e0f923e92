//! Pages of the key-value cache: who holds each, and whose computation is in it.

use std::collections::BTreeSet;

use crate::engine::Owner;
use crate::types::PageId;

/// Hands pages out and counts who holds them.
///
/// A page remembers its **makers**: the owners whose steps computed it, or a page before it in the same sequence, since
/// the keys and values of a position follow from every position before. When a maker fails, the page is **closed**: who
/// already holds it may go on, and nobody new is offered it.
#[derive(Debug)]
pub struct Pages {
    pages: Vec<Page>,
    /// A stack, so that the pages in use stay few and their memory warm.
    free: Vec<PageId>,
    /// Pages that came free since the last [`Pages::take_freed`].
    freed: Vec<PageId>,
}

#[derive(Clone, Debug, Default)]
struct Page {
    holders: u32,
    makers: BTreeSet<Owner>,
    closed: bool,
}

impl Pages {
    /// A pool of `count` pages, all free.
    pub fn new(count: usize) -> Self {
        let ids = (0..count as u32).rev().map(PageId);
        Self { pages: vec![Page::default(); count], free: ids.collect(), freed: Vec::new() }
    }

    /// How many pages there are in all.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// How many are free.
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Takes a free page for `owner`, to follow page `before` in its sequence.
    pub fn allocate(&mut self, owner: &Owner, before: Option<PageId>) -> Option<PageId> {
        let id = self.free.pop()?;
        let (mut makers, closed) = match before {
            Some(before) => (self.page(before).makers.clone(), self.page(before).closed),
            None => (BTreeSet::new(), false),
        };
        makers.insert(owner.clone());
        *self.page_mut(id) = Page { holders: 1, makers, closed };
        Some(id)
    }

    /// Adds a holder to a page that is held.
    pub fn retain(&mut self, id: PageId) {
        let page = self.page_mut(id);
        debug_assert!(page.holders > 0, "page {id} is free");
        page.holders += 1;
    }

    /// Takes a holder away; the last one frees the page.
    pub fn release(&mut self, id: PageId) {
        let page = self.page_mut(id);
        debug_assert!(page.holders > 0, "page {id} is free");
        page.holders -= 1;
        if page.holders == 0 {
            page.makers.clear();
            self.free.push(id);
            self.freed.push(id);
        }
    }

    /// How many hold the page.
    pub fn holders(&self, id: PageId) -> u32 {
        self.page(id).holders
    }

    /// Whether a maker of the page has failed.
    pub fn is_closed(&self, id: PageId) -> bool {
        self.page(id).closed
    }

    /// Closes every held page that `owner` shared in making.
    pub fn close_made_by(&mut self, owner: &Owner) {
        for page in self.pages.iter_mut().filter(|page| page.makers.contains(owner)) {
            page.closed = true;
        }
    }

    /// The pages that came free since the last call; what is kept beside them can go as well.
    pub fn take_freed(&mut self) -> Vec<PageId> {
        std::mem::take(&mut self.freed)
    }

    /// Ids are made by [`Pages::new`] alone, so every one of them is in range.
    fn page(&self, id: PageId) -> &Page {
        &self.pages[id.0 as usize]
    }

    fn page_mut(&mut self, id: PageId) -> &mut Page {
        &mut self.pages[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::RequestId;

    fn owner(number: u64) -> Owner {
        Owner::Request(RequestId(number))
    }

    #[test]
    fn the_last_holder_frees_a_page() {
        let mut pages = Pages::new(1);
        let page = pages.allocate(&owner(0), None).unwrap();
        assert_eq!(pages.allocate(&owner(1), None), None);
        pages.retain(page);
        pages.release(page);
        assert_eq!((pages.holders(page), pages.free_count()), (1, 0));
        pages.release(page);
        assert_eq!((pages.free_count(), pages.take_freed()), (1, vec![page]));
    }

    #[test]
    fn a_failure_closes_what_was_built_on_the_page_too() {
        let mut pages = Pages::new(4);
        let first = pages.allocate(&owner(0), None).unwrap();
        let on_top = pages.allocate(&owner(1), Some(first)).unwrap();
        let elsewhere = pages.allocate(&owner(1), None).unwrap();
        pages.close_made_by(&owner(0));
        assert!(pages.is_closed(first) && pages.is_closed(on_top));
        assert!(!pages.is_closed(elsewhere));
        let later = pages.allocate(&owner(2), Some(on_top)).unwrap();
        assert!(pages.is_closed(later), "a page computed after a closed one reads it");
    }

    #[test]
    fn a_page_that_comes_free_forgets_its_makers() {
        let mut pages = Pages::new(1);
        let page = pages.allocate(&owner(0), None).unwrap();
        pages.release(page);
        pages.close_made_by(&owner(0));
        let again = pages.allocate(&owner(1), None).unwrap();
        assert!(!pages.is_closed(again));
    }
}
