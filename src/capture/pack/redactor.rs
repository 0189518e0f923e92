//! Records without prompts, without outputs, or without either: every field of every record is looked at.

use std::collections::HashMap;

use serde_json::Value;

use super::super::error::CaptureError;
use super::super::reader::CaptureReader;
use super::super::records::{
    Admission, Completion, EventRecord, Header, LossRecord, Refusal, RequestRecord, ResolvedField, RowRecord,
    StepRecord, StopReason,
};
use super::super::topic::{Record, Topic};
use super::header::{self, is_name, is_word};
use super::salt::Salt;
use super::{PackError, Redact};

/// What stands in the place of a text that has to be there.
const REDACTED: &str = "redacted";

/// Tokens below this are hashed where the header does not say how many there are.
const UNKNOWN_VOCABULARY: u32 = 1 << 31;

/// Takes texts out of records.
pub(super) struct Redactor {
    what: Redact,
    salt: Salt,
    vocabulary: u32,
    /// They say no more than that the sequence ended, which is told anyway.
    end_tokens: Vec<u32>,
    /// Tokens of each request's prompt.
    prompts: HashMap<u64, u32>,
}

/// The sequence that a token belongs to, and what may be told of it.
struct Sequence<'a> {
    redactor: &'a Redactor,
    request: u64,
    choice: u32,
    prompt: u32,
    /// Position of the first token that the step emitted.
    emits_from: u32,
    /// What the step emitted, before it was hashed.
    emitted: Vec<u32>,
}

impl Redactor {
    /// For a capture; what is taken out of its header is.
    pub(super) fn new(what: Redact, reader: &CaptureReader, header: &mut Header) -> Result<Self, PackError> {
        let salt = Salt::random()?;
        let model = header.model.as_ref();
        let vocabulary = model.and_then(|model| model.vocabulary_size).unwrap_or(UNKNOWN_VOCABULARY);
        let end_tokens = model.and_then(|model| model.end_tokens.clone()).unwrap_or_default();
        let mut prompts = HashMap::new();
        for request in reader.requests() {
            match reader.request(request) {
                Ok(records) => {
                    let length = records.admission.map(|admission| admission.prompt_tokens.len() as u32);
                    prompts.extend(length.map(|length| (request.0, length)));
                }
                Err(error @ CaptureError::Io { .. }) => return Err(error.into()),
                // The pass over all messages tells of it.
                Err(_) => {}
            }
        }
        header::redact(what, &salt, header);
        Ok(Self { what, salt, vocabulary, end_tokens, prompts })
    }

    /// The record as it may be told; `None` of one that may not.
    pub(super) fn redacted(&self, record: Record) -> Option<Record> {
        Some(match record {
            // Payloads and sketches are what the model makes of the text, and masks what a schema allows.
            Record::Header(_) | Record::Columns(_) | Record::Mask(_) | Record::Logits(_) | Record::Sketch(_) => {
                return None;
            }
            Record::Request(mut record) => {
                match record.as_mut() {
                    RequestRecord::Admitted(admission) => self.admission(admission),
                    RequestRecord::Refused(refusal) => self.refusal(refusal),
                    RequestRecord::Finished(completion) => self.completion(completion),
                }
                Record::Request(record)
            }
            Record::Step(mut step) => {
                self.step(&mut step);
                Record::Step(step)
            }
            Record::Event(event) => Record::Event(EventRecord {
                kind: if is_word(&event.kind) { event.kind } else { REDACTED.to_owned() },
                message: REDACTED.to_owned(),
                ..event
            }),
            Record::Loss(loss) => {
                let topic = Topic::from_name(&loss.channel);
                // What is not there at all cannot be lost.
                if topic.is_some_and(|topic| topic.is_payload() || topic == Topic::Mask) {
                    return None;
                }
                let channel = topic.map_or("*", Topic::name).to_owned();
                Record::Loss(LossRecord { channel, reason: REDACTED.to_owned(), ..loss })
            }
        })
    }

    fn admission(&self, admission: &mut Admission) {
        if !self.what.prompts() {
            return;
        }
        self.client_id(&mut admission.client_id);
        admission.endpoint.take_if(|path| !path.split('/').all(is_word));
        admission.body = None;
        admission.prompt_text = None;
        admission.prompt_tokens.fill(0);
        if let Some(params) = &mut admission.params {
            params.retain(is_number);
        }
        if let Some(owner) = &mut admission.owner {
            let number = owner.strip_prefix("request ");
            // An owner that is the request itself tells nothing.
            if number != Some(admission.request.to_string().as_str()) {
                *owner = self.salt.name("owner", owner);
            }
        }
        admission.server_overrides = None;
        admission.generation_config = None;
        admission.warnings.clear();
        admission.constraint = None;
        admission.tool_format.take_if(|format| !is_word(format));
    }

    fn refusal(&self, refusal: &mut Refusal) {
        if !self.what.prompts() {
            return;
        }
        self.client_id(&mut refusal.client_id);
        refusal.body = None;
        refusal.error = REDACTED.to_owned();
    }

