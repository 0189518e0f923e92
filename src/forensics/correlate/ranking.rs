//! Ranking: the predicate that tells most first, then the one that tells most of what it does not explain, and so on.

use super::RATE;
use super::bits::Bits;
use super::predicate::{Predicate, Truth};
use super::statistics::{Counts, Increase, Population, Stratum, WithinStrata, false_discovery_rates};
use super::survey::{Survey, Survivor};
use super::table::{Cells, Table, TableColumn};
use super::testing::{Bench, Tested, Way};
use crate::capture::conditions::Role;

/// A predicate that explains failing units.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// It, as an expression.
    pub predicate: String,
    /// Others that are true of the same units, the simplest first.
    pub equivalents: Vec<String>,
    /// Others that lose most when what it explains is taken away, with their counts.
    pub close: Vec<(String, Counts)>,
    /// Units by whether it holds and whether they fail.
    pub counts: Counts,
    /// Units of which it is not known, failing ones and all.
    pub not_known: (u64, u64),
    /// How much more often units fail where it holds.
    pub increase: Increase,
    /// The harmonic mean of how much more often units fail where it holds than anywhere, and of how much it explains.
    pub importance: f64,
    /// What it tells of which units fail, in bits.
    pub information: f64,
    /// Fisher's p over all units.
    pub p_pooled: f64,
    /// The p of the way.
    pub p_by_request: f64,
    /// How units of one request are kept from counting as independent.
    pub way: Way,
    /// Its rate of false discoveries.
    pub q: f64,
    /// Failing units that it explains, and no predicate before it, by their indices.
    pub explains: Vec<usize>,
    /// The test within units of like content.
    pub within_content: Vec<Within>,
}

/// A test within units that have the same value of a column, or values of the same tenth.
#[derive(Clone, Debug, PartialEq)]
pub struct Within {
    /// The column.
    pub column: &'static str,
    /// Its p.
    pub p: f64,
    /// How many values or tenths could tell.
    pub strata: u64,
}

/// The ranking, with what was done for it.
pub struct Ranking {
    pub ranked: Vec<Ranked>,
    pub not_explained: u64,
    pub conjunctions: usize,
}

/// A predicate that may be ranked: a survivor, or two of them.
struct Candidate {
    parts: Vec<Predicate>,
    equivalents: Vec<Predicate>,
    truth: Truth,
    tested: Tested,
    q: f64,
    cost: (u32, usize),
}

/// Survivors of which pairs are made.
const BEAM: usize = 20;
/// Survivors that take part in elimination.
const MOST_CANDIDATES: usize = 2000;
/// Most predicates that are ranked.
const MOST_RANKED: usize = 20;
/// Close ones that are named.
const MOST_CLOSE: usize = 3;

/// Ranks what a survey found.
pub fn rank(bench: &Bench<'_>, survey: &Survey) -> Ranking {
    let mut candidates: Vec<Candidate> =
        survey.survivors.iter().take(MOST_CANDIDATES).map(|survivor| Candidate::of(bench, survivor)).collect();
    let (pairs, conjunctions) = conjunctions(bench, survey, &candidates);
    candidates.extend(pairs);
    let mut left = bench.table.counted.clone();
    let mut ranked = Vec::new();
    while ranked.len() < MOST_RANKED {
        let Some(best) = best(bench, &candidates, &left, ranked.is_empty()) else { break };
        let Some(found) = candidates.get(best) else { break };
        let explained = found.truth.holds.and(&left).and(&bench.table.failing);
        let after = left.without(&found.truth.holds);
        let close = close(bench, &candidates, best, &left, &after);
        ranked.push(found.ranked(bench, explained.iter().collect(), close));
        left = after;
    }
    Ranking { ranked, not_explained: bench.table.failing.and(&left).count(), conjunctions }
}

impl Candidate {
    fn of(bench: &Bench<'_>, survivor: &Survivor) -> Self {
        let predicate = survivor.class.predicate;
        Self {
            parts: vec![predicate],
            equivalents: survivor.class.equivalents.clone(),
            truth: predicate.truth(bench.table),
            tested: survivor.tested,
            q: survivor.q,
            cost: predicate.cost(bench.table),
        }
    }

    fn text(&self, table: &Table) -> String {
        self.parts.iter().map(|part| part.text(table)).collect::<Vec<_>>().join(" and ")
    }

    fn ranked(&self, bench: &Bench<'_>, explains: Vec<usize>, close: Vec<(String, Counts)>) -> Ranked {
        let counts = bench.counts(&self.truth, &bench.real);
        let unknown = bench.table.counted.without(&self.truth.known);
        Ranked {
            predicate: self.text(bench.table),
            equivalents: self.equivalents.iter().map(|predicate| predicate.text(bench.table)).collect(),
            close,
            counts,
            not_known: (unknown.count_and(&bench.table.failing), unknown.count()),
            increase: counts.increase().unwrap_or(Increase { value: 0.0, low: 0.0, high: 0.0 }),
            importance: counts.importance(bench.population()),
            information: counts.information(bench.population()),
            p_pooled: self.tested.pooled,
            p_by_request: self.tested.by_request,
            way: self.tested.way,
            q: self.q,
            explains,
            within_content: within_content(bench, &self.truth),
        }
    }
}

fn population(bench: &Bench<'_>, units: &Bits) -> Population {
    Population { failing: units.count_and(&bench.table.failing), all: units.count() }
}

