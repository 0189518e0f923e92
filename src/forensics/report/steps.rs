//! What the steps of one capture show, read step by step into bounded memory.

use std::collections::BTreeMap;

use super::thinned::Thinned;
use crate::capture::records::StepRecord;
use crate::forensics::correlate::Judgement;

/// Marks of each kind that a series keeps.
const MARKS_KEPT: usize = 1000;
/// Pairs of lengths that are told apart.
const CELLS_KEPT: usize = 1000;
/// Powers of two that a population of a mask can be up to.
const POWERS: usize = 33;

/// A number of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// The step.
    pub step: u64,
    /// The number.
    pub value: f64,
}

/// Marks of steps, those of failing ones apart, so that they are not thinned with the others.
#[derive(Clone, Debug)]
pub struct Series {
    /// Of steps that fail.
    pub failing: Thinned<Mark>,
    /// Of steps that do not, or of which it is not known.
    pub others: Thinned<Mark>,
    /// Steps whose number is not known or not finite.
    pub without: u64,
}

/// Steps of one pair of lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Steps that fail.
    pub failing: u64,
    /// Steps that do not.
    pub passing: u64,
    /// Steps of which there is nothing to judge, or of which it is not known.
    pub unjudged: u64,
}

/// Steps by how many tokens they read, and how many the step before had accepted.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    cells: BTreeMap<(u32, u32), Cell>,
    /// Steps of pairs past the bound on how many are told apart.
    pub past_bound: u64,
    /// Steps of which one length is not known, or that have no step before.
    pub without: u64,
}

/// Rows by how many tokens their applied mask allows.
#[derive(Clone, Debug)]
pub struct Populations {
    /// Rows whose mask allows nothing.
    pub empty: u64,
    /// Rows whose mask allows up to 1, 2, 4, 8, ... tokens, and more than half of that.
    pub up_to: [u64; POWERS],
    /// Rows whose population is not recorded; most have no mask.
    pub without: u64,
}

/// What the steps of one capture show.
#[derive(Clone, Debug)]
pub struct StepFacts {
    /// Steps that were read.
    pub steps: u64,
    /// How many values of its row come before the forced token that stood lowest.
    pub ranks: Series,
    /// How far below the best value of its row the emitted token stood that was furthest below, in logits.
    pub margins: Series,
    /// `q_len` and `prev_accepted`.
    pub lengths: Lengths,
    /// Populations of applied masks.
    pub populations: Populations,
}

impl Series {
    fn new() -> Self {
        Self { failing: Thinned::new(MARKS_KEPT), others: Thinned::new(MARKS_KEPT), without: 0 }
    }

    fn push(&mut self, step: u64, value: Option<f64>, fails: bool) {
        match value.filter(|value| value.is_finite()) {
            None => self.without += 1,
            Some(value) if fails => self.failing.push(Mark { step, value }),
            Some(value) => self.others.push(Mark { step, value }),
        }
    }

    /// How many marks are kept, and of how many.
    pub fn counts(&self) -> (u64, u64) {
        let kept = self.failing.kept().len() + self.others.kept().len();
        (kept as u64, self.failing.pushed() + self.others.pushed())
    }

    /// All marks that are kept.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.failing.kept().iter().chain(self.others.kept())
    }
}

impl Lengths {
    fn push(&mut self, step: &StepRecord, judgement: Judgement) {
        let (Some(read), Some(accepted)) = (step.q_len, step.prev_accepted) else { return self.without += 1 };
        let is_known = self.cells.contains_key(&(read, accepted));
        if !is_known && self.cells.len() >= CELLS_KEPT {
            return self.past_bound += 1;
        }
        let cell = self.cells.entry((read, accepted)).or_default();
        *match judgement {
            Judgement::Failing => &mut cell.failing,
            Judgement::Passing => &mut cell.passing,
            Judgement::NoSite | Judgement::Unknown => &mut cell.unjudged,
        } += 1;
    }

    /// `(q_len, prev_accepted)` with the steps there.
    pub fn cells(&self) -> impl Iterator<Item = ((u32, u32), Cell)> {
        self.cells.iter().map(|(lengths, cell)| (*lengths, *cell))
    }

    /// Steps that were counted.
    pub fn steps(&self) -> u64 {
        self.cells.values().map(|cell| cell.failing + cell.passing + cell.unjudged).sum()
    }
}

impl Populations {
    fn new() -> Self {
        Self { empty: 0, up_to: [0; POWERS], without: 0 }
    }

    fn push(&mut self, population: Option<u32>) {
        let Some(population) = population else { return self.without += 1 };
        let power = population.checked_sub(1).map(|less| (u32::BITS - less.leading_zeros()) as usize);
        match power.and_then(|power| self.up_to.get_mut(power)) {
            Some(rows) => *rows += 1,
            None => self.empty += 1,
        }
    }

    /// Rows whose population is recorded.
    pub fn rows(&self) -> u64 {
        self.empty + self.up_to.iter().sum::<u64>()
    }
}

impl Default for StepFacts {
    fn default() -> Self {
        Self {
            steps: 0,
            ranks: Series::new(),
            margins: Series::new(),
            lengths: Lengths::default(),
            populations: Populations::new(),
        }
    }
}

impl StepFacts {
    /// Adds a step that was judged; forced tokens of `left_out` are not looked at.
    pub fn push(&mut self, step: &StepRecord, judgement: Judgement, left_out: &[u32]) {
        let fails = judgement == Judgement::Failing;
        self.steps += 1;
        let rank = worst_forced(step, left_out).map(|(_, rank)| f64::from(rank));
        self.ranks.push(step.step, rank, fails);
        let margins = step.rows.iter().filter_map(|row| row.token.and(row.margin)).map(f64::from);
        self.margins.push(step.step, margins.reduce(f64::max), fails);
        self.lengths.push(step, judgement);
        step.rows.iter().for_each(|row| self.populations.push(row.mask_population));
    }
}

/// The row whose forced token stood lowest, other than those of `left_out`, and how many values come before it.
pub(super) fn worst_forced(step: &StepRecord, left_out: &[u32]) -> Option<(usize, u32)> {
    let rank = |row: &crate::capture::records::RowRecord| {
        row.forced.filter(|forced| !left_out.contains(&forced.token)).and_then(|forced| forced.rank)
    };
    let ranks = step.rows.iter().enumerate().filter_map(|(index, row)| Some((index, rank(row)?)));
    ranks.max_by_key(|(index, rank)| (*rank, std::cmp::Reverse(*index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn populations_fall_into_powers_of_two() {
        let mut populations = Populations::new();
        for population in [0, 1, 2, 3, 4, 5, 8, 9, u32::MAX] {
            populations.push(Some(population));
        }
        populations.push(None);
        assert_eq!((populations.empty, populations.without, populations.rows()), (1, 1, 9));
        assert_eq!(populations.up_to[..5], [1, 1, 2, 2, 1]);
        assert_eq!(populations.up_to[32], 1);
    }

    #[test]
    fn what_is_not_a_number_is_no_mark() {
        let mut series = Series::new();
        for (step, value) in [(0, None), (1, Some(f64::NAN)), (2, Some(f64::INFINITY)), (3, Some(1.5))] {
            series.push(step, value, step == 3);
        }
        assert_eq!((series.counts(), series.without), ((1, 1), 3));
        assert_eq!(series.failing.kept(), [Mark { step: 3, value: 1.5 }]);
    }
}
