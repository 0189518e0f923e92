//! Which of the differences between a good and a bad configuration make it bad?
//!
//! Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002): subsets of the differences are
//! applied to the good configuration, each is judged, and the set shrinks while a part of it is still bad. What that ends in
//! is then confirmed, for it promises less than one would think where a difference undoes another: every proper subset is judged, too.
//!
//! Nothing here runs anything. A subset is judged by whoever asks, once; what a run came to is compared in [`Tally`].

mod confirm;
mod judged;
mod minimize;
mod oracle;
mod tally;

pub use self::confirm::{Confirmation, MOST_EXHAUSTIVE, Minimal};
pub use self::oracle::{broken, misranked, with_findings};
pub use self::tally::{SIGNIFICANCE, Tally, Unresolved};

use self::confirm::confirm;
use self::judged::JudgedSubsets;
use self::minimize::minimize;

/// What is known of the good configuration with some differences applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Worse than the good configuration.
    Bad,
    /// Not worse.
    NotBad,
    /// It could not be run, or what it came to cannot be told; taken for neither of the two.
    Unresolved,
}

/// What came of a bisection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bisection {
    /// All differences together are not bad, or there are none.
    NothingBad,
    /// All differences together are unresolved, so that there is nothing to begin with.
    Unresolved,
    /// A set of differences that is bad.
    Minimal(Minimal),
}

/// Finds a minimal set among so many differences, numbered from 0. `judge` is given the numbers of the differences to apply to
/// the good configuration, in ascending order: first all of them, no subset twice, and never none, which is the good configuration
/// itself.
///
/// If one difference alone is bad wherever it is applied, that takes at most 2 log2(n) + 1 runs; if anything goes, of the order of n squared.
pub fn bisect(differences: usize, judge: impl FnMut(&[usize]) -> Verdict) -> Bisection {
    let mut judged = JudgedSubsets::new(judge);
    let all: Vec<usize> = (0..differences).collect();
    match judged.verdict(&all) {
        Verdict::NotBad => Bisection::NothingBad,
        Verdict::Unresolved => Bisection::Unresolved,
        Verdict::Bad => {
            let set = minimize(all, &mut judged);
            Bisection::Minimal(confirm(set, &mut judged))
        }
    }
}

#[cfg(test)]
mod tests;
