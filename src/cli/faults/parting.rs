//! Where a run with a fault parts from the clean run of the same requests.
//!
//! The two captures are compared, request by request and step by step, without what depends on who else ran: numbers of
//! steps, times, places in the batch, what came from the prefix cache, and how a prompt was cut into chunks.

use std::collections::BTreeMap;

use anyhow::Context;

use crate::capture::CaptureReader;
use crate::capture::records::{Admission, Completion, StepPath, StepRecord};
use crate::replay::Finding;

/// What a run recorded of its requests, by `custom_id`.
pub(super) type Trails = BTreeMap<String, Trail>;

/// What a run recorded of one request.
pub(super) struct Trail {
    admission: Option<Admission>,
    choices: BTreeMap<u32, Choice>,
}

#[derive(Default)]
struct Choice {
    /// The steps with logits rows, each with its number.
    steps: Vec<(u64, StepRecord)>,
    completions: Vec<Completion>,
}

/// Where requests part from the clean run, by `custom_id`: those that do.
pub(super) struct Partings(BTreeMap<String, Parting>);

enum Parting {
    /// Before it ran: its prompt, its parameters or its constraint are others.
    Admission,
    /// In these choices, from this step on; `None` for one that has no step at all.
    Steps(BTreeMap<u32, Option<u64>>),
}

/// Reads a capture's trails.
pub(super) fn trails(reader: &CaptureReader) -> anyhow::Result<Trails> {
    let mut trails = Trails::new();
    for request in reader.requests() {
        let records = reader.request(request)?;
        let refused = records.refusal.and_then(|refusal| refusal.client_id);
        let id = records.admission.as_ref().map_or(refused, |admission| admission.client_id.clone());
        let mut trail = Trail { admission: records.admission.map(without_time), choices: BTreeMap::new() };
        for completion in records.completions {
            let choice = trail.choices.entry(completion.choice).or_default();
            choice.completions.push(Completion { time_ns: 0, ..completion });
        }
        for sequence in reader.sequences().filter(|sequence| sequence.request == request) {
            let choice = trail.choices.entry(sequence.choice.0).or_default();
            for step in reader.steps(sequence) {
                let step = step?;
                choice.steps.extend((!step.rows.is_empty()).then(|| (step.step, without_surroundings(step))));
            }
        }
        trails.insert(id.context("a request without a custom_id")?, trail);
    }
    Ok(trails)
}

fn without_time(admission: Admission) -> Admission {
    Admission { time_ns: 0, ..admission }
}

fn without_surroundings(step: StepRecord) -> StepRecord {
    let mut step = StepRecord { step: 0, time_ns: None, timings: None, batch: None, cached_prefix: None, ..step };
    if let Some(state) = &mut step.state {
        state.slot = 0;
    }
    if step.path == Some(StepPath::Prefill) {
        step = StepRecord { first_position: 0, q_len: None, input_tokens: None, ..step };
    }
    step
}

impl Partings {
    /// Where the requests of `found` part from those of `clean`.
    pub(super) fn new(clean: &Trails, found: &Trails) -> Self {
        let parting = |(id, found): (&String, &Trail)| Some((id.clone(), parting(clean.get(id)?, found)?));
        Self(found.iter().filter_map(parting).collect())
    }

    /// Whether a finding is about a request that parts from the clean run, at the step where it does or at a later one.
    pub(super) fn explain(&self, finding: &Finding) -> bool {
        match finding.client_id.as_ref().and_then(|id| self.0.get(id)) {
            None => false,
            Some(Parting::Admission) => true,
            Some(Parting::Steps(choices)) => {
                let first = finding.choice.and_then(|choice| choices.get(&choice));
                first.is_some_and(|first| first.is_none() || finding.step >= *first)
            }
        }
    }
}

fn parting(clean: &Trail, found: &Trail) -> Option<Parting> {
    if clean.admission != found.admission {
        return Some(Parting::Admission);
    }
    let none = Choice::default();
    let first = |(choice, found): (&u32, &Choice)| {
        let clean = clean.choices.get(choice).unwrap_or(&none);
        let last = found.steps.len().saturating_sub(1);
        let same = found.steps.iter().zip(&clean.steps).take_while(|((_, found), (_, clean))| found == clean).count();
        let is_same = same == found.steps.len() && same == clean.steps.len() && found.completions == clean.completions;
        (!is_same).then(|| (*choice, found.steps.get(same.min(last)).map(|(number, _)| *number)))
    };
    let choices: BTreeMap<u32, Option<u64>> = found.choices.iter().filter_map(first).collect();
    (!choices.is_empty()).then_some(Parting::Steps(choices))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::replay::CheckName;

    fn step(number: u64, emitted: u32) -> (u64, StepRecord) {
        let step =
            json!({"step": "0", "request": "0", "choice": 0, "first_position": 0, "drafts": [], "emitted": [emitted]});
        (number, serde_json::from_value(step).unwrap())
    }

    fn trail(steps: &[(u64, u32)]) -> Trails {
        let steps = steps.iter().map(|&(number, emitted)| step(number, emitted)).collect();
        let choices = BTreeMap::from([(0, Choice { steps, completions: Vec::new() })]);
        BTreeMap::from([("a".to_owned(), Trail { admission: None, choices })])
    }

    fn finding(id: &str, step: u64) -> Finding {
        Finding {
            capture: String::new(),
            check: CheckName::Commit,
            request: Some(0),
            client_id: Some(id.to_owned()),
            choice: Some(0),
            step: Some(step),
            row: None,
            fact: String::new(),
            expected: String::new(),
            found: String::new(),
        }
    }

    #[test]
    fn a_finding_counts_from_the_step_on_that_the_clean_run_does_not_have() {
        let partings = Partings::new(&trail(&[(3, 1), (4, 2), (5, 3)]), &trail(&[(7, 1), (9, 8), (10, 3)]));
        let counts = |id, step| partings.explain(&finding(id, step));
        assert_eq!([counts("a", 7), counts("a", 9), counts("a", 10), counts("b", 9)], [false, true, true, false]);
        assert!(!partings.explain(&Finding { step: None, ..finding("a", 0) }));
    }

    #[test]
    fn an_end_that_comes_sooner_or_later_is_a_parting() {
        let long = [(3, 1), (4, 2), (5, 3)];
        let counts = |clean: &[(u64, u32)], found: &[(u64, u32)], step| {
            Partings::new(&trail(clean), &trail(found)).explain(&finding("a", step))
        };
        assert_eq!([counts(&long, &long[..2], 3), counts(&long, &long[..2], 4)], [false, true]);
        assert_eq!([counts(&long[..2], &long, 4), counts(&long[..2], &long, 5)], [false, true]);
        assert!(!counts(&long, &long, 5));
    }
}
