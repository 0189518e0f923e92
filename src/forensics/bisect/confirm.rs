//! Whether a bad set is minimal: its subsets, judged.

use super::Verdict;
use super::judged::JudgedSubsets;
use super::minimize::without;

/// Up to so many differences every proper subset is judged: 62 of six, without the empty one.
pub const MOST_EXHAUSTIVE: usize = 6;

/// A set of differences that is bad, and has no subset that is known to be bad among those that were judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimal {
    /// The differences, by number, in ascending order.
    pub set: Vec<usize>,
    /// Which subsets were judged.
    pub confirmation: Confirmation,
    /// How many were judged, the empty one not counted.
    pub subsets: usize,
    /// Of them, those that are unresolved: one of them could be bad, and the set not minimal.
    pub unresolved: Vec<Vec<usize>>,
}

/// Which subsets of a set were judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Every proper subset.
    EverySubset,
    /// Those with one difference left out; a smaller one could still be bad if a difference undoes another.
    OneLeftOut,
}

impl Minimal {
    /// Whether every subset that was judged is known not to be bad.
    pub fn is_confirmed(&self) -> bool {
        self.unresolved.is_empty()
    }
}

/// Judges the subsets of a bad set. Where one of them is bad, it takes the set's place.
pub(super) fn confirm<J: FnMut(&[usize]) -> Verdict>(mut set: Vec<usize>, judged: &mut JudgedSubsets<J>) -> Minimal {
    loop {
        let (confirmation, subsets) = match set.len() <= MOST_EXHAUSTIVE {
            true => (Confirmation::EverySubset, proper_subsets(&set)),
            false => (Confirmation::OneLeftOut, set.iter().map(|element| without(&set, &[*element])).collect()),
        };
        match subsets.iter().find(|subset| judged.is_bad(subset)) {
            Some(smaller) => set = smaller.clone(),
            None => {
                let is_unresolved = |subset: &&Vec<usize>| judged.verdict(subset) == Verdict::Unresolved;
                let unresolved = subsets.iter().filter(is_unresolved).cloned().collect();
                return Minimal { set, confirmation, subsets: subsets.len(), unresolved };
            }
        }
    }
}

/// The proper subsets of a small set without the empty one, small ones first.
fn proper_subsets(set: &[usize]) -> Vec<Vec<usize>> {
    let chosen = |mask: u32| {
        let is_chosen = |(place, _): &(usize, &usize)| mask >> place & 1 == 1;
        set.iter().enumerate().filter(is_chosen).map(|(_, element)| *element).collect::<Vec<usize>>()
    };
    let everything = (1_u32 << set.len()) - 1;
    let mut subsets: Vec<Vec<usize>> = (1..everything).map(chosen).collect();
    subsets.sort_by_key(Vec::len);
    subsets
}
