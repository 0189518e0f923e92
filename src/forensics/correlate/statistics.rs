//! The statistics, each from its definition: tables of two by two, within strata and without, and many tests at once.

/// Units by whether a condition holds and whether they fail, as far as the condition is known of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Failing units where it holds.
    pub failing_true: u64,
    /// Units where it holds.
    pub all_true: u64,
    /// Failing units where it does not.
    pub failing_false: u64,
    /// Units where it does not.
    pub all_false: u64,
}

/// All units that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    /// Those that fail.
    pub failing: u64,
    /// All.
    pub all: u64,
}

/// A difference with its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Increase {
    /// Failure minus Context.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The 97.5% quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

impl Counts {
    fn failing(self) -> u64 {
        self.failing_true + self.failing_false
    }

    fn all(self) -> u64 {
        self.all_true + self.all_false
    }

    /// How much more often units fail where the condition holds than wherever it is known (Liblit et al., PLDI 2005). `None`
    /// where one of the two sides is empty.
    ///
    /// Failure - Context is the difference between the two sides times the share of the side where it does not hold, so
    /// that the interval is Newcombe's for a difference of independent proportions (method 10, of Wilson scores), times that.
    pub fn increase(self) -> Option<Increase> {
        if self.all_true == 0 || self.all_false == 0 {
            return None;
        }
        let proportion = |failing: u64, all: u64| failing as f64 / all as f64;
        let (with, without) =
            (proportion(self.failing_true, self.all_true), proportion(self.failing_false, self.all_false));
        let (with_low, with_high) = wilson(self.failing_true, self.all_true);
        let (without_low, without_high) = wilson(self.failing_false, self.all_false);
        let difference = with - without;
        let share = self.all_false as f64 / self.all() as f64;
        Some(Increase {
            value: difference * share,
            low: (difference - (with - with_low).hypot(without_high - without)) * share,
            high: (difference + (with_high - with).hypot(without - without_low)) * share,
        })
    }

    /// The harmonic mean of how much more often units fail where it holds than anywhere in `of`, and of the share of all failures
    /// that it holds in, in logarithms (Liblit et al.). 0 where that is not defined, and where it holds in one failure at most.
    ///
    /// Liblit's Increase stands where here all units do. Predicates that are known of different units would be held against different
    /// backgrounds: one that is not known of many passing units would come behind a worse one that is.
    pub fn importance(self, of: Population) -> f64 {
        if self.failing_true <= 1 || of.failing <= 1 {
            return 0.0;
        }
        let increase = self.failing_true as f64 / self.all_true as f64 - of.failing as f64 / of.all as f64;
        if increase <= 0.0 {
            return 0.0;
        }
        let recall = (self.failing_true as f64).ln() / (of.failing as f64).ln();
        2.0 / (1.0 / increase + 1.0 / recall)
    }
}

impl Counts {
    /// What it tells of which units fail, in bits: how much more likely the failures are if units fail at one rate where it holds and at
    /// another elsewhere, than at one rate everywhere (the mutual information, times the units). 0 where they fail less there.
    ///
    /// This ranks. Importance asks for little recall, and of many predicates that hold in a part of a noisy condition, one is pure by
    /// luck; here the failures that it leaves out weigh as much as those that it catches.
    pub fn information(self, of: Population) -> f64 {
        let (elsewhere, rest) = (of.failing - self.failing_true.min(of.failing), of.all - self.all_true.min(of.all));
        let is_less =
            u128::from(self.failing_true) * u128::from(rest) <= u128::from(elsewhere) * u128::from(self.all_true);
        if is_less || self.all_true == 0 {
            return 0.0;
        }
        entropy(of.failing, of.all) - entropy(self.failing_true, self.all_true) - entropy(elsewhere, rest)
    }
}

/// The bits that it takes to say which of so many units fail.
fn entropy(failing: u64, all: u64) -> f64 {
    let part = |count: u64| if count == 0 { 0.0 } else { count as f64 * (all as f64 / count as f64).log2() };
    part(failing) + part(all - failing)
}

