//! Checks between the request records and the steps.

use std::collections::BTreeSet;

use super::super::error::CaptureError;
use super::super::records::Completion;
use super::super::topic::Topic;
use super::Check;
use crate::types::{ChoiceIndex, RequestId, SequenceId};

pub(super) fn check_requests(check: &mut Check<'_>) -> Result<(), CaptureError> {
    let reader = check.reader;
    let requests: BTreeSet<RequestId> =
        reader.requests().chain(reader.sequences().map(|sequence| sequence.request)).collect();
    for request in requests {
        let records = match reader.request(request) {
            Ok(records) => records,
            Err(error @ CaptureError::Io { .. }) => return Err(error),
            Err(error) => {
                check.unreadable(&error);
                continue;
            }
        };
        let Some(admission) = &records.admission else {
            if records.refusal.is_none() {
                let finding = format!("request {request}: there is no record of its admission");
                check.finding_unless_lost(Topic::Request, None, finding);
            }
            continue;
        };
        if records.refusal.is_some() {
            check.finding(format!("request {request}: both admitted and refused"));
        }
        for end in &records.completions {
            check_completion(check, SequenceId { request, choice: ChoiceIndex(end.choice) }, end)?;
        }
        let choices = admission.choices;
        let ended = records.completions.iter().filter(|end| end.choice < choices).count() as u32;
        if ended < choices {
            let unended = choices - ended;
            check.found.missing.push(format!("missing: request {request}: {unended} of {choices} choices have no end"));
        }
        if let Some(end) = records.completions.iter().find(|end| end.choice >= choices) {
            check.finding(format!("request {request}: choice {} ended, but only {choices} were admitted", end.choice));
        }
    }
    Ok(())
}

fn check_completion(check: &mut Check<'_>, sequence: SequenceId, end: &Completion) -> Result<(), CaptureError> {
    let reader = check.reader;
    let mut emitted = 0_u64;
    for step in reader.steps(sequence) {
        match step {
            Ok(step) => emitted += step.emitted.len() as u64,
            Err(error @ CaptureError::Io { .. }) => return Err(error),
            // Told of with the steps.
            Err(_) => return Ok(()),
        }
    }
    if emitted != u64::from(end.emitted_tokens) {
        let said = end.emitted_tokens;
        let finding = format!("request {sequence}: its steps emit {emitted} tokens, its end says {said}");
        check.finding_unless_lost(Topic::Step, None, finding);
    }
    Ok(())
}
