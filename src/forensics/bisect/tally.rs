//! What a run came to, beside what the good configuration came to.

use super::Verdict;
use crate::forensics::correlate::{Counts, Judgement, LogFactorials};

/// More bad requests than the good configuration has are more only if chance gives as many with less than this probability.
pub const SIGNIFICANCE: f64 = 0.01;

/// The requests of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that are bad.
    pub bad: u64,
    /// Requests that are bad or not.
    pub judged: u64,
    /// Requests with nothing to judge.
    pub nothing: u64,
    /// Requests of which it is not known.
    pub unknown: u64,
}

/// Why a tally tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Unresolved {
    /// Some requests could be bad or not.
    #[error("of {unknown} of {all} requests it is not known whether they are bad")]
    NotKnown {
        /// How many.
        unknown: u64,
        /// Of how many.
        all: u64,
    },
    /// There is no request that could be bad.
    #[error("none of {all} requests has anything to judge")]
    Nothing {
        /// How many.
        all: u64,
    },
    /// More of them are bad, and even if all were, that could be chance.
    #[error(
        "nothing can be told of {judged} requests beside a good configuration with {good_bad} bad ones of {good_judged}: if all were bad, \
         p would be {p:.3}, and below {SIGNIFICANCE} is needed; give more requests, or a good configuration that is better"
    )]
    TooFew {
        /// How many.
        judged: u64,
        /// Bad requests of the good configuration.
        good_bad: u64,
        /// Its requests.
        good_judged: u64,
        /// The least p there could be.
        p: f64,
    },
}

impl Tally {
    /// Counts requests.
    pub fn of(requests: impl IntoIterator<Item = Judgement>) -> Self {
        let mut tally = Self::default();
        for request in requests {
            match request {
                Judgement::Failing => tally.bad += 1,
                Judgement::Passing => {}
                Judgement::NoSite => tally.nothing += 1,
                Judgement::Unknown => tally.unknown += 1,
            }
            tally.judged += u64::from(matches!(request, Judgement::Failing | Judgement::Passing));
        }
        tally
    }

    /// Whether it can be held against another at all.
    ///
    /// # Errors
    /// If there is a request of which nothing is known, or none that could be judged.
    pub fn check(&self) -> Result<(), Unresolved> {
        let all = self.judged + self.nothing + self.unknown;
        match (self.unknown, self.judged) {
            (0, 0) => Err(Unresolved::Nothing { all }),
            (0, _) => Ok(()),
            (unknown, _) => Err(Unresolved::NotKnown { unknown, all }),
        }
    }

    /// The chance of so many bad requests or more among these, if they are no more often bad than those of `good`: Fisher's exact test,
    /// one-sided.
    pub fn p(&self, good: &Self) -> f64 {
        let counts =
            Counts { failing_true: self.bad, all_true: self.judged, failing_false: good.bad, all_false: good.judged };
        let all = usize::try_from(counts.all_true + counts.all_false).unwrap_or(usize::MAX);
        LogFactorials::up_to(all.min(TABLE)).fisher(counts)
    }

    /// Whether more requests are bad than of the good configuration, at [`SIGNIFICANCE`], and with which p.
    ///
    /// # Errors
    /// If that cannot be told ([`Self::check`]), or they are more often bad and too few to tell.
    pub fn against(&self, good: &Self) -> Result<(Verdict, f64), Unresolved> {
        self.check()?;
        let p = self.p(good);
        let is_more = u128::from(self.bad) * u128::from(good.judged) > u128::from(good.bad) * u128::from(self.judged);
        if !is_more {
            return Ok((Verdict::NotBad, p));
        }
        let least = Self { bad: self.judged, ..*self }.p(good);
        if least >= SIGNIFICANCE {
            let (judged, good_bad, good_judged) = (self.judged, good.bad, good.judged);
            return Err(Unresolved::TooFew { judged, good_bad, good_judged, p: least });
        }
        Ok((if p < SIGNIFICANCE { Verdict::Bad } else { Verdict::NotBad }, p))
    }
}

/// Logarithms of factorials that are kept at hand: 8 MiB of them.
const TABLE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(bad: u64, judged: u64) -> Tally {
        Tally { bad, judged, nothing: 0, unknown: 0 }
    }

    /// By hand: C(4,4)*C(4,0)/C(8,4) = 1/70, and for 3 or 4 of four against 1 or 0 it is (16 + 1)/70.
    #[test]
    fn p_is_that_of_fishers_exact_test() {
        assert!((tally(4, 4).p(&tally(0, 4)) - 1.0 / 70.0).abs() < 1e-12);
        assert!((tally(3, 4).p(&tally(1, 4)) - 17.0 / 70.0).abs() < 1e-12);
        assert!((tally(0, 4).p(&tally(0, 4)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn bad_is_significantly_worse_and_never_better() {
        let good = tally(1, 72);
        let verdict = |bad| tally(bad, 72).against(&good).map(|(verdict, _)| verdict);
        assert_eq!(verdict(37), Ok(Verdict::Bad));
        // p is 0.058, 0.031, 0.0166 and 0.0086.
        assert_eq!([6, 7, 8, 9].map(|bad| verdict(bad).unwrap() == Verdict::Bad), [false, false, false, true]);
        assert_eq!(verdict(1), Ok(Verdict::NotBad));
        assert_eq!(tally(0, 72).against(&tally(40, 72)).map(|(verdict, _)| verdict), Ok(Verdict::NotBad));
    }

    #[test]
    fn what_cannot_be_told_is_unresolved() {
        let good = tally(0, 72);
        let told = |tally: Tally| tally.against(&good).unwrap_err();
        assert_eq!(told(Tally { unknown: 1, ..tally(50, 71) }), Unresolved::NotKnown { unknown: 1, all: 72 });
        assert_eq!(told(Tally { nothing: 72, ..tally(0, 0) }), Unresolved::Nothing { all: 72 });
        let few = tally(3, 3).against(&tally(0, 3)).unwrap_err();
        assert!(few.to_string().contains("p would be 0.050"), "{few}");
        assert!(matches!(tally(1, 3).against(&tally(0, 3)), Err(Unresolved::TooFew { .. })));
        // What is not more often bad is not worse, whatever could be told of more.
        let not_bad = |tally: Tally, good: Tally| tally.against(&good).map(|(verdict, _)| verdict);
        assert_eq!(not_bad(tally(0, 3), tally(0, 3)), Ok(Verdict::NotBad));
        assert_eq!(not_bad(tally(72, 72), tally(72, 72)), Ok(Verdict::NotBad));
        assert_eq!(not_bad(tally(0, 24), tally(18, 24)), Ok(Verdict::NotBad));
    }

    #[test]
    fn requests_are_counted_by_what_is_known_of_them() {
        let requests = [Judgement::Failing, Judgement::Passing, Judgement::NoSite, Judgement::Unknown];
        assert_eq!(Tally::of(requests), Tally { bad: 1, judged: 2, nothing: 1, unknown: 1 });
    }
}
