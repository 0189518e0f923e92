//! The algorithm ddmin: parts, complements, finer parts.

use super::Verdict;
use super::judged::JudgedSubsets;

/// Shrinks a bad set until no single element can be left out and leave it bad, as far as that is resolved.
pub(super) fn minimize<J: FnMut(&[usize]) -> Verdict>(
    mut set: Vec<usize>,
    judged: &mut JudgedSubsets<J>,
) -> Vec<usize> {
    let mut count = 2;
    while set.len() >= 2 {
        let parts = parts(&set, count);
        if let Some(part) = parts.iter().find(|part| judged.is_bad(part)) {
            (set, count) = (part.clone(), 2);
            continue;
        }
        // Of two parts, each is the other's complement.
        let mut complements = parts.iter().filter(|_| count > 2).map(|part| without(&set, part));
        if let Some(complement) = complements.find(|complement| judged.is_bad(complement)) {
            (set, count) = (complement, (count - 1).max(2));
            continue;
        }
        if count >= set.len() {
            break;
        }
        count = (count * 2).min(set.len());
    }
    set
}

/// The elements of `set` that are not in `part`.
pub(super) fn without(set: &[usize], part: &[usize]) -> Vec<usize> {
    set.iter().copied().filter(|element| !part.contains(element)).collect()
}

/// `set` in `count` parts whose lengths differ by one at most; none is empty if there are as many elements.
fn parts(set: &[usize], count: usize) -> Vec<Vec<usize>> {
    let place = |number: usize| set.len() * number / count;
    (0..count).filter_map(|number| set.get(place(number)..place(number + 1))).map(<[usize]>::to_vec).collect()
}
