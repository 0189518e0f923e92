//! One request in both captures, choice by choice and position by position.

use super::conditions::{self, Unlike};
use super::{At, Capture, Condition, Parting, Sequence};
use crate::capture::records::{Admission, RowRecord, StepRecord, StopReason};
use crate::replay::joined::{is_prefill, joined};
use crate::replay::recording::{RecordedRequest, RecordedSequence};

/// Compares every choice that both captures have, each as `whole` with what came of it; what cannot be compared is told in `missing`.
pub(super) fn compare(
    captures: [Capture<'_>; 2],
    requests: [&RecordedRequest; 2],
    whole: &Sequence,
    missing: &mut Vec<String>,
) -> Vec<Sequence> {
    let [a, b] = requests;
    let request = whole.request;
    if let Some(parting) = prompts([&a.admission.prompt_tokens, &b.admission.prompt_tokens]) {
        return vec![Sequence { parting: Some(parting), ..whole.clone() }];
    }
    let params = conditions::of_admissions([&a.admission, &b.admission]);
    let mut choices: Vec<u32> = requests.iter().flat_map(|request| &request.sequences).map(|one| one.choice).collect();
    choices.sort_unstable();
    choices.dedup();
    if choices.is_empty() {
        missing.push(format!("request {}: neither capture has steps of it", request[0]));
    }
    let mut compared = Vec::new();
    for choice in choices {
        let find = |request: &'_ RecordedRequest| request.sequences.iter().position(|one| one.choice == choice);
        let (Some(in_a), Some(in_b)) = (find(a), find(b)) else {
            let alone = captures[usize::from(find(a).is_none())].name;
            missing.push(format!("request {}, choice {choice} is in {alone} alone", request[0]));
            continue;
        };
        let trails = [Trail::of(&a.admission, &a.sequences[in_a]), Trail::of(&b.admission, &b.sequences[in_b])];
        for (trail, capture) in trails.iter().zip(captures) {
            let place = format!("{}: request {}, choice {choice}", capture.name, trail.request);
            missing.extend(trail.missing.iter().map(|why| format!("{place}: {why}")));
        }
        compared.push(part(Sequence { choice, ..whole.clone() }, &trails, params.clone()));
    }
    compared
}

/// Where two prompts part.
fn prompts([a, b]: [&Vec<u32>; 2]) -> Option<Parting> {
    let position = (0..a.len().max(b.len())).find(|place| a.get(*place) != b.get(*place))?;
    Some(Parting::Prompt { position, tokens: [a.get(position).copied(), b.get(position).copied()] })
}

/// A position of a sequence, in one capture.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) step: &'a StepRecord,
    /// Index of the token among those of the step, and of its row.
    pub(super) row: usize,
    /// `None` past the end.
    pub(super) token: Option<u32>,
}

impl Place<'_> {
    /// What is recorded of the row that decided the token, if anything is.
    pub(super) fn row_record(&self) -> Option<&RowRecord> {
        self.step.rows.get(self.row)
    }

    fn owned(self) -> At {
        At { step: self.step.clone(), row: self.row, token: self.token }
    }
}

/// What a capture has of one choice, position by position.
struct Trail<'a> {
    request: u64,
    prompt: usize,
    positions: Vec<Place<'a>>,
    /// The last step that joins up.
    last: Option<&'a StepRecord>,
    /// Whether the recorded tokens are all there are.
    is_whole: bool,
    end: Option<Option<StopReason>>,
    missing: Vec<String>,
}

