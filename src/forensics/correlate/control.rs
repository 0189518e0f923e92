//! The control: labels that are shuffled, so that nothing can go with them but by chance.

use std::ops::Range;

use super::bits::Bits;
use super::table::Table;
use super::testing::Arm;
use crate::arith::scalar::mix;

/// Arms whose failing units are shuffled within each request, with what comes after the first censored as it really is; and
/// whose failing requests are shuffled among all: for each way of testing what it takes for exchangeable. The same seed gives
/// the same arms.
pub fn arms(table: &Table, real: &Arm, count: usize, seed: u64) -> Vec<Arm> {
    (0..count as u64).map(|index| shuffled(table, real, &mut Random(mix(seed ^ mix(index + 1))))).collect()
}

fn shuffled(table: &Table, real: &Arm, random: &mut Random) -> Arm {
    let mut failing = Bits::none(table.len());
    let mut counted = Bits::none(if table.is_censored { table.len() } else { 0 });
    for units in &table.sequences {
        random.choose(units, table.failing.count_in(units), &mut failing);
        if table.is_censored {
            let end = failing.first_in(units).map_or(units.end, |unit| unit + 1);
            (units.start..end).for_each(|unit| counted.insert(unit));
        }
    }
    let counted = table.is_censored.then_some(counted);
    let mut sequences = Bits::none(real.sequences.len());
    random.choose(&(0..real.sequences.len()), real.sequences.count(), &mut sequences);
    // A sequence as a whole is one unit, which has nothing to be shuffled with but the others.
    let are_wholes = table.len() == real.sequences.len();
    Arm { failing: if are_wholes { sequences.clone() } else { failing }, counted, sequences }
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

    /// Puts so many numbers of a range into a set that has none of them, each choice as likely as any other (Floyd's algorithm).
    fn choose(&mut self, range: &Range<usize>, count: u64, set: &mut Bits) {
        let first = range.end - range.len().min(count as usize);
        for last in first..range.end {
            let number = range.start + self.below(last + 1 - range.start);
            set.insert(if set.has(number) { last } else { number });
        }
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
            let mut chosen = Bits::none(9);
            random.choose(&(3..7), 2, &mut chosen);
            *counts.entry(chosen.iter().collect::<Vec<_>>()).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.keys().all(|chosen| chosen.len() == 2 && chosen[0] >= 3 && chosen[1] < 7), "{counts:?}");
        assert!(counts.values().all(|count| (900..1100).contains(count)), "{counts:?}");
        let mut all = Bits::none(3);
        random.choose(&(0..3), 3, &mut all);
        assert_eq!(all.count(), 3);
        random.choose(&(0..0), 0, &mut all);
    }
}
