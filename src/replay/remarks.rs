//! What is worth a look and no finding: it comes of what a model says as well as of faults.

use std::collections::HashMap;

use serde_json::Value;

use super::context::Sequence;
use super::report::Report;
use super::verdict::quoted;
use crate::forensics::repetition::{self, Call, Fingerprint};

/// Remarks that a report keeps; the rest are counted.
pub const REMARKS_KEPT: usize = 1_000;

/// Something about one answer that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Name of the capture, as given.
    pub capture: String,
    /// The request.
    pub request: u64,
    /// The client's id for it.
    pub client_id: Option<String>,
    /// The choice.
    pub choice: u32,
    /// What it is.
    pub words: String,
}

/// An answer that was drawn freely with the engine's own seed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FreeDraw {
    fingerprint: Fingerprint,
    request: u64,
    client_id: Option<String>,
    choice: u32,
    tokens: usize,
}

/// Enters what the answer of one choice shows: a loop, the same call again.
pub(super) fn enter(sequence: &Sequence<'_>, report: &mut Report) {
    let (admission, recorded) = (sequence.admission, sequence.recorded);
    let tokens = recorded.emitted();
    let mut remark = |words: String| {
        report.remark(Remark {
            capture: sequence.context.name.to_owned(),
            request: admission.request,
            client_id: admission.client_id.clone().map(quoted),
            choice: recorded.choice,
            words: quoted(words),
        });
    };
    if let Some(period) = repetition::period(&tokens) {
        let times = repetition::times(&tokens, period);
        remark(format!("the answer ends with the same {period} tokens {times} times over"));
    }
    let answer: Vec<Call> =
        recorded.completions.iter().flat_map(|completion| Call::told(completion.tool_calls.as_deref())).collect();
    if let Some(call) = repetition::call_again(&last_turn(admission.body.as_deref()), &answer) {
        remark(format!("the same call again: `{}` with {}", call.name, call.arguments));
    }
    // Where prompts were left out, other prompts look the same.
    let prompt_is_known = !sequence.context.is_redacted("prompt_tokens");
    if let Some(fingerprint) = Fingerprint::of_free_draw(admission, &tokens).filter(|_| prompt_is_known) {
        report.free_draws.push(FreeDraw {
            fingerprint,
            request: admission.request,
            client_id: admission.client_id.clone().map(quoted),
            choice: recorded.choice,
            tokens: tokens.len(),
        });
    }
}

/// Enters which answers are the same, though nothing says that they should be: a seed that was to vary may not have.
pub(super) fn enter_alike(capture: &str, report: &mut Report) {
    let mut first: HashMap<Fingerprint, (u64, u32)> = HashMap::new();
    for draw in std::mem::take(&mut report.free_draws) {
        let (request, choice) = *first.entry(draw.fingerprint).or_insert((draw.request, draw.choice));
        if (request, choice) != (draw.request, draw.choice) {
            let tokens = draw.tokens;
            report.remark(Remark {
                capture: capture.to_owned(),
                request: draw.request,
                client_id: draw.client_id,
                choice: draw.choice,
                words: format!(
                    "drew the very {tokens} tokens of request {request}, choice {choice}, after the same prompt, and no client gave a seed"
                ),
            });
        }
    }
}

/// The calls of the assistant's last turn, by the body of the request.
fn last_turn(body: Option<&str>) -> Vec<Call> {
    let Some(body) = body.and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return Vec::new() };
    let messages = body.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let assistant = messages.iter().rfind(|message| message.get("role").and_then(Value::as_str) == Some("assistant"));
    let calls = assistant.and_then(|message| message.get("tool_calls")?.as_array());
    calls.into_iter().flatten().filter_map(|call| Call::read(call.get("function")?)).collect()
}
