//! How a predicate is tested: over all units, and once more request by request.

use std::ops::Range;

use super::bits::Bits;
use super::predicate::Truth;
use super::statistics::{Counts, LogFactorials, Population, Stratum, WithinStrata};
use super::table::Table;

/// The way in which units of one request are kept from counting as independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Failing units are compared with passing ones of the same request.
    WithinRequests,
    /// Each request counts once: whether the predicate is true in it, and whether it fails.
    BetweenRequests,
    /// Every unit counts. Requests can tell nothing: the predicate holds in all of them, say, and those that fail do so at once.
    Pooled,
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

/// An arm: which units fail, and which requests have such.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The failing units, as many in each request as there really are.
    pub within: Bits,
    /// As many failing units, wherever.
    pub anywhere: Bits,
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
    /// The sequences with failing and passing units.
    mixed: Vec<Range<usize>>,
}

impl Arm {
    /// The failing units, as they are shuffled for that way of testing.
    pub fn failing(&self, way: Way) -> &Bits {
        match way {
            Way::WithinRequests | Way::BetweenRequests => &self.within,
            Way::Pooled => &self.anywhere,
        }
    }
}

impl Tested {
    /// The larger of both: what counts.
    pub fn p(&self) -> f64 {
        self.pooled.max(self.by_request)
    }
}

impl<'a> Bench<'a> {
    /// The bench of a table.
    pub fn new(table: &'a Table) -> Self {
        let failing = table.failing.clone();
        let sequences = table.sequences.iter().map(|units| failing.any_in(units)).collect();
        let is_mixed = |units: &&Range<usize>| (1..units.len() as u64).contains(&failing.count_in(units));
        let mixed = table.sequences.iter().filter(is_mixed).cloned().collect();
        let factorials = LogFactorials::up_to(table.len());
        Self { table, factorials, real: Arm { within: failing.clone(), anywhere: failing, sequences }, mixed }
    }

    /// All units.
    pub fn population(&self) -> Population {
        Population { failing: self.table.failing.count(), all: self.table.len() as u64 }
    }

    /// The units by whether a predicate holds and whether they fail.
    pub fn counts(&self, truth: &Truth, failing: &Bits) -> Counts {
        let all_true = truth.holds.count();
        let failing_true = truth.holds.count_and(failing);
        Counts {
            failing_true,
            all_true,
            failing_false: truth.known.count_and(failing) - failing_true,
            all_false: truth.known.count() - all_true,
        }
    }

    /// The test within requests.
    pub fn within(&self, truth: &Truth, failing: &Bits) -> WithinStrata {
        self.within_strata(&self.mixed, truth, failing)
    }

    /// The test within strata of consecutive units.
    fn within_strata(&self, strata: &[Range<usize>], truth: &Truth, failing: &Bits) -> WithinStrata {
        let stratum = |units: &Range<usize>| Stratum {
            all: truth.known.count_in(units),
            marked: truth.holds.count_in(units),
            failing: truth.known.count_and_in(failing, units),
            common: truth.holds.count_and_in(failing, units),
        };
        WithinStrata::test(strata.iter().map(stratum), &self.factorials)
    }

    /// The requests by whether a predicate holds in them and whether they fail.
    pub fn between(&self, truth: &Truth, sequences: &Bits) -> Counts {
        let mut counts = Counts::default();
        for (index, units) in self.table.sequences.iter().enumerate().filter(|(_, units)| truth.known.any_in(units)) {
            let is_failing = u64::from(sequences.has(index));
            if truth.holds.any_in(units) {
                counts.all_true += 1;
                counts.failing_true += is_failing;
            } else {
                counts.all_false += 1;
                counts.failing_false += is_failing;
            }
        }
        counts
    }

    /// The way to test a predicate, by the margins of the real labels alone: within requests where that can come to a
    /// p of `needed`, else between requests where that can, and else over all units.
    pub fn way(&self, truth: &Truth, needed: f64) -> Way {
        if self.within(truth, &self.table.failing).least_p <= needed {
            return Way::WithinRequests;
        }
        let between = self.between(truth, &self.real.sequences);
        if self.factorials.least_fisher(between) <= needed { Way::BetweenRequests } else { Way::Pooled }
    }

    /// Tests a predicate in an arm.
    pub fn test(&self, truth: &Truth, way: Way, arm: &Arm) -> Tested {
        let pooled = self.factorials.fisher(self.counts(truth, arm.failing(way)));
        let by_request = match way {
            Way::Pooled => pooled,
            Way::WithinRequests => self.within(truth, &arm.within).p,
            Way::BetweenRequests => self.factorials.fisher(self.between(truth, &arm.sequences)),
        };
        Tested { way, pooled, by_request }
    }
}