/// Wilson's 95% interval of a proportion.
fn wilson(successes: u64, trials: u64) -> (f64, f64) {
    let trials_f = trials as f64;
    let proportion = successes as f64 / trials_f;
    let z2 = Z * Z;
    let scale = 1.0 + z2 / trials_f;
    let centre = (proportion + z2 / (2.0 * trials_f)) / scale;
    let half = Z / scale * (proportion * (1.0 - proportion) / trials_f + z2 / (4.0 * trials_f * trials_f)).sqrt();
    // At the ends of the scale the interval ends there, but for rounding.
    let low = if successes == 0 { 0.0 } else { centre - half };
    let high = if successes == trials { 1.0 } else { centre + half };
    (low, high)
}

/// Logarithms of factorials.
#[derive(Clone, Debug)]
pub struct LogFactorials(Vec<f64>);

impl LogFactorials {
    /// Those of 0 to `most`: 8 bytes each.
    pub fn up_to(most: usize) -> Self {
        let mut sum = 0.0;
        let of = |number: usize| {
            sum += if number > 0 { (number as f64).ln() } else { 0.0 };
            sum
        };
        Self((0..=most).map(of).collect())
    }

    fn of(&self, number: u64) -> f64 {
        // Past the table, Stirling's series.
        let stirling = || {
            let x = number as f64;
            x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + 1.0 / (12.0 * x)
        };
        usize::try_from(number).ok().and_then(|number| self.0.get(number).copied()).unwrap_or_else(stirling)
    }

    fn choose(&self, all: u64, chosen: u64) -> f64 {
        self.of(all) - self.of(chosen) - self.of(all - chosen)
    }

    /// The chance that `marked` of `all` units, drawn without order, have exactly `common` of the `failing` ones among them.
    fn hypergeometric(&self, common: u64, marked: u64, failing: u64, all: u64) -> f64 {
        let (passing, rest) = (all - failing, marked - common);
        if common > failing || rest > passing {
            return 0.0;
        }
        (self.choose(failing, common) + self.choose(passing, rest) - self.choose(all, marked)).exp()
    }

    /// Fisher's exact test, one-sided: the chance that so many failing units or more are where the condition holds, if it has
    /// nothing to do with failing.
    pub fn fisher(&self, counts: Counts) -> f64 {
        let (marked, failing, all) = (counts.all_true, counts.failing(), counts.all());
        // Far below the mean the first term is too small for a number, and the sum would begin with nothing.
        if u128::from(counts.failing_true) * u128::from(all) < u128::from(marked) * u128::from(failing) {
            return 1.0 - self.fewer(counts);
        }
        let most = marked.min(failing);
        let mut term = self.hypergeometric(counts.failing_true, marked, failing, all);
        let mut sum = term;
        for common in counts.failing_true..most {
            let (more, rest) = (common + 1, marked - common - 1);
            let ratio =
                (failing - common) as f64 * (marked - common) as f64 / (more as f64 * (all - failing - rest) as f64);
            term *= ratio;
            sum += term;
            if term < sum * 1e-17 && ratio < 0.5 {
                break;
            }
        }
        sum.min(1.0)
    }

    /// The chance of fewer failing units where the condition holds.
    fn fewer(&self, counts: Counts) -> f64 {
        let (marked, failing, all) = (counts.all_true, counts.failing(), counts.all());
        let Some(most) = counts.failing_true.checked_sub(1) else { return 0.0 };
        let mut term = self.hypergeometric(most, marked, failing, all);
        let mut sum = term;
        for common in (1..=most).rev() {
            let rest = (all - failing + common).saturating_sub(marked);
            term *= common as f64 * rest as f64 / ((failing - common + 1) as f64 * (marked - common + 1) as f64);
            sum += term;
            if term <= sum * 1e-17 {
                break;
            }
        }
        sum.min(1.0)
    }

    /// The smallest chance that [`Self::fisher`] can come to with the same margins: that of all the failing units where the
    /// condition holds, or of nothing but failing units there.
    pub fn least_fisher(&self, counts: Counts) -> f64 {
        let (marked, failing, all) = (counts.all_true, counts.failing(), counts.all());
        self.hypergeometric(marked.min(failing), marked, failing, all).min(1.0)
    }
}

