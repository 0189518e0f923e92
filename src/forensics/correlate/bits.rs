//! Sets of units as bits, and how many they have in common.

use std::ops::Range;

/// A set of the numbers below a length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
    length: usize,
}

impl Bits {
    /// The empty set of that length.
    pub fn none(length: usize) -> Self {
        Self { words: vec![0; length.div_ceil(64)], length }
    }

    /// The whole set of that length.
    pub fn all(length: usize) -> Self {
        Self::from_fn(length, |_| true)
    }

    /// The numbers of which `holds` is true.
    pub fn from_fn(length: usize, holds: impl Fn(usize) -> bool) -> Self {
        let word = |start: usize| {
            let end = length.min(start + 64);
            (start..end).fold(0, |word, index| word | u64::from(holds(index)) << (index - start))
        };
        Self { words: (0..length).step_by(64).map(word).collect(), length }
    }

    /// Makes the set longer by one number, which is in it or not.
    pub fn push(&mut self, is_in: bool) {
        let bit = self.length % 64;
        if bit == 0 {
            self.words.push(0);
        }
        if let Some(last) = self.words.last_mut() {
            *last |= u64::from(is_in) << bit;
        }
        self.length += 1;
    }

    /// Puts a number in; one past the length is not put in.
    pub fn insert(&mut self, index: usize) {
        if index < self.length
            && let Some(word) = self.words.get_mut(index / 64)
        {
            *word |= 1 << (index % 64);
        }
    }

    /// The length: one more than the greatest number that can be in.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether a number is in.
    pub fn has(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// How many are in.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// How many are in both.
    pub fn count_and(&self, other: &Self) -> u64 {
        self.words.iter().zip(&other.words).map(|(left, right)| u64::from((left & right).count_ones())).sum()
    }

    /// How many of a range are in.
    pub fn count_in(&self, range: &Range<usize>) -> u64 {
        self.masked(range).map(|(_, word)| u64::from(word.count_ones())).sum()
    }

    /// How many of a range are in both.
    pub fn count_and_in(&self, other: &Self, range: &Range<usize>) -> u64 {
        let in_other = |index: usize| other.words.get(index).copied().unwrap_or(0);
        self.masked(range).map(|(index, word)| u64::from((word & in_other(index)).count_ones())).sum()
    }

    /// Whether any of a range is in.
    pub fn any_in(&self, range: &Range<usize>) -> bool {
        self.masked(range).any(|(_, word)| word != 0)
    }

    /// The first of a range that is in.
    pub fn first_in(&self, range: &Range<usize>) -> Option<usize> {
        let mut words = self.masked(range).filter(|(_, word)| *word != 0);
        words.next().map(|(index, word)| index * 64 + word.trailing_zeros() as usize)
    }

    /// The words that a range touches, with their places and without what is outside of the range.
    fn masked(&self, range: &Range<usize>) -> impl Iterator<Item = (usize, u64)> {
        let (start, end) = (range.start, range.end.min(self.length));
        let touched = if start < end { start / 64..end.div_ceil(64) } else { 0..0 };
        touched.map(move |index| {
            let word = self.words.get(index).copied().unwrap_or(0);
            let from = start.saturating_sub(index * 64);
            let to = end - index * 64;
            let below = if to >= 64 { u64::MAX } else { (1 << to) - 1 };
            (index, word & below & (u64::MAX << from))
        })
    }

    /// The numbers that are in, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then(|| index * 64 + bit as usize)
            })
        })
    }

    /// The numbers that are in both.
    pub fn and(&self, other: &Self) -> Self {
        self.zip(other, |left, right| left & right)
    }

    /// The numbers that are in either.
    pub fn or(&self, other: &Self) -> Self {
        self.zip(other, |left, right| left | right)
    }

    /// The numbers that are here and not there.
    pub fn without(&self, other: &Self) -> Self {
        self.zip(other, |left, right| left & !right)
    }

    /// A digest of the set: that of another set is another one.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let mut bytes = [0; 4096];
        for words in self.words.chunks(bytes.len() / 8) {
            for (word, place) in words.iter().zip(bytes.chunks_exact_mut(8)) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            hasher.update(bytes.get(..words.len() * 8).unwrap_or_default());
        }
        *hasher.finalize().as_bytes()
    }

    fn zip(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(left, right)| join(*left, *right)).collect();
        Self { words, length: self.length.min(other.length) }
    }
}

impl FromIterator<bool> for Bits {
    fn from_iter<I: IntoIterator<Item = bool>>(values: I) -> Self {
        let mut bits = Self::default();
        values.into_iter().for_each(|value| bits.push(value));
        bits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn counts_are_those_of_lists(
            pairs in prop::collection::vec(any::<(bool, bool)>(), 0..300),
            ends in (0_usize..320, 0_usize..320),
        ) {
            let left: Bits = pairs.iter().map(|pair| pair.0).collect();
            let right = Bits::from_fn(pairs.len(), |index| pairs[index].1);
            let range = ends.0..ends.1;
            let of = |holds: &dyn Fn(&(bool, bool)) -> bool, range: &Range<usize>| {
                pairs.iter().enumerate().filter(|(index, pair)| range.contains(index) && holds(pair)).count() as u64
            };
            let whole = 0..pairs.len();
            prop_assert_eq!(left.len(), pairs.len());
            prop_assert_eq!(left.count(), of(&|pair| pair.0, &whole));
            prop_assert_eq!(left.count_and(&right), of(&|pair| pair.0 && pair.1, &whole));
            prop_assert_eq!(left.count_in(&range), of(&|pair| pair.0, &range));
            prop_assert_eq!(left.count_and_in(&right, &range), of(&|pair| pair.0 && pair.1, &range));
            prop_assert_eq!(left.any_in(&range), of(&|pair| pair.0, &range) > 0);
            let first = pairs.iter().enumerate().position(|(index, pair)| range.contains(&index) && pair.0);
            prop_assert_eq!(left.first_in(&range), first);
            prop_assert_eq!(left.or(&right).count(), of(&|pair| pair.0 || pair.1, &whole));
            prop_assert_eq!(left.without(&right).count(), of(&|pair| pair.0 && !pair.1, &whole));
            let listed: Vec<usize> = (0..pairs.len()).filter(|index| pairs[*index].0).collect();
            prop_assert_eq!(left.iter().collect::<Vec<_>>(), listed.clone());
            let mut built = Bits::none(pairs.len());
            listed.iter().for_each(|index| built.insert(*index));
            built.insert(pairs.len());
            prop_assert_eq!(&built, &left);
            prop_assert_eq!(built.digest() == right.digest(), left == right);
        }
    }
}
