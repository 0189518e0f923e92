//! Mutations of the event channel.

use stepscope::capture::Record;
use stepscope::capture::records::EventRecord;
use stepscope::replay::CheckName::{Commit, Validity};

use super::Expected::Finding;
use super::{Mutation, Place, mutation};

/// Lists every field: a new one does not compile until it is named here, and should then stand in the table.
fn _every_field(event: EventRecord) {
    let EventRecord { time_ns: _, kind: _, request: _, choice: _, step: _, message: _ } = event;
}

/// Whether it is an event of a step: what is only a remark on a request is not re-computed.
fn is_of_step(record: &Record) -> bool {
    matches!(record, Record::Event(EventRecord { step: Some(_), .. }))
}

/// Changes the first event of a step; findings stand at that step.
fn of_event(field: &'static str, change: impl Fn(&mut EventRecord) + 'static) -> Mutation {
    mutation(field, Finding(Commit), move |records| {
        let event = records.iter_mut().find(|record| is_of_step(record)).and_then(|record| match record {
            Record::Event(event) => Some(event),
            _ => None,
        });
        let event = event.expect("the capture has an event");
        let place = Place { request: event.request, step: event.step };
        change(event);
        place
    })
}

pub fn table() -> Vec<Mutation> {
    vec![
        of_event("event.time_ns", |event| event.time_ns += 1),
        of_event("event.kind", |event| event.kind = "warning".to_owned()),
        of_event("event.request", |event| event.request = Some(0)),
        of_event("event.choice", |event| event.choice = Some(1)),
        of_event("event.step", |event| event.step = event.step.map(|step| step + 1)),
        of_event("event.step, unknown", |event| event.step = None),
        of_event("event.message", |event| event.message.push('!')),
        mutation("an event that is gone", Finding(Commit), |records| {
            let index = records.iter().position(is_of_step).expect("there is one");
            match records.remove(index) {
                Record::Event(event) => Place { request: event.request, step: event.step },
                _ => unreachable!("it is an event"),
            }
        }),
        mutation("emitted, from an invalid row", Finding(Validity), |records| {
            let failed = records.iter_mut().find_map(|record| match record {
                Record::Step(step) if step.emitted.len() < step.rows.len() => Some(step),
                _ => None,
            });
            let step = failed.expect("a step failed");
            step.emitted.push(0);
            step.rows[0].token = Some(0);
            Place { request: Some(step.request), step: Some(step.step) }
        }),
    ]
}