/// One stratum of a test within strata, as far as the condition is known of its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stratum {
    /// Units.
    pub all: u64,
    /// Units where the condition holds.
    pub marked: u64,
    /// Units that fail.
    pub failing: u64,
    /// Units of both kinds.
    pub common: u64,
}

/// The sum over strata of failing units where the condition holds, and what it would be without a connection
/// (Cochran 1954; Mantel and Haenszel 1959).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WithinStrata {
    /// Strata that can tell: they have units of either side, failing and passing ones.
    pub strata: u64,
    /// The sum.
    pub observed: u64,
    /// Its expectation.
    pub expected: f64,
    /// Its variance.
    pub variance: f64,
    /// The chance of that sum or a greater one.
    pub p: f64,
    /// The chance of the greatest sum that the margins allow.
    pub least_p: f64,
}

/// Past this variance the normal approximation serves; below it the chances are exact.
const EXACT_UP_TO: f64 = 100.0;

impl WithinStrata {
    /// Tests, one-sided.
    pub fn test(strata: impl Iterator<Item = Stratum>, factorials: &LogFactorials) -> Self {
        let can_tell = |stratum: &Stratum| {
            (1..stratum.all).contains(&stratum.marked) && (1..stratum.all).contains(&stratum.failing)
        };
        let strata: Vec<Stratum> = strata.filter(can_tell).collect();
        let mut result = Self { p: 1.0, least_p: 1.0, strata: strata.len() as u64, ..Self::default() };
        let mut most = 0;
        for &Stratum { all, marked, failing, common } in &strata {
            let [n, m, f] = [all, marked, failing].map(|count| count as f64);
            result.observed += common;
            result.expected += m * f / n;
            result.variance += m * f * (n - m) * (n - f) / (n * n * (n - 1.0));
            most += marked.min(failing);
        }
        if strata.is_empty() {
            return result;
        }
        if result.variance > EXACT_UP_TO {
            let tail = |sum: u64| normal_upper_tail((sum as f64 - result.expected - 0.5) / result.variance.sqrt());
            (result.p, result.least_p) = (tail(result.observed), tail(most));
        } else {
            let chances = Sum::over(&strata, factorials);
            (result.p, result.least_p) = (chances.at_least(result.observed), chances.at_least(most));
        }
        result
    }

    /// The chi-squared statistic of the test with its correction for continuity, of one degree of freedom.
    #[cfg(test)]
    fn chi_squared(&self) -> f64 {
        let distance = (self.observed as f64 - self.expected).abs();
        (distance - 0.5).max(0.0).powi(2) / self.variance
    }
}

/// The distribution of a sum of hypergeometric counts.
struct Sum {
    first: u64,
    chances: Vec<f64>,
}

impl Sum {
    /// Chances below this are left out at either end, so that the work goes with the spread and not with the range.
    const NEGLIGIBLE: f64 = 1e-280;

    fn over(strata: &[Stratum], factorials: &LogFactorials) -> Self {
        let mut sum = Self { first: 0, chances: vec![1.0] };
        for &Stratum { all, marked, failing, .. } in strata {
            let least = (marked + failing).saturating_sub(all);
            let of_stratum: Vec<f64> = (least..=marked.min(failing))
                .map(|common| factorials.hypergeometric(common, marked, failing, all))
                .collect();
            let mut chances = vec![0.0; sum.chances.len() + of_stratum.len() - 1];
            for (index, chance) in sum.chances.iter().enumerate() {
                for (place, of_stratum) in chances.iter_mut().skip(index).zip(&of_stratum) {
                    *place += chance * of_stratum;
                }
            }
            let is_negligible = |chance: &&f64| **chance < Self::NEGLIGIBLE;
            let (low, high) = (
                chances.iter().take_while(is_negligible).count(),
                chances.iter().rev().take_while(is_negligible).count(),
            );
            let kept = low..(chances.len() - high).max(low);
            sum = Self { first: sum.first + least + low as u64, chances: chances.drain(kept).collect() };
        }
        sum
    }