/// The index of the candidate that tells most of the units that are left. After the first one, a candidate has to go with
/// the label there, too.
fn best(bench: &Bench<'_>, candidates: &[Candidate], left: &Bits, is_first: bool) -> Option<usize> {
    let of = population(bench, left);
    let counts: Vec<Counts> = candidates.iter().map(|candidate| bench.counts_of(&candidate.truth, left)).collect();
    let rates = match is_first {
        true => vec![0.0; candidates.len()],
        false => {
            let p: Vec<f64> = counts.iter().map(|counts| bench.factorials.fisher(*counts)).collect();
            false_discovery_rates(&p, p.len())
        }
    };
    let holds = |(index, counts): &(usize, &Counts)| {
        counts.increase().is_some_and(|increase| increase.low > 0.0)
            && rates.get(*index).is_some_and(|rate| *rate <= RATE)
            && counts.failing_true > 1
    };
    let by_information = |left: &(usize, &Counts), right: &(usize, &Counts)| {
        let cost = |index: usize| candidates.get(index).map(|candidate| candidate.cost);
        let order = left.1.information(of).total_cmp(&right.1.information(of));
        order.then_with(|| cost(right.0).cmp(&cost(left.0))).then_with(|| right.0.cmp(&left.0))
    };
    counts.iter().enumerate().filter(holds).max_by(by_information).map(|(index, _)| index)
}

/// Those that lose most of what they tell when the units of the best one are taken away.
fn close(
    bench: &Bench<'_>,
    candidates: &[Candidate],
    best: usize,
    before: &Bits,
    after: &Bits,
) -> Vec<(String, Counts)> {
    let information = |candidate: &Candidate, left: &Bits| {
        bench.counts_of(&candidate.truth, left).information(population(bench, left))
    };
    let others =
        candidates.iter().enumerate().filter(|(index, candidate)| *index != best && candidate.parts.len() == 1);
    let mut losses: Vec<(f64, &Candidate)> = others
        .map(|(_, candidate)| (information(candidate, before) - information(candidate, after), candidate))
        .collect();
    losses.retain(|(loss, _)| *loss > 0.0);
    losses.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.cost.cmp(&right.1.cost)));
    let told = losses.into_iter().take(MOST_CLOSE);
    told.map(|(_, candidate)| (candidate.text(bench.table), bench.counts(&candidate.truth, &bench.real))).collect()
}

/// The pairs of survivors that beat both their parts, and how many were tried: they tell more, and where one part holds, the
/// other still tells failing units from passing ones, at a level that is divided by the number of pairs.
fn conjunctions(bench: &Bench<'_>, survey: &Survey, singles: &[Candidate]) -> (Vec<Candidate>, usize) {
    let beam = singles.get(..singles.len().min(BEAM)).unwrap_or_default();
    let pairs = beam.len() * beam.len().saturating_sub(1) / 2;
    let of = bench.population();
    let information = |truth: &Truth| bench.counts(truth, &bench.real).information(of);
    let level = RATE / (2 * pairs).max(1) as f64;
    let mut found = Vec::new();
    for (index, left) in beam.iter().enumerate() {
        for right in beam.iter().skip(index + 1) {
            let truth = left.truth.and(&right.truth);
            let beats = |part: &Candidate, other: &Candidate| {
                let counts = bench.counts_of(&other.truth, &part.truth.holds.and(&bench.table.counted));
                information(&truth) > information(&part.truth)
                    && counts.increase().is_some_and(|increase| increase.low > 0.0)
                    && bench.factorials.fisher(counts) <= level
            };
            if !beats(left, right) || !beats(right, left) {
                continue;
            }
            let tests = survey.tested + pairs;
            let Some(way) = bench.way(&truth, RATE / tests as f64) else { continue };
            let tested = bench.test(&truth, way, &bench.real);
            let q = (tested.p() * tests as f64).min(1.0);
            if q <= RATE {
                let parts = [left.parts.clone(), right.parts.clone()].concat();
                let cost = (left.cost.0 + right.cost.0, left.cost.1 + right.cost.1);
                found.push(Candidate { parts, equivalents: Vec::new(), truth, tested, q, cost });
            }
        }
    }
    (found, pairs)
}

/// The test within units of like content, for each column that the text decides.
fn within_content(bench: &Bench<'_>, truth: &Truth) -> Vec<Within> {
    let columns = bench.table.columns.iter().filter(|column| column.condition.role == Role::Content);
    columns.filter_map(|column| within_column(bench, truth, column)).collect()
}

fn within_column(bench: &Bench<'_>, truth: &Truth, column: &TableColumn) -> Option<Within> {
    let Cells::Number(values) = &column.cells else { return None };
    // The values of sequences as wholes are those of many steps.
    if values.len() != bench.table.len() {
        return None;
    }
    let mut sorted: Vec<i64> = column.known.iter().filter_map(|index| values.get(index).copied()).collect();
    sorted.sort_unstable();
    let borders = |values: &[i64]| -> Vec<i64> {
        (1..10).filter_map(|part| values.get(values.len() * part / 10).copied()).collect()
    };
    let mut different = sorted.clone();
    different.dedup();
    let mut borders = if different.len() <= 10 { different } else { borders(&sorted) };
    borders.dedup();
    let mut strata = vec![Stratum { all: 0, marked: 0, failing: 0, common: 0 }; borders.len() + 1];
    for index in column.known.and(&truth.known).and(&bench.table.counted).iter() {
        let place = values.get(index).map_or(0, |value| borders.partition_point(|border| border <= value));
        if let Some(stratum) = strata.get_mut(place) {
            let (marked, failing) = (truth.holds.has(index), bench.table.failing.has(index));
            stratum.all += 1;
            stratum.marked += u64::from(marked);
            stratum.failing += u64::from(failing);
            stratum.common += u64::from(marked && failing);
        }
    }
    let tested = WithinStrata::test(strata.into_iter(), &bench.factorials);
    Some(Within { column: column.condition.name, p: tested.p, strata: tested.strata })
}
