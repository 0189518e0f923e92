//! How a predicate is tested: over all units, and once more so that requests tell nothing of their own.

use std::ops::Range;

use super::bits::Bits;
use super::predicate::Truth;
use super::statistics::{Counts, LogFactorials, Population, Stratum, WithinStrata};
use super::table::Table;

/// The way in which units of one request are kept from counting as independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Failing units are compared with others of the same request.
    WithinRequests,
    /// Each request counts once: whether the predicate is true in it, and whether it fails.
    BetweenRequests,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// The way.
    pub way: Way,
    /// Fisher's p over all units.
    pub pooled: f64,
    /// The p of the way.
    pub by_request: f64,
}

/// A p, and the least one that the margins allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// The p.
    pub p: f64,
    /// The least one.
    pub least: f64,
}

/// An arm: which units fail, which count, and which requests have failing ones.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The failing units, as many in each request as there really are.
    pub failing: Bits,
    /// The units that count, if not all do.
    pub counted: Option<Bits>,
    /// The failing sequences.
    pub sequences: Bits,
}

/// What tests need of a table.
pub struct Bench<'a> {
    /// The table.
    pub table: &'a Table,
    /// Logarithms of factorials up to its length.
    pub factorials: LogFactorials,
    /// The labels as they are.
    pub real: Arm,
    /// The sequences with failing units and others.
    mixed: Vec<Range<usize>>,
}

impl Tested {
    /// The larger of both: what counts.
    pub fn p(&self) -> f64 {
        self.pooled.max(self.by_request)
    }
}

impl Chance {
    /// That of two tests which both have to speak for it.
    fn of_both(self, other: Self) -> Self {
        Self { p: self.p.max(other.p), least: self.least.max(other.least) }
    }
}

impl From<WithinStrata> for Chance {
    fn from(strata: WithinStrata) -> Self {
        Self { p: strata.p, least: strata.least_p }
    }
}

impl<'a> Bench<'a> {
    /// The bench of a table.
    pub fn new(table: &'a Table) -> Self {
        let failing = table.failing.clone();
        let sequences = table.sequences.iter().map(|units| failing.any_in(units)).collect();
        let is_mixed = |units: &&Range<usize>| (1..units.len() as u64).contains(&failing.count_in(units));
        let mixed = table.sequences.iter().filter(is_mixed).cloned().collect();
        let counted = table.is_censored.then(|| table.counted.clone());
        let factorials = LogFactorials::up_to(table.len());
        Self { table, factorials, real: Arm { failing, counted, sequences }, mixed }
    }

    /// All units that count.
    pub fn population(&self) -> Population {
        Population { failing: self.table.failing.count(), all: self.table.counted.count() }
    }

    /// The units of an arm by whether a predicate holds and whether they fail.
    pub fn counts(&self, truth: &Truth, arm: &Arm) -> Counts {
        let among = |set: &Bits| arm.counted.as_ref().map_or_else(|| set.count(), |counted| set.count_and(counted));
        let all_true = among(&truth.holds);
        let failing_true = truth.holds.count_and(&arm.failing);
        Counts {
            failing_true,
            all_true,
            failing_false: truth.known.count_and(&arm.failing) - failing_true,
            all_false: among(&truth.known) - all_true,
        }
    }

    /// Units that count by whether a predicate holds and whether they fail.
    pub fn counts_of(&self, truth: &Truth, units: &Bits) -> Counts {
        let (holds, known) = (truth.holds.and(units), truth.known.and(units));
        let (all_true, failing_true) = (holds.count(), holds.count_and(&self.table.failing));
        Counts {
            failing_true,
            all_true,
            failing_false: known.count_and(&self.table.failing) - failing_true,
            all_false: known.count() - all_true,
        }
    }

    /// The test within requests. Under censoring the failing unit is the last one that counts, so that among those before it
    /// whatever grows along a request would seem to go with it; and among all units of the request whatever shrinks would,
    /// since the first failure comes early where there are several. Both have to speak for a predicate, and neither
    /// can take what sets one request apart from another for its work.
    pub fn within(&self, truth: &Truth, failing: &Bits) -> Chance {
        let among = |units: &dyn Fn(&Range<usize>) -> Range<usize>| {
            let stratum = |sequence: &Range<usize>| {
                let units = units(sequence);
                Stratum {
                    all: truth.known.count_in(&units),
                    marked: truth.holds.count_in(&units),
                    failing: truth.known.count_and_in(failing, &units),
                    common: truth.holds.count_and_in(failing, &units),
                }
            };
            Chance::from(WithinStrata::test(self.mixed.iter().map(stratum), &self.factorials))
        };
        let among_all = among(&|sequence| sequence.clone());
        if !self.table.is_censored {
            return among_all;
        }
        let up_to_failing =
            |sequence: &Range<usize>| sequence.start..failing.first_in(sequence).map_or(sequence.end, |unit| unit + 1);
        among_all.of_both(among(&up_to_failing))
    }

    /// The test between requests: by whether a predicate holds in one of a request's units that count, and whether it fails.
    pub fn between(&self, truth: &Truth, sequences: &Bits) -> Chance {
        let (holds, known) = (truth.holds.and(&self.table.counted), truth.known.and(&self.table.counted));
        let mut counts = Counts::default();
        for (index, units) in self.table.sequences.iter().enumerate().filter(|(_, units)| known.any_in(units)) {
            let is_failing = u64::from(sequences.has(index));
            if holds.any_in(units) {
                counts.all_true += 1;
                counts.failing_true += is_failing;
            } else {
                counts.all_false += 1;
                counts.failing_false += is_failing;
            }
        }
        Chance { p: self.factorials.fisher(counts), least: self.factorials.least_fisher(counts) }
    }

    /// The way to test a predicate, by the margins of the real labels alone: within requests where that can come to a
    /// p of `needed`, or else between requests where that can. Where neither can, what sets requests apart is not to be
    /// told from the predicate.
    pub fn way(&self, truth: &Truth, needed: f64) -> Option<Way> {
        if self.within(truth, &self.table.failing).least <= needed {
            return Some(Way::WithinRequests);
        }
        (self.between(truth, &self.real.sequences).least <= needed).then_some(Way::BetweenRequests)
    }

    /// Tests a predicate in an arm.
    pub fn test(&self, truth: &Truth, way: Way, arm: &Arm) -> Tested {
        let pooled = self.factorials.fisher(self.counts(truth, arm));
        let by_request = match way {
            Way::WithinRequests => self.within(truth, &arm.failing),
            Way::BetweenRequests => self.between(truth, &arm.sequences),
        };
        Tested { way, pooled, by_request: by_request.p }
    }
}