    fn completion(&self, completion: &mut Completion) {
        if let Some(stop) = &mut completion.stop {
            self.stop(stop);
        }
        if self.what.outputs() {
            completion.text = None;
            completion.tool_calls = None;
        }
    }

    fn client_id(&self, id: &mut Option<String>) {
        if let Some(id) = id {
            *id = self.salt.name("id", id);
        }
    }

    fn stop(&self, stop: &mut StopReason) {
        match stop {
            StopReason::EndToken(token) if self.end_tokens.contains(token) => {}
            StopReason::EndToken(token) | StopReason::StopToken(token) if self.what.outputs() => *token = 0,
            StopReason::EndToken(_) | StopReason::StopToken(_) => {}
            StopReason::StopString(text) | StopReason::Failed(text) => *text = REDACTED.to_owned(),
            StopReason::MaxTokens | StopReason::ContextFull | StopReason::GrammarEnd | StopReason::Cancelled => {}
        }
    }

    fn step(&self, step: &mut StepRecord) {
        let prompt = self.prompts.get(&step.request).copied();
        // A step of a request that is not known has no prompt that could be told from its output.
        let prompt = prompt.unwrap_or(if step.first_position == 0 { u32::MAX } else { 0 });
        let reads_prompt = step.first_position < prompt;
        let emits_from = if reads_prompt { prompt } else { step.first_position.saturating_add(1) };
        let emitted = step.emitted.clone();
        let sequence =
            Sequence { redactor: self, request: step.request, choice: step.choice, prompt, emits_from, emitted };
        let positions = || (0_u32..).map(|index| emits_from.saturating_add(index));
        for (token, position) in step.emitted.iter_mut().zip(positions()) {
            *token = sequence.hidden(position, *token);
        }
        for (draft, position) in step.drafts.iter_mut().zip(positions()) {
            if let Ok(token) = u32::try_from(*draft) {
                *draft = sequence.hidden(position, token).into();
            }
        }
        for (token, position) in step.drafts_raw.iter_mut().flatten().zip(positions()) {
            *token = sequence.hidden(position, *token);
        }
        for (token, index) in step.input_tokens.iter_mut().flatten().zip(0_u32..) {
            *token = sequence.hidden(step.first_position.saturating_add(index), *token);
        }
        for row in &mut step.rows {
            self.row(row, &sequence);
        }
        if let Some(stop) = &mut step.stop {
            self.stop(stop);
        }
    }

    fn row(&self, row: &mut RowRecord, sequence: &Sequence<'_>) {
        let position = row.position.saturating_add(1);
        let hide = |token: &mut u32| *token = sequence.hidden(position, *token);
        row.token.iter_mut().for_each(hide);
        row.forced.iter_mut().for_each(|forced| hide(&mut forced.token));
        if let Some(statistics) = &mut row.statistics {
            statistics.argmax.iter_mut().for_each(hide);
            statistics.checksum = self.salt.number("checksum", statistics.checksum);
        }
        // Which rows have the same mask would tell of the schema; that a row's two masks are one does not.
        let place = [&sequence.request.to_le_bytes()[..], &sequence.choice.to_le_bytes(), &row.position.to_le_bytes()];
        for hash in [&mut row.scheduler_mask, &mut row.applied_mask].into_iter().flatten() {
            *hash = self.salt.hash("mask", &[place[0], place[1], place[2], hash.as_slice()]);
        }
    }
}

impl Sequence<'_> {
    /// What stands for a token that was read, drafted, emitted or best at a position.
    fn hidden(&self, position: u32, token: u32) -> u32 {
        let redactor = self.redactor;
        if position < self.prompt {
            return if redactor.what.prompts() { 0 } else { token };
        }
        let hashed = |token| {
            let place = (self.request, self.choice, position);
            redactor.salt.token(place, token, redactor.vocabulary, &redactor.end_tokens)
        };
        if redactor.what.outputs() {
            return hashed(token);
        }
        // Drafts are often copies of the prompt: only what was emitted is an output.
        let index = position.checked_sub(self.emits_from).and_then(|index| usize::try_from(index).ok());
        match index.map(|index| self.emitted.get(index)) {
            // Read here, emitted by a step before.
            None => token,
            Some(Some(emitted)) if *emitted == token => token,
            // The hash of another token must not be the one that came.
            Some(Some(emitted)) if hashed(token) == *emitted => hashed(*emitted),
            Some(_) => hashed(token),
        }
    }
}

/// Whether a parameter holds no text and no tokens.
fn is_number(field: &ResolvedField) -> bool {
    let is_empty = match serde_json::from_str::<Value>(&field.value) {
        Ok(Value::Null | Value::Bool(_) | Value::Number(_)) => true,
        Ok(Value::Array(list)) => list.is_empty(),
        Ok(Value::Object(object)) => object.is_empty(),
        Ok(Value::String(text)) => text.is_empty(),
        Err(_) => false,
    };
    is_empty && is_name(&field.name)
}
