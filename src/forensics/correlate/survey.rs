//! The survey: every predicate counted and tested, those that are true of the same units once, in the real arm and in the
//! shuffled ones.

use std::collections::HashMap;

use rayon::prelude::*;

use super::RATE;
use super::predicate::{Predicate, Truth};
use super::statistics::{Counts, false_discovery_rates};
use super::testing::{Arm, Bench, Tested, Way};

/// Predicates that are true of the same units.
#[derive(Clone, Debug)]
pub struct Class {
    /// The simplest.
    pub predicate: Predicate,
    /// The others, simplest first. Of some units one of them may be known and another not.
    pub equivalents: Vec<Predicate>,
    /// The counts of the simplest.
    pub counts: Counts,
}

/// A class that goes with the label.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// The class.
    pub class: Class,
    /// Its test.
    pub tested: Tested,
    /// Its rate of false discoveries.
    pub q: f64,
}

/// What a survey comes to.
#[derive(Clone, Debug, Default)]
pub struct Survey {
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
    /// Those that go with the label, by what they tell.
    pub survivors: Vec<Survivor>,
    /// Shuffled arms in which any would.
    pub shuffled_reporting: usize,
}

/// Predicates that are held at a time.
const AT_A_TIME: usize = 256;

/// Surveys the predicates of a table; `arms` are the shuffled ones.
pub fn survey(bench: &Bench<'_>, arms: &[Arm]) -> Survey {
    let predicates = Predicate::all(bench.table);
    let (classes, constant) = classes(bench, &predicates);
    let merged = classes.iter().map(|class| class.equivalents.len()).sum();
    let is_able = |class: &Class| bench.factorials.least_fisher(class.counts) <= RATE;
    let all = classes.len();
    let able: Vec<Class> = classes.into_iter().filter(is_able).collect();
    let arms: Vec<&Arm> = std::iter::once(&bench.real).chain(arms).collect();
    let needed = RATE / able.len().max(1) as f64;
    let of_class = |class: Class| {
        let truth = class.predicate.truth(bench.table);
        let way = bench.way(&truth, needed)?;
        Some((class, (way, pooled(bench, &truth, &arms))))
    };
    // Whoever is no discovery by the pooled p alone is none by the larger p of two.
    let (able, tests): (Vec<Class>, Vec<(Way, Vec<f64>)>) = able.into_par_iter().filter_map(of_class).unzip();
    let (ways, pooled): (Vec<Way>, Vec<Vec<f64>>) = tests.into_iter().unzip();
    let candidates: Vec<Vec<usize>> = (0..arms.len()).map(|arm| discoveries(&pooled, arm, able.len())).collect();
    let mut tests: HashMap<(usize, usize), Tested> = HashMap::new();
    let mut wanted: HashMap<usize, Vec<usize>> = HashMap::new();
    for (arm, classes) in candidates.iter().enumerate() {
        classes.iter().for_each(|class| wanted.entry(*class).or_default().push(arm));
    }
    let of_class = |(class, wanted): (&usize, &Vec<usize>)| -> Vec<((usize, usize), Tested)> {
        let (Some(found), Some(way)) = (able.get(*class), ways.get(*class).copied()) else { return Vec::new() };
        let truth = found.predicate.truth(bench.table);
        let test = |arm: &usize| Some(((*class, *arm), bench.test(&truth, way, arms.get(*arm)?)));
        wanted.iter().filter_map(test).collect()
    };
    tests.par_extend(wanted.par_iter().flat_map_iter(of_class));
    let reported = |arm: usize| -> Vec<Survivor> {
        let Some(candidates) = candidates.get(arm) else { return Vec::new() };
        let p = |class: &usize| tests.get(&(*class, arm)).map_or(1.0, Tested::p);
        let rates = false_discovery_rates(&candidates.iter().map(p).collect::<Vec<_>>(), able.len());
        let survivor = |(class, q): (&usize, f64)| {
            let tested = *tests.get(&(*class, arm))?;
            let class = able.get(*class)?;
            let is_survivor = |counts: Counts| {
                counts.increase().is_some_and(|increase| increase.low > 0.0) && counts.failing_true > 1
            };
            let counts = || match arm {
                0 => class.counts,
                arm => arms
                    .get(arm)
                    .map_or_else(Counts::default, |arm| bench.counts(&class.predicate.truth(bench.table), arm)),
            };
            let survives = q <= RATE && is_survivor(counts());
            survives.then(|| Survivor { class: class.clone(), tested, q })
        };
        candidates.iter().zip(rates).filter_map(survivor).collect()
    };
    let of = bench.population();
    let mut survivors = reported(0);
    survivors.sort_by(|left, right| {
        let information = |survivor: &Survivor| survivor.class.counts.information(of);
        let cost = |survivor: &Survivor| survivor.class.predicate.cost(bench.table);
        information(right).total_cmp(&information(left)).then_with(|| cost(left).cmp(&cost(right)))
    });
    let shuffled_reporting = (1..arms.len()).into_par_iter().filter(|arm| !reported(*arm).is_empty()).count();
    Survey {
        predicates: predicates.len(),
        constant,
        merged,
        unable: all - able.len(),
        tested: able.len(),
        survivors,
        shuffled_reporting,
    }
}

/// The predicates by what they are true of, each class at its simplest, and how many are true everywhere or nowhere.
fn classes(bench: &Bench<'_>, predicates: &[Predicate]) -> (Vec<Class>, usize) {
    let mut classes: Vec<Class> = Vec::new();
    let mut by_digest: HashMap<[u8; 32], usize> = HashMap::new();
    let mut constant = 0;
    for some in predicates.chunks(AT_A_TIME) {
        let counted: Vec<(Predicate, [u8; 32], Counts)> = some
            .par_iter()
            .map(|predicate| {
                let truth = predicate.truth(bench.table);
                (*predicate, truth.holds.digest(), bench.counts(&truth, &bench.real))
            })
            .collect();
        for (predicate, digest, counts) in counted {
            if counts.all_true == 0 || counts.all_false == 0 {
                constant += 1;
                continue;
            }
            match by_digest.get(&digest).and_then(|index| classes.get_mut(*index)) {
                Some(class) => class.equivalents.push(predicate),
                None => {
                    by_digest.insert(digest, classes.len());
                    classes.push(Class { predicate, equivalents: Vec::new(), counts });
                }
            }
        }
    }
    (classes, constant)
}

/// Fisher's p of a predicate in each arm, 1 where it is far from small.
fn pooled(bench: &Bench<'_>, truth: &Truth, arms: &[&Arm]) -> Vec<f64> {
    let of_arm = |arm: &&Arm| {
        let counts = bench.counts(truth, arm);
        // Up to the expectation, the chance of so many is a half at least.
        let (failing, all) = (counts.failing_true + counts.failing_false, counts.all_true + counts.all_false);
        let is_past =
            u128::from(counts.failing_true) * u128::from(all) > u128::from(counts.all_true) * u128::from(failing);
        if is_past { bench.factorials.fisher(counts) } else { 1.0 }
    };
    arms.iter().map(of_arm).collect()
}

/// The classes whose p in an arm is a discovery.
fn discoveries(p: &[Vec<f64>], arm: usize, tests: usize) -> Vec<usize> {
    let of_arm: Vec<f64> = p.iter().map(|of_arms| of_arms.get(arm).copied().unwrap_or(1.0)).collect();
    let rates = false_discovery_rates(&of_arm, tests);
    (0..of_arm.len()).filter(|class| rates.get(*class).is_some_and(|rate| *rate <= RATE)).collect()
}
