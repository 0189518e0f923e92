//! Mutations of the logits channel.

use stepscope::capture::Record;
use stepscope::capture::records::{LogitsPayload, LogitsRecord};
use stepscope::replay::CheckName::{Forward, Logits};

use super::Expected::Finding;
use super::{Mutation, Place, Which, find_step, mutation, of_logits};

/// Lists every field: a new one does not compile until it is named here, and should then stand in the table.
fn _every_field(logits: LogitsRecord) {
    let LogitsRecord { step: _, request: _, choice: _, row: _, payload: _ } = logits;
}

/// Changes one element of what the head read.
fn element(logits: &mut LogitsRecord) {
    match &mut logits.payload {
        LogitsPayload::HiddenQuantized { values, .. } => values[0] = if values[0] == 0 { 1 } else { 0 },
        LogitsPayload::HiddenFloat { values } => values[0] += 1.0,
        LogitsPayload::Full { .. } | LogitsPayload::TopK { .. } => panic!("the capture's tier is `hidden`"),
    }
}

pub fn table() -> Vec<Mutation> {
    vec![
        of_logits("payload, one element", 0, Finding(Logits), element),
        of_logits("payload, one element, as the model ran", 0, Finding(Forward), element),
        of_logits("payload, one element less", 0, Finding(Logits), |logits| match &mut logits.payload {
            LogitsPayload::HiddenQuantized { values, .. } => drop(values.pop()),
            LogitsPayload::HiddenFloat { values } => drop(values.pop()),
            LogitsPayload::Full { .. } | LogitsPayload::TopK { .. } => panic!("the capture's tier is `hidden`"),
        }),
        of_logits("payload, of another tier", 0, Finding(Logits), |logits| {
            logits.payload = LogitsPayload::TopK { ids: vec![1], values: vec![1.0] };
        }),
        of_logits("payload.request", 0, Finding(Logits), |logits| logits.request = 4),
        of_logits("payload.row", 0, Finding(Logits), |logits| logits.row = 9),
        mutation("a payload that is gone", Finding(Logits), |records| {
            let step = find_step(records, 0, Which::Decode).step;
            records.retain(|record| !matches!(record, Record::Logits(row) if row.request == 0 && row.step == step));
            Place { request: Some(0), step: Some(step) }
        }),
    ]
}