impl<'a> Trail<'a> {
    fn of(admission: &Admission, sequence: &'a RecordedSequence) -> Self {
        let prompt = admission.prompt_tokens.len();
        let mut missing = Vec::new();
        let mut positions = Vec::new();
        let joined = joined(&sequence.steps, prompt);
        if let Some(step) = sequence.steps.get(joined) {
            missing.push(format!("steps before step {} are missing", step.step));
        }
        let mut is_whole = joined == sequence.steps.len();
        let mut last = None;
        for step in sequence.steps.iter().take(joined) {
            let read = prompt + positions.len();
            let is_aligned = is_prefill(step, prompt) || step.first_position as usize + 1 == read;
            if !is_aligned {
                let (found, step) = (step.first_position, step.step);
                missing.push(format!("step {step} begins at position {found}, and {read} tokens were known by then"));
                is_whole = false;
                break;
            }
            let place = |(row, token): (usize, &u32)| Place { step, row, token: Some(*token) };
            positions.extend(step.emitted.iter().enumerate().map(place));
            last = Some(step);
        }
        let has_statistics = |place: &&Place<'_>| place.row_record().is_some_and(|row| row.statistics.is_some());
        let compared = positions.iter().filter(has_statistics).count();
        if compared < positions.len() {
            let all = positions.len();
            missing.push(format!("of {} of its {all} rows nothing is recorded but the token", all - compared));
        }
        let end = sequence.completions.first();
        match end {
            None => {
                missing.push("its end is not recorded".to_owned());
                is_whole = false;
            }
            Some(end) if is_whole && end.emitted_tokens as usize != positions.len() => {
                let (all, found) = (end.emitted_tokens, positions.len());
                missing.push(format!("{all} tokens were emitted, and {found} are recorded"));
                is_whole = false;
            }
            Some(end) if end.stop.is_none() => missing.push("why it ended is not recorded".to_owned()),
            Some(_) => {}
        }
        let end = end.map(|end| end.stop.clone());
        Self { request: admission.request, prompt, positions, last, is_whole, end, missing }
    }

    /// The position, or where the sequence had ended before it.
    fn at(&self, index: usize) -> Option<Place<'a>> {
        let past_the_end = || self.last.map(|step| Place { step, row: step.emitted.len(), token: None });
        self.positions.get(index).copied().or_else(past_the_end)
    }

    /// Likewise, if a row decided what came there: a token, or a failure.
    fn judged_at(&self, index: usize) -> Option<Place<'a>> {
        let failed = |place: &Place<'_>| matches!(place.step.stop, Some(StopReason::Failed(_)));
        self.at(index).filter(|place| place.token.is_some() || failed(place))
    }
}

/// Compares the two trails of a sequence, whose requests differ in `params`.
fn part(sequence: Sequence, [a, b]: &[Trail<'_>; 2], params: Vec<Unlike>) -> Sequence {
    let both = a.positions.iter().zip(&b.positions);
    let same = both.take_while(|(a, b)| a.token == b.token).count();
    let is_past_one = same == a.positions.len() || same == b.positions.len();
    // One that is not whole may go on.
    let parts = if is_past_one {
        a.positions.len() != b.positions.len()
            && [a, b].iter().all(|trail| trail.is_whole || trail.positions.len() > same)
    } else {
        true
    };
    let mut condition = (!params.is_empty()).then_some(Condition { position: None, steps: None, unlike: params });
    let mut row = None;
    for index in 0..=same {
        let (Some(at_a), Some(at_b)) = (a.judged_at(index), b.judged_at(index)) else { break };
        let unlike = conditions::unlike([&at_a, &at_b]);
        let there = |unlike: Vec<Unlike>| Condition {
            position: Some(a.prompt + index),
            steps: Some([at_a.step.step, at_b.step.step]),
            unlike,
        };
        if row.is_none() {
            let rows: Vec<Unlike> =
                unlike.iter().filter(|unlike| unlike.kind == conditions::Kind::Row).cloned().collect();
            row = (!rows.is_empty()).then(|| there(rows));
        }
        if condition.is_none() && !unlike.is_empty() {
            condition = Some(there(unlike));
        }
        if condition.is_some() && row.is_some() {
            break;
        }
    }
    let of_tokens = || {
        let steps = Box::new([a, b].map(|trail| trail.at(same).map(Place::owned)));
        Parting::Tokens { index: same, position: a.prompt + same, steps }
    };
    let of_end = || match (&a.end, &b.end) {
        (Some(Some(end_a)), Some(Some(end_b))) if a.is_whole && b.is_whole && end_a != end_b => {
            Some(Parting::End([Some(end_a.clone()), Some(end_b.clone())]))
        }
        _ => None,
    };
    let parting = if parts { Some(of_tokens()) } else { of_end() }.or_else(|| row.is_some().then_some(Parting::Rows));
    Sequence { parting, condition, row, tokens: same, ..sequence }
}
