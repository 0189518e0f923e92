//! Mutations of the loss channel.

use stepscope::capture::Record;
use stepscope::capture::records::LossRecord;
use stepscope::replay::CheckName::{Commit, Logits};

use super::Expected::{Finding, Nothing};
use super::{Mutation, Place, Which, find_step, mutation};

/// Lists every field: a new one does not compile until it is named here, and should then stand in the table.
fn _every_field(loss: LossRecord) {
    let LossRecord { time_ns: _, channel: _, messages: _, bytes: _, steps: _, reason: _ } = loss;
}

/// Takes one payload away, and says so in a loss record.
pub fn lose_a_payload(records: &mut Vec<Record>) {
    let step = find_step(records, 0, Which::Decode).step;
    records.retain(|record| !matches!(record, Record::Logits(row) if row.request == 0 && row.step == step));
    records.push(Record::Loss(LossRecord {
        time_ns: 1,
        channel: "logits".to_owned(),
        messages: Some(1),
        bytes: None,
        steps: Some((step, step)),
        reason: "the queue was full".to_owned(),
    }));
}

/// Changes the loss record; `at_row` tells whether the finding stands at the row it excused.
fn of_loss(field: &'static str, at_row: bool, change: impl Fn(&mut LossRecord) + 'static) -> Mutation {
    let expected = Finding(if at_row { Logits } else { Commit });
    mutation(field, expected, move |records| {
        let step = find_step(records, 0, Which::Decode).step;
        change_loss(records, &change);
        if at_row { Place { request: Some(0), step: Some(step) } } else { Place::default() }
    })
}

fn words(field: &'static str, change: impl Fn(&mut LossRecord) + 'static) -> Mutation {
    mutation(field, Nothing("describes the loss; nothing repeats it"), move |records| {
        change_loss(records, &change);
        Place::default()
    })
}

fn change_loss(records: &mut [Record], change: impl Fn(&mut LossRecord)) {
    for record in records {
        if let Record::Loss(loss) = record {
            change(loss);
        }
    }
}

pub fn table() -> Vec<Mutation> {
    vec![
        words("loss.time_ns", |loss| loss.time_ns += 1),
        words("loss.bytes", |loss| loss.bytes = Some(7)),
        words("loss.reason", |loss| loss.reason.push('!')),
        of_loss("loss.messages", false, |loss| loss.messages = Some(2)),
        of_loss("loss.channel", true, |loss| loss.channel = "sketch".to_owned()),
        of_loss("loss.steps", true, |loss| loss.steps = Some((0, 0))),
    ]
}
