//! The outcomes of the choices of a capture.

use serde_json::{Map, Value};

use super::{Asked, CallOutcome, ExpectedCalls, NoOutcome};
use crate::capture::records::{Admission, Header, StopReason};
use crate::capture::{CaptureError, CaptureReader, RequestRecords};
use crate::forensics::repetition::Call;
use crate::model::Tokenizer;
use crate::replay::CallFormat;
use crate::replay::redaction::is_redacted;
use crate::replay::tools::{begins, tools_of, without_end};
use crate::types::SequenceId;

/// What became of the calls of one choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceOutcome {
    /// The choice.
    pub sequence: SequenceId,
    /// The client's id for its request (`custom_id`); `None` where it has none or it cannot be read.
    pub client_id: Option<String>,
    /// The outcome, or why there is none ([`outcome_of_choice`]).
    pub outcome: Result<CallOutcome, NoOutcome>,
}

/// The outcomes of all choices that have steps, in order. `tokenizer` is that of the recorded model; `expected` has the calls
/// that should come, as far as they are known.
///
/// # Errors
/// If the file cannot be read. Of what is damaged or missing in it, the outcome is not known.
pub fn outcomes(
    reader: &CaptureReader,
    tokenizer: &Tokenizer,
    expected: &ExpectedCalls,
) -> Result<Vec<ChoiceOutcome>, CaptureError> {
    reader.sequences().map(|sequence| outcome_of_choice(reader, sequence, tokenizer, expected)).collect()
}

/// The outcome of one choice.
///
/// There is nothing to judge of a request without tools, one that may not call or need not and does not, and a choice that failed,
/// was cancelled or ended in its reasoning. It is not known where [`Asked::outcome`] cannot tell, and where the capture does
/// not say enough: the request's body, how its calls are written, that the choice ended, and each of its tokens.
///
/// # Errors
/// If the file cannot be read.
pub fn outcome_of_choice(
    reader: &CaptureReader,
    sequence: SequenceId,
    tokenizer: &Tokenizer,
    expected: &ExpectedCalls,
) -> Result<ChoiceOutcome, CaptureError> {
    let Some(records) = known(reader.request(sequence.request))? else {
        return Ok(ChoiceOutcome { sequence, client_id: None, outcome: Err(NoOutcome::NotKnown) });
    };
    let client_id = records.admission.as_ref().and_then(|admission| admission.client_id.clone());
    let expected = client_id.as_ref().and_then(|id| expected.get(id));
    let outcome = outcome(reader, &records, sequence, tokenizer, expected)?;
    Ok(ChoiceOutcome { sequence, client_id, outcome })
}

/// What is damaged is not known; only a file that cannot be read is an error.
fn known<T>(read: Result<T, CaptureError>) -> Result<Option<T>, CaptureError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error @ CaptureError::Io { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

fn outcome(
    reader: &CaptureReader,
    records: &RequestRecords,
    sequence: SequenceId,
    tokenizer: &Tokenizer,
    expected: Option<&[Call]>,
) -> Result<Result<CallOutcome, NoOutcome>, CaptureError> {
    let (nothing, not_known) = (Ok(Err(NoOutcome::NothingToJudge)), Ok(Err(NoOutcome::NotKnown)));
    if ["body", "emitted"].into_iter().any(|field| is_redacted(reader.header(), field)) {
        return not_known;
    }
    let Some(admission) = &records.admission else { return not_known };
    let Some(body) = body(admission) else { return not_known };
    let Some(tools) = tools_of(&body) else { return nothing };
    let completion = records.completions.iter().find(|completion| completion.choice == sequence.choice.0);
    let Some(completion) = completion else { return not_known };
    if matches!(completion.stop, Some(StopReason::Failed(_) | StopReason::Cancelled)) {
        return nothing;
    }
    let Some(format) = format(admission, reader.header()) else { return not_known };
    let Some(emitted) = emitted(reader, sequence)? else { return not_known };
    if emitted.len() != completion.emitted_tokens as usize {
        return not_known;
    }
    let recorded = reader.header().model.as_ref().and_then(|model| model.end_tokens.clone());
    let end_tokens = recorded.unwrap_or_else(|| tokenizer.end_tokens().iter().map(|token| token.0).collect());
    let told = without_end(&emitted, &end_tokens, completion.stop.as_ref());
    let Some(begins) = begins(admission, &emitted) else { return nothing };
    Ok(Asked { tools: &tools, format, expected }.outcome(told.get(begins..).unwrap_or_default(), tokenizer))
}

fn body(admission: &Admission) -> Option<Map<String, Value>> {
    serde_json::from_str(admission.body.as_deref()?).ok()
}

/// How the calls of a request are written: as it says itself, or else as the engine's setting does.
fn format(admission: &Admission, header: &Header) -> Option<CallFormat> {
    let setting = || {
        let setting = header.configuration.iter().find(|setting| setting.name == "tool-format")?;
        serde_json::from_str(&setting.value).ok()
    };
    CallFormat::named(&admission.tool_format.clone().or_else(setting)?)
}

/// Every token that a choice emitted; `None` if some cannot be read.
fn emitted(reader: &CaptureReader, sequence: SequenceId) -> Result<Option<Vec<u32>>, CaptureError> {
    let mut emitted = Vec::new();
    for step in reader.steps(sequence) {
        match known(step)? {
            Some(step) => emitted.extend(step.emitted),
            None => return Ok(None),
        }
    }
    Ok(Some(emitted))
}
