//! Checks between the request records and the steps.

use std::collections::BTreeSet;

use super::super::error::CaptureError;
use super::super::reader::Location;
use super::super::records::{Admission, Completion, RequestRecord};
use super::super::topic::Topic;
use super::Check;
use crate::types::{ChoiceIndex, RequestId, SequenceId};

/// The records that hold of one request.
#[derive(Default)]
struct Found {
    admission: Option<Admission>,
    refusal: Option<Location>,
    completions: Vec<(Location, Completion)>,
}

pub(super) fn check_requests(check: &mut Check<'_>) -> Result<(), CaptureError> {
    let reader = check.reader;
    let stepping: BTreeSet<RequestId> = reader.sequences().map(|sequence| sequence.request).collect();
    let requests: BTreeSet<RequestId> = reader.requests().chain(stepping.iter().copied()).collect();
    for request in requests {
        let mut found = Found::default();
        for location in reader.request_locations(request) {
            match reader.read(location) {
                Ok(RequestRecord::Admitted(admission)) => found.admission = Some(admission),
                Ok(RequestRecord::Refused(_)) => found.refusal = Some(location),
                Ok(RequestRecord::Finished(completion)) => found.completions.push((location, completion)),
                Err(error @ CaptureError::Io { .. }) => return Err(error),
                // The pass over all messages tells of it.
                Err(_) => {}
            }
        }
        check_request(check, request, stepping.contains(&request), &found)?;
    }
    Ok(())
}

fn check_request(
    check: &mut Check<'_>,
    request: RequestId,
    has_steps: bool,
    found: &Found,
) -> Result<(), CaptureError> {
    let Found { admission, refusal, completions } = found;
    let ran = has_steps || !completions.is_empty();
    if let Some(refusal) = refusal {
        let contradicting = match admission {
            Some(_) => Some("admitted"),
            None if ran => Some("run"),
            None => None,
        };
        // A refused request replays as nothing, and would hide what ran.
        let Some(what) = contradicting else { return Ok(()) };
        check.finding_about(*refusal, format!("request {request}: both refused and {what}"));
    }
    for (location, end) in completions {
        let sequence = SequenceId { request, choice: ChoiceIndex(end.choice) };
        check_completion(check, sequence, *location, end)?;
    }
    let Some(admission) = admission else {
        let finding = format!("request {request}: there is no record of its admission");
        check.finding_unless_lost(Topic::Request, None, finding);
        return Ok(());
    };
    let choices = admission.choices;
    let ended = completions.iter().filter(|(_, end)| end.choice < choices).count() as u32;
    if ended < choices {
        let unended = choices - ended;
        check.missing(format!("request {request}: {unended} of {choices} choices have no end"));
    }
    for (location, end) in completions.iter().filter(|(_, end)| end.choice >= choices) {
        let finding = format!("request {request}: choice {} ended, but only {choices} were admitted", end.choice);
        check.finding_about(*location, finding);
    }
    Ok(())
}

fn check_completion(
    check: &mut Check<'_>,
    sequence: SequenceId,
    location: Location,
    end: &Completion,
) -> Result<(), CaptureError> {
    let mut emitted = 0_u64;
    for step in check.reader.steps(sequence) {
        match step {
            Ok(step) => emitted += step.emitted.len() as u64,
            Err(error @ CaptureError::Io { .. }) => return Err(error),
            // Told of with the steps.
            Err(_) => return Ok(()),
        }
    }
    let said = u64::from(end.emitted_tokens);
    let finding = format!("request {sequence}: its steps emit {emitted} tokens, its end says {said}");
    if emitted > said {
        // No loss makes the steps more.
        check.finding_about(location, finding);
    } else if emitted < said {
        check.finding_unless_lost(Topic::Step, None, finding);
    }
    Ok(())
}
