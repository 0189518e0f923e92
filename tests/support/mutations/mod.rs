//! The table of mutations: one per kind of field.

mod event;
mod grammar;
mod header;
mod logits;
mod loss;
mod request;
mod row;
mod speculation;
mod step;

use stepscope::capture::Record;
use stepscope::capture::records::{
    Admission, Completion, Header, LogitsRecord, RequestRecord, RowRecord, StepPath, StepRecord,
};
use stepscope::replay::CheckName;

/// Changes one fact of a capture, and says where.
pub type Change = Box<dyn Fn(&mut Vec<Record>) -> Place>;

/// A change of one fact, and what must come of it.
pub struct Mutation {
    /// The field, as the records name it.
    pub field: &'static str,
    /// Changes it, and says where.
    pub change: Change,
    /// What replay must say.
    pub expected: Expected,
}

/// What replay must say of a mutation.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// A finding of this check, at the place of the change.
    Finding(CheckName),
    /// Findings of this check, wherever the change has an effect.
    Everywhere(CheckName),
    /// This check says of something that it cannot be done.
    Skipped(CheckName),
    /// Replay cannot run, and says so in these words.
    Refused(&'static str),
    /// Nothing: the field follows from nothing else that is recorded, for this reason.
    Nothing(&'static str),
}

/// Where a change was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub request: Option<u64>,
    pub step: Option<u64>,
}

/// Mutations of the events of a capture with failures.
pub fn of_failures() -> Vec<Mutation> {
    event::table()
}

/// Mutations of the loss record of a capture that lacks a payload: what [`lose_a_payload`] makes.
pub fn of_losses() -> Vec<Mutation> {
    loss::table()
}

pub use loss::lose_a_payload;

/// Mutations of a capture with drafts that chance tests.
pub fn of_speculation() -> Vec<Mutation> {
    speculation::table()
}

/// Mutations of a capture of [`recorded::constrained_requests`](crate::recorded::constrained_requests).
pub fn of_grammars() -> Vec<Mutation> {
    grammar::table()
}

/// Mutations of everything else.
pub fn table() -> Vec<Mutation> {
    [header::table(), request::table(), step::table(), row::table(), logits::table()].into_iter().flatten().collect()
}

fn mutation(field: &'static str, expected: Expected, change: impl Fn(&mut Vec<Record>) -> Place + 'static) -> Mutation {
    Mutation { field, change: Box::new(change), expected }
}

fn of_header(field: &'static str, expected: Expected, change: impl Fn(&mut Header) + 'static) -> Mutation {
    mutation(field, expected, move |records| {
        for record in records {
            if let Record::Header(header) = record {
                change(header);
            }
        }
        Place::default()
    })
}

/// Changes the admission of one request.
fn of_admission(
    field: &'static str,
    request: u64,
    expected: Expected,
    change: impl Fn(&mut Admission) + 'static,
) -> Mutation {
    mutation(field, expected, move |records| {
        let admission = records.iter_mut().find_map(|record| match record {
            Record::Request(record) => match record.as_mut() {
                RequestRecord::Admitted(admission) if admission.request == request => Some(admission),
                _ => None,
            },
            _ => None,
        });
        change(admission.expect("the request was admitted"));
        Place { request: Some(request), step: None }
    })
}

/// Changes the completion of one request's first choice; findings stand at its last step.
fn of_completion(
    field: &'static str,
    request: u64,
    expected: Expected,
    change: impl Fn(&mut Completion) + 'static,
) -> Mutation {
    mutation(field, expected, move |records| {
        let step = records.iter().rev().find_map(|record| match record {
            Record::Step(step) if step.request == request && step.choice == 0 => Some(step.step),
            _ => None,
        });
        let completion = records.iter_mut().find_map(|record| match record {
            Record::Request(record) => match record.as_mut() {
                RequestRecord::Finished(completion) if completion.request == request && completion.choice == 0 => {
                    Some(completion)
                }
                _ => None,
            },
            _ => None,
        });
        change(completion.expect("the request ended"));
        Place { request: Some(request), step }
    })
}

/// Which step of a request's first choice is changed.
#[derive(Clone, Copy)]
pub enum Which {
    /// A chunk of the prompt that gives no row.
    PrefillChunk,
    /// The second step that decodes.
    Decode,
    /// The last one.
    Last,
}

fn find_step(records: &mut [Record], request: u64, which: Which) -> &mut StepRecord {
    let steps = records.iter_mut().filter_map(|record| match record {
        Record::Step(step) if step.request == request && step.choice == 0 => Some(step.as_mut()),
        _ => None,
    });
    let found = match which {
        Which::PrefillChunk => {
            let mut steps = steps;
            steps.find(|step| step.path == Some(StepPath::Prefill) && step.rows.is_empty())
        }
        Which::Decode => steps.filter(|step| step.path == Some(StepPath::Decode)).nth(1),
        Which::Last => steps.last(),
    };
    found.expect("the request has such a step")
}

/// Changes the first step that is one of `picks`.
fn of_first(
    field: &'static str,
    picks: fn(&StepRecord) -> bool,
    expected: Expected,
    change: impl Fn(&mut StepRecord) + 'static,
) -> Mutation {
    mutation(field, expected, move |records| {
        let step = records.iter_mut().find_map(|record| match record {
            Record::Step(step) if picks(step) => Some(step.as_mut()),
            _ => None,
        });
        let step = step.unwrap_or_else(|| panic!("the capture has no step to change {field} of"));
        change(step);
        Place { request: Some(step.request), step: Some(step.step) }
    })
}

fn of_step(
    field: &'static str,
    (request, which): (u64, Which),
    expected: Expected,
    change: impl Fn(&mut StepRecord) + 'static,
) -> Mutation {
    mutation(field, expected, move |records| {
        let step = find_step(records, request, which);
        let place = Place { request: Some(step.request), step: Some(step.step) };
        change(step);
        place
    })
}

/// Changes the row of the second decode step of a request.
fn of_row(
    field: &'static str,
    request: u64,
    expected: Expected,
    change: impl Fn(&mut RowRecord) + 'static,
) -> Mutation {
    of_step(field, (request, Which::Decode), expected, move |step| change(&mut step.rows[0]))
}

/// Changes the payload of the second decode step of a request.
fn of_logits(
    field: &'static str,
    request: u64,
    expected: Expected,
    change: impl Fn(&mut LogitsRecord) + 'static,
) -> Mutation {
    mutation(field, expected, move |records| {
        let step = find_step(records, request, Which::Decode).step;
        let logits = records.iter_mut().find_map(|record| match record {
            Record::Logits(logits) if logits.request == request && logits.step == step => Some(logits),
            _ => None,
        });
        change(logits.expect("the row has a payload"));
        Place { request: Some(request), step: Some(step) }
    })
}
