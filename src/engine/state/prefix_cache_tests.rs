use super::*;
use crate::engine::state::Pages;

fn request(number: u64) -> Owner {
    Owner::Request(RequestId(number))
}

fn tokens(seed: u32, count: usize) -> Vec<TokenId> {
    (0..count as u32).map(|index| TokenId(seed * 1000 + index)).collect()
}

/// A cache and its pages, as the engine uses them.
struct Bench {
    cache: PrefixCache,
    pages: Pages,
}

impl Bench {
    fn new(pages: usize) -> Self {
        Self { cache: PrefixCache::default(), pages: Pages::new(pages) }
    }

    fn find(&mut self, tokens: &[TokenId], number: u64) -> Vec<PageId> {
        self.cache.find(tokens, &request(number), RequestId(number), &self.pages)
    }

    /// Runs a sequence of whole pages for `owner` on top of what it finds; `None` if pages are short.
    fn run(&mut self, tokens: &[TokenId], owner: u64, visibility: Visibility) -> Vec<PageId> {
        let mut held = self.find(tokens, owner);
        held.iter().for_each(|&page| self.pages.retain(page));
        while held.len() < tokens.len() / ATTENTION_CHUNK {
            let page = self.pages.allocate(&request(owner), held.last().copied());
            held.push(page.expect("enough pages for the test"));
        }
        self.cache.insert(tokens, &held, &request(owner), visibility, &mut self.pages);
        held.iter().for_each(|&page| self.pages.release(page));
        held
    }

    fn fail(&mut self, owner: u64) {
        self.cache.forget(&request(owner), &mut self.pages);
        self.pages.close_made_by(&request(owner));
    }
}

#[test]
fn finds_the_longest_prefix_and_never_all_of_it() {
    let mut bench = Bench::new(4);
    let prompt = tokens(1, 96);
    let held = bench.run(&prompt, 0, Visibility::Public);
    assert_eq!(bench.find(&prompt, 1), held[..2], "the last token has to be computed");
    assert_eq!(bench.find(&tokens(1, 97), 1), held);
    let mut other = prompt.clone();
    other[40] = TokenId(9);
    assert_eq!(bench.find(&other, 1), held[..1]);
    assert_eq!(bench.find(&tokens(2, 97), 1), []);
}

#[test]
fn equal_pages_after_different_beginnings_are_different_entries() {
    let mut bench = Bench::new(4);
    let tail = tokens(7, 32);
    let first: Vec<_> = tokens(1, 32).into_iter().chain(tail.clone()).collect();
    let second: Vec<_> = tokens(2, 32).into_iter().chain(tail).chain([TokenId(0)]).collect();
    bench.run(&first, 0, Visibility::Public);
    assert_eq!(bench.find(&second, 1), []);
}

#[test]
fn a_private_entry_is_for_its_owner_alone_until_it_is_published() {
    let mut bench = Bench::new(2);
    let prompt = tokens(1, 33);
    let held = bench.run(&prompt, 0, Visibility::Private);
    assert_eq!(bench.find(&prompt, 1), []);
    assert_eq!(bench.find(&prompt, 0), held);
    assert_eq!(bench.run(&prompt, 0, Visibility::Public), held);
    assert_eq!(bench.find(&prompt, 1), held);
}

#[test]
fn a_failure_removes_what_only_the_failed_owner_had() {
    let mut bench = Bench::new(2);
    let prompt = tokens(1, 65);
    bench.run(&prompt, 0, Visibility::Public);
    bench.fail(0);
    assert_eq!(bench.find(&prompt, 1), []);
    assert_eq!(bench.pages.free_count(), 2);
    assert_eq!(bench.cache.len(), 0);
}

#[test]
fn a_failure_closes_what_others_own_as_well() {
    let mut bench = Bench::new(4);
    let prompt = tokens(1, 65);
    let held = bench.run(&prompt, 0, Visibility::Public);
    assert_eq!(bench.run(&prompt, 1, Visibility::Public), held, "the second owner reuses the first one's pages");
    bench.fail(0);
    assert_eq!(bench.find(&prompt, 1), held, "still there for its other owner");
    assert_eq!(bench.find(&prompt, 2), [], "not offered to anybody new");
    assert_eq!(bench.find(&prompt, 0), [], "least of all to the one that failed");
}

#[test]
fn what_others_made_alone_stays_open() {
    let mut bench = Bench::new(4);
    let prompt = tokens(1, 65);
    let held = bench.run(&prompt, 0, Visibility::Public);
    bench.run(&prompt, 1, Visibility::Public);
    bench.fail(1);
    assert_eq!(bench.find(&prompt, 2), held, "owner 1 only read them");
}

#[test]
fn a_closed_entry_opens_again_when_someone_computes_it_anew() {
    let mut bench = Bench::new(4);
    let prompt = tokens(1, 33);
    let closed = bench.run(&prompt, 0, Visibility::Public);
    bench.run(&prompt, 1, Visibility::Public);
    bench.fail(0);
    let anew = bench.run(&prompt, 2, Visibility::Public);
    assert_ne!(anew, closed);
    assert_eq!(bench.find(&prompt, 3), anew);
    assert_eq!(bench.pages.free_count(), 3, "the closed page is free");
}

#[test]
fn evicts_the_longest_unused_page_and_a_chain_from_its_end() {
    let mut bench = Bench::new(4);
    let (old, recent) = (tokens(1, 65), tokens(2, 65));
    let old_pages = bench.run(&old, 0, Visibility::Public);
    bench.run(&recent, 1, Visibility::Public);
    assert!(bench.cache.evict(&mut bench.pages));
    assert_eq!(bench.find(&old, 2), old_pages[..1], "its second page went first");
    // That use made the old chain the recent one.
    assert!(bench.cache.evict(&mut bench.pages));
    assert_eq!(bench.find(&recent, 3).len(), 1);
}

#[test]
fn never_evicts_what_a_sequence_holds() {
    let mut bench = Bench::new(2);
    let prompt = tokens(1, 65);
    let held = bench.run(&prompt, 0, Visibility::Public);
    held.iter().for_each(|&page| bench.pages.retain(page));
    assert_eq!(bench.cache.evictable(&bench.pages), 0);
    assert!(!bench.cache.evict(&mut bench.pages));
    bench.pages.release(held[1]);
    assert_eq!(bench.cache.evictable(&bench.pages), 1);
    assert!(bench.cache.evict(&mut bench.pages));
    assert_eq!(bench.find(&prompt, 0), held[..1]);
}
