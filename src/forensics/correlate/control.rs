//! The control: labels that are shuffled, so that nothing can go with them but by chance.

use super::bits::Bits;
use super::table::Table;
use super::testing::Arm;
use crate::arith::scalar::mix;

/// Arms whose failing units are shuffled within each request, and among all; and whose failing requests are shuffled among
/// all: for each way of testing what it takes for exchangeable. The same seed gives the same arms.
pub fn arms(table: &Table, real: &Arm, count: usize, seed: u64) -> Vec<Arm> {
    (0..count as u64).map(|index| shuffled(table, real, &mut Random(mix(seed ^ mix(index + 1))))).collect()
}

fn shuffled(table: &Table, real: &Arm, random: &mut Random) -> Arm {
    let mut failing = Bits::none(table.len());
    for units in &table.sequences {
        let chosen = random.choose(units.len(), table.failing.count_in(units) as usize);
        chosen.into_iter().for_each(|index| failing.insert(units.start + index));
    }
    let anywhere = random.subset(table.len(), table.failing.count() as usize);
    let sequences = random.subset(real.sequences.len(), real.sequences.count() as usize);
    // A sequence as a whole is one unit, which has nothing to be shuffled with but the others.
    let are_wholes = table.len() == real.sequences.len();
    Arm { within: if are_wholes { sequences.clone() } else { failing }, anywhere, sequences }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        number
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A set of so many of the numbers below `bound`.
    fn subset(&mut self, bound: usize, count: usize) -> Bits {
        let mut bits = Bits::none(bound);
        self.choose(bound, count).into_iter().for_each(|index| bits.insert(index));
        bits
    }

    /// So many different numbers below `bound`, each set of them as likely as any other (Floyd's algorithm).
    fn choose(&mut self, bound: usize, count: usize) -> Vec<usize> {
        let mut chosen = std::collections::HashSet::with_capacity(count);
        for last in bound.saturating_sub(count)..bound {
            let number = self.below(last + 1);
            if !chosen.insert(number) {
                chosen.insert(last);
            }
        }
        chosen.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_sets_have_their_size_and_are_all_as_likely() {
        let mut random = Random(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut chosen = random.choose(4, 2);
            chosen.sort_unstable();
            *counts.entry(chosen).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(random.choose(3, 3).len(), 3);
        assert!(random.choose(0, 0).is_empty());
    }
}
