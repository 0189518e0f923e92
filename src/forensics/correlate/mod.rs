//! Which step conditions go with the bad steps?
//!
//! The method is that of Cooperative Bug Isolation (Liblit, Naik, Zheng, Aiken and Jordan, PLDI 2005): many simple predicates, each
//! true, false or not known of a step; Increase has to lie above 0 with its interval, and elimination takes away what the best one
//! explains before the next is sought. What ranks is how much a predicate tells of which steps fail; Importance, which ranks there, is told
//! beside it. What the method leaves to chance is held by tests: Fisher's, and one within
//! requests (Cochran, Mantel and Haenszel) or between them; the rate of false discoveries (Benjamini and Hochberg); and a
//! control with shuffled labels.

mod bits;
pub mod columns;
mod control;
mod expression;
mod label;
mod predicate;
mod ranking;
mod statistics;
mod survey;
mod table;
mod testing;

pub use self::bits::Bits;
pub use self::expression::{Expression, ExpressionError};
pub use self::label::{Judge, Judgement, Label, LabelError, StepKey};
pub use self::ranking::{Ranked, Within};
pub use self::statistics::{Counts, Increase, LogFactorials};
pub use self::table::{Reading, Table, TableBuilder, UnitOfTable, UnitPlace};
pub use self::testing::Way;

use self::control::arms;
use self::ranking::rank;
use self::survey::survey;
use self::testing::Bench;

/// The rate of false discoveries that is allowed.
pub const RATE: f64 = 0.05;

/// How a correlation is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Shuffled arms.
    pub permutations: usize,
    /// What they are shuffled by.
    pub seed: u64,
}

/// What goes with the failing units of a table.
#[derive(Clone, Debug)]
pub struct Correlation {
    /// The predicates that explain failing units, each with what those before it leave.
    pub ranked: Vec<Ranked>,
    /// Failing units that none explains.
    pub not_explained: u64,
    /// Predicates that were made.
    pub predicates: usize,
    /// Of them, those that are true everywhere or nowhere.
    pub constant: usize,
    /// Of the others, those that are true of the same units as a simpler one.
    pub merged: usize,
    /// Of the rest, those whose margins allow of no p that is small enough, over all units or by requests.
    pub unable: usize,
    /// Those that are left, which were tested.
    pub tested: usize,
    /// Conjunctions that were tested.
    pub conjunctions: usize,
    /// Predicates that go with the label, before elimination.
    pub survivors: usize,
    /// Shuffled arms.
    pub permutations: usize,
    /// Of them, those in which anything goes with the labels.
    pub permutations_reporting: usize,
}

/// Looks for what goes with the failing units. Memory is that of the table, some words per predicate, and two
/// bits per unit for each arm and each predicate that is looked at closely.
pub fn correlate(table: &Table, settings: Settings) -> Correlation {
    let bench = Bench::new(table);
    let arms = arms(table, &bench.real, settings.permutations, settings.seed);
    let survey = survey(&bench, &arms);
    let ranking = rank(&bench, &survey);
    Correlation {
        ranked: ranking.ranked,
        not_explained: ranking.not_explained,
        predicates: survey.predicates,
        constant: survey.constant,
        merged: survey.merged,
        unable: survey.unable,
        tested: survey.tested,
        conjunctions: ranking.conjunctions,
        survivors: survey.survivors.len(),
        permutations: settings.permutations,
        permutations_reporting: survey.shuffled_reporting,
    }
}

#[cfg(test)]
mod tests;