    fn at_least(&self, least: u64) -> f64 {
        let skipped = usize::try_from(least.saturating_sub(self.first)).unwrap_or(usize::MAX);
        // The small ones first, so that they count.
        self.chances.iter().skip(skipped).rev().sum::<f64>().min(1.0)
    }
}

/// The chance that a standard normal value is so great or greater, to seven digits (the rational Chebyshev fit of erfc in
/// Numerical Recipes, section 6.2).
fn normal_upper_tail(z: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let fit = FIT.iter().rev().fold(0.0, |sum, factor| sum * t + factor);
    let tail = 0.5 * t * (-x * x + fit).exp();
    if z >= 0.0 { tail } else { 1.0 - tail }
}

/// The q of each of several p among `tests` tests (Benjamini and Hochberg 1995): the least rate of false discoveries at which it
/// would be one. What is not listed counts as 1.
pub fn false_discovery_rates(p: &[f64], tests: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    let at = |index: usize| p.get(index).copied().unwrap_or(1.0);
    order.sort_by(|left, right| at(*left).total_cmp(&at(*right)));
    let mut rates = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (rank, index) in order.into_iter().enumerate().rev() {
        least = least.min(at(index) * tests.max(p.len()) as f64 / (rank + 1) as f64);
        if let Some(rate) = rates.get_mut(index) {
            *rate = least;
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(failing_true: u64, all_true: u64, failing_false: u64, all_false: u64) -> Counts {
        Counts { failing_true, all_true, failing_false, all_false }
    }

    fn near(left: f64, right: f64, relative: f64) -> bool {
        (left - right).abs() <= relative * right.abs()
    }

    #[test]
    fn fisher_gives_the_published_values() {
        let factorials = LogFactorials::up_to(100);
        // Fisher's tea: 3 of 4 right, one-sided 17/70.
        assert!(near(factorials.fisher(counts(3, 4, 1, 4)), 17.0 / 70.0, 1e-12));
        // Nowhere near a smallest number: what speaks against a condition never passes for evidence.
        assert!(near(LogFactorials::up_to(2000).fisher(counts(80, 1000, 920, 1000)), 1.0, 1e-12));
        // R, fisher.test(matrix(c(2, 10, 15, 3), 2), alternative = "less"), of convictions: 0.0004652.
        assert!(near(factorials.fisher(counts(10, 12, 3, 18)), 0.0004652, 1e-4));
        // All 4 of 4.
        assert!(near(factorials.least_fisher(counts(3, 4, 1, 4)), 1.0 / 70.0, 1e-12));
    }

    /// The strata of a table as R prints it, columns first: (both, second alone, first alone, neither).
    fn strata(tables: &[[u64; 4]]) -> Vec<Stratum> {
        let stratum =
            |[a, b, c, d]: &[u64; 4]| Stratum { all: a + b + c + d, marked: a + c, failing: a + b, common: *a };
        tables.iter().map(stratum).collect()
    }

    #[test]
    fn cochran_mantel_haenszel_gives_the_published_values() {
        let factorials = LogFactorials::up_to(5000);
        // R, ?mantelhaen.test: penicillin in rabbits, 3.9286 with continuity correction; exact S = 16.
        let rabbits = strata(&[[0, 0, 6, 5], [3, 0, 3, 6], [6, 2, 0, 4], [5, 6, 1, 0], [2, 5, 0, 0]]);
        let result = WithinStrata::test(rabbits.into_iter(), &factorials);
        assert!(near(result.chi_squared(), 3.9286, 1e-4), "{result:?}");
        assert!(near(2.0 * result.p, 0.03994, 1e-3), "{result:?}");
        // R, mantelhaen.test(UCBAdmissions): 1.4269 with continuity correction, p-value 0.2323.
        let berkeley = strata(&[
            [512, 313, 89, 19],
            [353, 207, 17, 8],
            [120, 205, 202, 391],
            [138, 279, 131, 244],
            [53, 138, 94, 299],
            [22, 351, 24, 317],
        ]);
        let result = WithinStrata::test(berkeley.iter().copied(), &factorials);
        assert!(near(result.chi_squared(), 1.4269, 1e-4), "{result:?}");
        // The other way round, which is the side that the difference is on.
        let swapped = berkeley.iter().map(|stratum| Stratum {
            marked: stratum.all - stratum.marked,
            common: stratum.failing - stratum.common,
            ..*stratum
        });
        let result = WithinStrata::test(swapped, &factorials);
        assert!(result.variance > EXACT_UP_TO && near(2.0 * result.p, 0.2323, 1e-3), "{result:?}");
    }

    #[test]
    fn the_normal_tail_is_that_of_tables() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.158_655_254), (Z, 0.025), (-1.0, 0.841_344_746), (5.0, 2.866_515_7e-7)] {
            assert!(near(normal_upper_tail(z), p, 1e-6), "{z}");
        }
    }

    #[test]
    fn the_interval_is_newcombes() {
        // Newcombe 1998, table II, method 10: 56/70 against 48/80 is 0.2 (0.0524, 0.3339).
        let increase = counts(56, 70, 48, 80).increase().unwrap();
        let share = 80.0 / 150.0;
        assert!(near(increase.value / share, 0.2, 1e-9), "{increase:?}");
        assert!((increase.low / share - 0.0524).abs() < 5e-5 && (increase.high / share - 0.3339).abs() < 5e-5);
        // And 9/10 against 3/10: 0.6 (0.1705, 0.8090).
        let increase = counts(9, 10, 3, 10).increase().unwrap();
        assert!((increase.low * 2.0 - 0.1705).abs() < 5e-5 && (increase.high * 2.0 - 0.8090).abs() < 5e-5);
        assert_eq!(counts(3, 4, 0, 0).increase(), None);
    }

    #[test]
    fn importance_is_that_of_its_definition() {
        // 15 of 17 against 0 of 52.
        let incident = counts(15, 17, 0, 52);
        let increase = 15.0 / 17.0 - 15.0 / 69.0;
        assert!(near(incident.increase().unwrap().value, increase, 1e-12));
        let of = |failing| Population { failing, all: 69 };
        assert!(near(incident.importance(of(15)), 2.0 / (1.0 / increase + 1.0), 1e-12));
        let (increase, recall) = (15.0 / 17.0 - 30.0 / 69.0, 15_f64.ln() / 30_f64.ln());
        assert!(near(incident.importance(of(30)), 2.0 / (1.0 / increase + 1.0 / recall), 1e-12));
        for none in [counts(1, 1, 0, 9), counts(0, 3, 4, 9), counts(2, 20, 4, 9)] {
            assert_eq!(none.importance(of(10)), 0.0);
        }
    }

    #[test]
    fn information_is_that_of_its_definition() {
        let of = Population { failing: 2, all: 4 };
        assert!(near(counts(2, 2, 0, 2).information(of), 4.0, 1e-12), "a bit for each");
        assert_eq!(counts(1, 2, 1, 2).information(of), 0.0);
        assert_eq!(counts(0, 2, 2, 2).information(of), 0.0, "they fail less");
        // Where it is not known, it does not hold.
        assert!(near(counts(2, 2, 0, 1).information(of), 4.0, 1e-12));
        // A pure part of a noisy condition, and the condition.
        let of = Population { failing: 58, all: 200 };
        let (part, whole) = (counts(45, 46, 13, 154), counts(58, 64, 0, 136));
        assert!(part.importance(of) > whole.importance(of) && part.information(of) < whole.information(of));
    }

    #[test]
    fn false_discovery_rates_are_those_of_the_paper() {
        // Benjamini and Hochberg 1995, section 3.2: of 15 tests, four are discoveries at 0.05.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0,
        ];
        let rates = false_discovery_rates(&p, p.len());
        assert_eq!(rates.iter().filter(|rate| **rate <= 0.05).count(), 4);
        assert!(near(rates[3], 0.0095 * 15.0 / 4.0, 1e-12));
        assert_eq!(false_discovery_rates(&[0.01], 3), [0.03]);
        assert!(false_discovery_rates(&[], 3).is_empty());
    }

    /// The tail by counting every way to choose the marked units.
    fn fisher_by_counting(counts: Counts) -> f64 {
        let (marked, failing, all) = (counts.all_true, counts.failing(), counts.all());
        let (mut ways, mut extreme) = (0_u64, 0_u64);
        for choice in (0_u64..1 << all).filter(|choice| u64::from(choice.count_ones()) == marked) {
            ways += 1;
            extreme += u64::from(u64::from((choice & ((1 << failing) - 1)).count_ones()) >= counts.failing_true);
        }
        extreme as f64 / ways as f64
    }

    fn table() -> impl Strategy<Value = Counts> {
        (0_u64..6, 0_u64..6, 0_u64..6, 0_u64..6).prop_map(|(a, b, c, d)| counts(a, a + b, c, c + d))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

        #[test]
        fn fisher_is_what_counting_gives((a, b, c, d) in (0_u64..4, 0_u64..4, 0_u64..4, 0_u64..4)) {
            let counts = counts(a, a + b, c, c + d);
            let factorials = LogFactorials::up_to(20);
            prop_assert!(near(factorials.fisher(counts), fisher_by_counting(counts), 1e-9));
            prop_assert!(factorials.least_fisher(counts) <= factorials.fisher(counts) + 1e-12);
        }

        #[test]
        fn one_stratum_is_fisher(counts in table()) {
            let factorials = LogFactorials::up_to(30);
            let stratum = Stratum {
                all: counts.all(), marked: counts.all_true, failing: counts.failing(), common: counts.failing_true,
            };
            let result = WithinStrata::test([stratum].into_iter(), &factorials);
            if result.strata == 1 {
                prop_assert!(near(result.p, factorials.fisher(counts), 1e-9));
                prop_assert!(near(result.least_p, factorials.least_fisher(counts), 1e-9));
            }
        }

        #[test]
        fn strata_are_what_adding_up_gives(tables in prop::collection::vec(table(), 1..4)) {
            let factorials = LogFactorials::up_to(30);
            let strata: Vec<Stratum> = tables.iter().map(|counts| Stratum {
                all: counts.all(), marked: counts.all_true, failing: counts.failing(), common: counts.failing_true,
            }).collect();
            let result = WithinStrata::test(strata.iter().copied(), &factorials);
            let mut sums = vec![(0, 1.0)];
            let mut observed = 0;
            for stratum in strata.iter().filter(|stratum| {
                stratum.marked > 0 && stratum.marked < stratum.all && stratum.failing > 0 && stratum.failing < stratum.all
            }) {
                observed += stratum.common;
                let more = |(sum, chance): &(u64, f64)| -> Vec<(u64, f64)> {
                    let chance_of = |common| factorials.hypergeometric(common, stratum.marked, stratum.failing, stratum.all);
                    (0..=stratum.marked).map(|common| (sum + common, chance * chance_of(common))).collect()
                };
                sums = sums.iter().flat_map(more).collect();
            }
            let tail: f64 = sums.iter().filter(|(sum, _)| *sum >= observed).map(|(_, chance)| chance).sum();
            prop_assert!(result.strata == 0 || near(result.p, tail, 1e-9), "{} and {}", result.p, tail);
        }

        /// The definition: the largest k with p(k) at most k/m times the rate gives the discoveries.
        #[test]
        fn discoveries_are_those_of_the_definition(p in prop::collection::vec(0.0_f64..0.2, 1..30), more in 0_usize..10) {
            let tests = p.len() + more;
            let mut sorted = p.clone();
            sorted.sort_by(f64::total_cmp);
            let bound = |rank: usize| 0.05 * (rank + 1) as f64 / tests as f64;
            let last = (0..p.len()).rev().find(|rank| sorted[*rank] <= bound(*rank));
            let expected = p.iter().filter(|p| last.is_some_and(|last| **p <= sorted[last])).count();
            let found = false_discovery_rates(&p, tests).iter().filter(|rate| **rate <= 0.05).count();
            prop_assert_eq!(found, expected);
        }
    }
}
