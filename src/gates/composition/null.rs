//! What chance alone does to the statistics: sets of right draws, simulated.

use rayon::prelude::*;

use crate::arith::scalar;

/// Simulated sets.
pub const SETS: usize = 9_999;
/// How many of them a set of right draws may be beaten by: a further one is among the [`RANK`] greatest of `SETS + 1` with
/// a probability of exactly 0.1%.
const RANK: usize = 10;
/// The quantile that this is.
pub const QUANTILE: f64 = 1.0 - RANK as f64 / (SETS + 1) as f64;
/// Keys the simulation.
const SEED: u64 = 0x6a7e_0f00_d15c_0000;

/// How far draws are from a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Total variation distance: half the sum of all differences between a share of the draws and a probability.
    pub total_variation: f64,
    /// The greatest of these differences.
    pub greatest: f64,
}

impl Bounds {
    /// Of draws, counted by outcome.
    pub(super) fn of(counts: &[u64], probabilities: &[f64]) -> Self {
        let draws: u64 = counts.iter().sum();
        let difference = |(count, p): (&u64, &f64)| (*count as f64 / draws.max(1) as f64 - p).abs();
        let differences = || counts.iter().zip(probabilities).map(difference);
        Self { total_variation: differences().sum::<f64>() / 2.0, greatest: differences().fold(0.0, f64::max) }
    }
}

/// The statistics of simulated sets of right draws, each in ascending order.
pub(super) struct Null {
    total_variation: Vec<f64>,
    greatest: Vec<f64>,
}

impl Null {
    /// Simulates [`SETS`] sets of `draws` draws; the same each time.
    pub fn simulate(probabilities: &[f64], draws: u32) -> Self {
        let alias = Alias::new(probabilities);
        let set = |number: usize| {
            let mut counts = vec![0; probabilities.len()];
            let key = scalar::mix(SEED ^ number as u64);
            for draw in 0..u64::from(draws) {
                if let Some(count) = counts.get_mut(alias.outcome(scalar::mix(key.wrapping_add(draw)))) {
                    *count += 1;
                }
            }
            Bounds::of(&counts, probabilities)
        };
        let sets: Vec<Bounds> = (0..SETS).into_par_iter().map(set).collect();
        let ascending = |of: fn(&Bounds) -> f64| {
            let mut values: Vec<f64> = sets.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        Self { total_variation: ascending(|set| set.total_variation), greatest: ascending(|set| set.greatest) }
    }

    /// What each statistic of right draws exceeds with a probability of 0.1%.
    pub fn bounds(&self) -> Bounds {
        self.exceeded_by(RANK)
    }

    /// The `rank`-th greatest value of each statistic.
    pub fn exceeded_by(&self, rank: usize) -> Bounds {
        let nth = |values: &[f64]| values.len().checked_sub(rank).and_then(|index| values.get(index)).copied();
        let nth = |values| nth(values).unwrap_or(0.0);
        Bounds { total_variation: nth(&self.total_variation), greatest: nth(&self.greatest) }
    }
}

/// Draws outcomes in constant time: a column is hit evenly, and is divided between itself and one other outcome (Walker 1977).
struct Alias {
    columns: Vec<Column>,
}

struct Column {
    /// The share of the column that is its own, of 2^32.
    own: u64,
    other: usize,
}

impl Alias {
    fn new(probabilities: &[f64]) -> Self {
        let count = probabilities.len();
        let total: f64 = probabilities.iter().sum();
        let mut left: Vec<f64> = probabilities.iter().map(|p| p * count as f64 / total).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..count).partition(|&outcome| left[outcome] < 1.0);
        let mut columns: Vec<Column> = (0..count).map(|other| Column { own: 1 << 32, other }).collect();
        while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
            columns[low] = Column { own: (left[low] * (1_u64 << 32) as f64) as u64, other: high };
            left[high] -= 1.0 - left[low];
            if left[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        Self { columns }
    }

    /// The outcome that 64 random bits draw.
    fn outcome(&self, bits: u64) -> usize {
        let index = ((bits >> 32) as usize * self.columns.len()) >> 32;
        match self.columns.get(index) {
            Some(column) if bits & 0xffff_ffff >= column.own => column.other,
            _ => index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_as_often_as_their_probabilities_say() {
        let probabilities = [0.5, 0.0, 0.25, 0.2, 0.05];
        let alias = Alias::new(&probabilities);
        let mut counts = [0_u64; 5];
        let draws = 1_000_000_u64;
        (0..draws).for_each(|draw| counts[alias.outcome(scalar::mix(draw))] += 1);
        for (count, p) in counts.iter().zip(probabilities) {
            let deviation = (p * (1.0 - p) / draws as f64).sqrt();
            let found = *count as f64 / draws as f64;
            assert!((found - p).abs() <= 4.5 * deviation, "expected {p}, found {found}");
        }
    }

    #[test]
    fn distances_are_by_their_definitions() {
        let bounds = Bounds::of(&[6, 2, 2], &[0.5, 0.5, 0.0]);
        assert!((bounds.total_variation - 0.3).abs() < 1e-12 && (bounds.greatest - 0.3).abs() < 1e-12, "{bounds:?}");
    }

    /// Of two outcomes the distance is a binomial deviation, whose quantile is known: 3.29 deviations for 0.1% on both sides.
    #[test]
    fn the_quantile_is_the_binomials() {
        let bounds = Null::simulate(&[0.5, 0.5], 20_000).bounds();
        let expected = 3.2905 * (0.25_f64 / 20_000.0).sqrt();
        assert!((bounds.total_variation / expected - 1.0).abs() < 0.1, "{bounds:?}, expected {expected}");
        assert!((bounds.total_variation - bounds.greatest).abs() < 1e-12, "{bounds:?}");
    }
}
