//! The prefix cache: full pages by the tokens that lead to them, with owners.
//!
//! A page of the cache is found by a chain of hashes: the hash of a page covers its tokens and the hash of the page
//! before it, so that equal hashes mean equal tokens from position 0 on. The tokens are compared all the same.
//!
//! Who may read an entry:
//! - Pages become public when a sequence that used them finishes validly ([`PrefixCache::insert`] with
//!   [`Visibility::Public`]); its owner is then one of the entry's owners.
//! - The choices of one request share its prompt before that ([`Visibility::Private`]): the entry is then owned by the
//!   request itself, and only owners read it.
//! - When an owner fails, it is removed from every entry, and an entry without owners goes. What is left of the pages
//!   it shared in making is closed ([`Pages::is_closed`]): its other owners still read it, nobody else does.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::arith::ATTENTION_CHUNK;
use crate::engine::Owner;
use crate::engine::state::Pages;
use crate::types::{PageId, RequestId, TokenId};

/// Who reads an entry beside its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Nobody.
    Private,
    /// Everybody, unless the page is closed.
    Public,
}

/// Full pages by their tokens. Each entry holds its page.
///
/// The owners of an entry own the entries before it in its chain as well, so entries go and stay as whole prefixes.
#[derive(Debug, Default)]
pub struct PrefixCache {
    entries: HashMap<ChainHash, Entry>,
    /// The entries, those that are to be evicted first in front.
    by_age: BTreeSet<(Age, ChainHash)>,
    uses: u64,
}

type ChainHash = [u8; 32];
/// Last use, then depth, deepest first: a use touches a chain from its root on, so that a page always goes before the
/// page it was built on.
type Age = (u64, Reverse<usize>);

#[derive(Debug)]
struct Entry {
    tokens: Vec<TokenId>,
    page: PageId,
    owners: BTreeSet<Owner>,
    visibility: Visibility,
    age: Age,
}

impl PrefixCache {
    /// The longest cached prefix of `tokens` that `owner`, running `request`, may read; one page per
    /// [`ATTENTION_CHUNK`] tokens. The last token is never part of it, since its row has to be computed.
    pub fn find(&mut self, tokens: &[TokenId], owner: &Owner, request: RequestId, pages: &Pages) -> Vec<PageId> {
        let readable = tokens.len().saturating_sub(1) / ATTENTION_CHUNK * ATTENTION_CHUNK;
        let mut found = Vec::new();
        let mut hashes = Vec::new();
        for (hash, chunk) in chain(&tokens[..readable]) {
            match self.entries.get(&hash) {
                Some(entry) if entry.tokens == chunk && entry.is_readable(owner, request, pages) => {
                    found.push(entry.page);
                    hashes.push(hash);
                }
                _ => break,
            }
        }
        self.touch(&hashes);
        found
    }

    /// Puts the full pages of a sequence into the cache: page `i` of `held` holds `tokens[32 i .. 32 (i + 1)]`.
    pub fn insert(
        &mut self,
        tokens: &[TokenId],
        held: &[PageId],
        owner: &Owner,
        visibility: Visibility,
        pages: &mut Pages,
    ) {
        let mut hashes = Vec::new();
        for ((hash, chunk), &page) in chain(tokens).zip(held) {
            let depth = hashes.len();
            hashes.push(hash);
            let entry = self.entries.entry(hash).or_insert_with(|| {
                pages.retain(page);
                let age = (0, Reverse(depth));
                self.by_age.insert((age, hash));
                Entry { tokens: chunk.to_vec(), page, owners: BTreeSet::new(), visibility, age }
            });
            // The same tokens, computed without the failed owner: everybody can have them again.
            if pages.is_closed(entry.page) && !pages.is_closed(page) {
                pages.retain(page);
                pages.release(std::mem::replace(&mut entry.page, page));
            }
            entry.owners.insert(owner.clone());
            if visibility == Visibility::Public {
                entry.visibility = Visibility::Public;
            }
        }
        self.touch(&hashes);
    }

    /// Removes `owner` from every entry, and the entries that nobody owns then.
    pub fn forget(&mut self, owner: &Owner, pages: &mut Pages) {
        let Self { entries, by_age, .. } = self;
        entries.retain(|hash, entry| {
            entry.owners.remove(owner);
            if entry.owners.is_empty() {
                by_age.remove(&(entry.age, *hash));
                pages.release(entry.page);
            }
            !entry.owners.is_empty()
        });
    }

    /// How many pages could be freed by evicting entries: those that no sequence holds.
    pub fn evictable(&self, pages: &Pages) -> usize {
        self.entries.values().filter(|entry| pages.holders(entry.page) == 1).count()
    }

    /// Evicts the entry that was used longest ago among those that no sequence holds, and so frees its page.
    pub fn evict(&mut self, pages: &mut Pages) -> bool {
        let unused = |(_, hash): &&(Age, ChainHash)| pages.holders(self.entries[hash].page) == 1;
        let Some(oldest) = self.by_age.iter().find(unused).copied() else { return false };
        self.by_age.remove(&oldest);
        if let Some(entry) = self.entries.remove(&oldest.1) {
            pages.release(entry.page);
        }
        true
    }

    /// How many pages are cached.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn touch(&mut self, hashes: &[ChainHash]) {
        self.uses += 1;
        for hash in hashes {
            if let Some(entry) = self.entries.get_mut(hash) {
                self.by_age.remove(&(entry.age, *hash));
                entry.age.0 = self.uses;
                self.by_age.insert((entry.age, *hash));
            }
        }
    }
}

impl Entry {
    fn is_readable(&self, owner: &Owner, request: RequestId, pages: &Pages) -> bool {
        self.owners.contains(owner)
            || self.owners.contains(&Owner::Request(request))
            || (self.visibility == Visibility::Public && !pages.is_closed(self.page))
    }
}

/// The full pages of `tokens`, each with the hash of everything up to its end.
fn chain(tokens: &[TokenId]) -> impl Iterator<Item = (ChainHash, &[TokenId])> {
    tokens.chunks_exact(ATTENTION_CHUNK).scan([0; 32], |before, chunk| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(before);
        for token in chunk {
            hasher.update(&token.0.to_le_bytes());
        }
        *before = hasher.finalize().into();
        Some((*before, chunk))
    })
}

#[cfg(test)]
#[path = "prefix_cache_tests.rs"]
mod tests;
