//! The steps whose forced token stood lowest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::steps::worst_forced;
use crate::capture::records::StepRecord;
use crate::forensics::correlate::Judgement;

/// A step with a forced token that was not the best of its row.
#[derive(Clone, Debug)]
pub struct WorstStep {
    /// Index of the capture.
    pub capture: usize,
    /// The step.
    pub step: StepRecord,
    /// Index of the row whose forced token stood lowest.
    pub row: usize,
    /// How many values of the row come before it.
    pub rank: u32,
}

/// The worst steps so far; of equal ones those that came first.
#[derive(Debug)]
pub struct Worst {
    steps: BTreeMap<(Reverse<u32>, u64), WorstStep>,
    most: usize,
    seen: u64,
}

impl Worst {
    /// None yet, of which so many are kept.
    pub fn new(most: usize) -> Self {
        Self { steps: BTreeMap::new(), most, seen: 0 }
    }

    /// Adds a step that was judged; forced tokens of `left_out` are not looked at.
    pub fn push(&mut self, capture: usize, step: &StepRecord, judgement: Judgement, left_out: &[u32]) {
        if judgement != Judgement::Failing {
            return;
        }
        let Some((row, rank)) = worst_forced(step, left_out).filter(|(_, rank)| *rank > 0) else { return };
        let place = (Reverse(rank), self.seen);
        self.seen += 1;
        if self.steps.len() >= self.most && self.steps.keys().next_back().is_some_and(|last| *last < place) {
            return;
        }
        self.steps.insert(place, WorstStep { capture, step: step.clone(), row, rank });
        if self.steps.len() > self.most {
            self.steps.pop_last();
        }
    }

    /// Those that are kept, the worst first.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &WorstStep> {
        self.steps.values()
    }

    /// How many there were.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(number: u64, forced: &[(u32, u32)]) -> StepRecord {
        let row = |(token, rank): &(u32, u32)| json!({"position": 0, "forced": {"token": token, "rank": rank}});
        serde_json::from_value(json!({
            "step": number.to_string(), "request": "0", "choice": 0, "first_position": 0, "drafts": [], "emitted": [],
            "rows": forced.iter().map(row).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    #[test]
    fn the_lowest_come_first_and_end_tokens_do_not_count() {
        let mut worst = Worst::new(2);
        for (number, forced) in [
            (0, vec![(7, 3)]),
            (1, vec![(7, 0), (9, 80)]),
            (2, vec![(7, 5), (7, 9)]),
            (3, vec![(7, 9)]),
            (4, vec![(9, 1)]),
        ] {
            worst.push(0, &step(number, &forced), Judgement::Failing, &[9]);
        }
        worst.push(0, &step(5, &[(7, 99)]), Judgement::Passing, &[9]);
        let kept: Vec<_> = worst.steps().map(|worst| (worst.step.step, worst.row, worst.rank)).collect();
        assert_eq!((kept, worst.seen()), (vec![(2, 1, 9), (3, 0, 9)], 3));
    }
}
