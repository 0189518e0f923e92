//! Answers in pieces: the chunks of a stream.

use serde::Serialize;
use serde_json::{Value, json};

use super::{TokenLogprob, Usage, call_id, chat_logprobs, finish_reason, text_logprobs};
use crate::params::{Endpoint, Streaming};
use crate::types::FinishReason;

/// What a piece of an answer adds to one of its choices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// Text.
    pub text: String,
    /// Calls that begin or go on.
    pub calls: Vec<CallPiece>,
    /// Tokens of the text, if the request asked for them.
    pub logprobs: Vec<TokenLogprob>,
    /// Why the choice ended, in its last piece; and whether it has calls.
    pub finish: Option<(FinishReason, bool)>,
    /// What of it could not be read as a call, in words; in its last piece.
    pub call_problems: Vec<String>,
}

/// What a piece adds to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPiece {
    /// Number of the call in its choice, from 0.
    pub number: usize,
    /// Its name, where it begins.
    pub name: Option<String>,
    /// More of its arguments.
    pub arguments: String,
}

/// Writes the chunks of one answer.
#[derive(Clone, Debug)]
pub struct Pieces {
    endpoint: Endpoint,
    id: String,
    created: u64,
    model: String,
    streaming: Streaming,
    wants_logprobs: bool,
    /// Characters of the tokens that were told, per choice.
    offsets: Vec<usize>,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Value>,
    /// Null in all chunks but the last where it is asked for, and absent where not.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

impl Piece {
    /// Whether it adds nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty() && self.logprobs.is_empty() && self.finish.is_none()
    }
}

impl Pieces {
    /// The chunks of the answer with that id, which has so many choices.
    pub fn new(
        endpoint: Endpoint,
        id: String,
        created: u64,
        model: String,
        streaming: Streaming,
        choices: usize,
        wants_logprobs: bool,
    ) -> Self {
        Self { endpoint, id, created, model, streaming, wants_logprobs, offsets: vec![0; choices] }
    }

    /// The chunk that begins a choice; completions have none.
    pub fn begin(&self, index: usize) -> Option<String> {
        let delta = json!({"role": "assistant", "content": ""});
        let choice = json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null});
        (self.endpoint == Endpoint::ChatCompletions).then(|| self.chunk(vec![choice], Value::Null))
    }

    /// The chunks of a piece of choice `index`: text and calls in one, the end in one of its own.
    pub fn piece(&mut self, index: usize, piece: Piece) -> Vec<String> {
        let Piece { text, calls, logprobs, finish, call_problems } = piece;
        let mut chunks = Vec::new();
        if !(text.is_empty() && calls.is_empty() && logprobs.is_empty()) {
            let logprobs = (self.wants_logprobs && !logprobs.is_empty()).then_some(logprobs);
            let choice = match self.endpoint {
                Endpoint::ChatCompletions => {
                    let calls: Vec<Value> = calls.iter().map(|call| self.call(index, call)).collect();
                    let mut delta = json!({});
                    if !text.is_empty() {
                        delta["content"] = json!(text);
                    }
                    if !calls.is_empty() {
                        delta["tool_calls"] = json!(calls);
                    }
                    let logprobs = logprobs.map(chat_logprobs);
                    json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": null})
                }
                Endpoint::Completions => {
                    let mut nowhere = 0;
                    let offset = self.offsets.get_mut(index).unwrap_or(&mut nowhere);
                    let logprobs = logprobs.map(|tokens| text_logprobs(tokens, offset));
                    json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": null})
                }
            };
            chunks.push(self.chunk(vec![choice], Value::Null));
        }
        if let Some((reason, has_calls)) = finish {
            let choice = match self.endpoint {
                Endpoint::ChatCompletions => {
                    let delta =
                        if call_problems.is_empty() { json!({}) } else { json!({"tool_call_problems": call_problems}) };
                    let finish_reason = finish_reason(&reason, has_calls);
                    json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": finish_reason})
                }
                Endpoint::Completions => {
                    json!({"index": index, "text": "", "logprobs": null, "finish_reason": reason.protocol_name()})
                }
            };
            chunks.push(self.chunk(vec![choice], Value::Null));
        }
        chunks
    }

    /// The chunk after the last choice's end; `None` where usage is not asked for.
    pub fn usage(&self, usage: Usage) -> Option<String> {
        self.streaming.include_usage.then(|| self.chunk(Vec::new(), json!(usage)))
    }

    fn call(&self, index: usize, call: &CallPiece) -> Value {
        let CallPiece { number, name, arguments } = call;
        match name {
            Some(name) => json!({
                "index": number,
                "id": call_id(&self.id, index, *number),
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }),
            None => json!({"index": number, "function": {"arguments": arguments}}),
        }
    }

    fn chunk(&self, choices: Vec<Value>, usage: Value) -> String {
        let object = match self.endpoint {
            Endpoint::ChatCompletions => "chat.completion.chunk",
            Endpoint::Completions => "text_completion",
        };
        let usage = self.streaming.include_usage.then_some(usage);
        let Self { id, created, model, .. } = self;
        json!(Chunk { id, object, created: *created, model, choices, usage }).to_string()
    }
}
