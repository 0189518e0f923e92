//! Response bodies of the OpenAI protocol: chat completions, completions, errors.
//!
//! Nothing here reads a clock or makes an id, so that equal runs give equal bytes.

mod chunk;

pub use chunk::{CallPiece, Piece, Pieces};

use serde::Serialize;
use serde_json::{Map, Value};

use super::error::RequestError;
use super::read::json_number;
use super::wire::Endpoint;
use crate::tools::ToolCall;
use crate::types::FinishReason;

/// The answer to one request, before it takes the form of its endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Where the request was sent.
    pub endpoint: Endpoint,
    /// Id of the answer.
    pub id: String,
    /// Seconds since the Unix epoch; 0 where answers are to be reproducible.
    pub created: u64,
    /// Name of the model that answered.
    pub model: String,
    /// The choices, by index.
    pub choices: Vec<Choice>,
    /// What was read and written.
    pub usage: Usage,
}

/// One choice of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The text, without the stop string that ended it.
    pub text: String,
    /// What it calls; empty for an answer in text.
    pub calls: Vec<ToolCall>,
    /// What of it could not be read as a call, in words.
    pub call_problems: Vec<String>,
    /// Why it ended. A failed choice has no place in an answer: the request then is answered by an [`ErrorBody`].
    pub finish: FinishReason,
    /// One entry per emitted token that is part of the text; `None` if the request asked for none.
    pub logprobs: Option<Vec<TokenLogprob>>,
}

/// What is told about one emitted token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The emitted token.
    pub chosen: TextLogprob,
    /// The best tokens at its place, best first.
    pub alternatives: Vec<TextLogprob>,
}

/// A token by its bytes, and its natural-log probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TextLogprob {
    /// The exact bytes, which need not be UTF-8 by themselves.
    pub bytes: Vec<u8>,
    /// Log probability; -infinity is legal.
    pub logprob: f32,
}

/// Tokens that were read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens emitted, over all choices.
    pub completion_tokens: u32,
    /// Their sum.
    pub total_tokens: u32,
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorObject,
}

/// The error of an error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorObject {
    /// In words.
    pub message: String,
    /// `invalid_request_error` or `server_error`.
    pub r#type: &'static str,
    /// The field it is about.
    pub param: Option<String>,
    /// A short name for programs.
    pub code: Option<String>,
}

/// The protocol has no -infinity; this stands for it, as OpenAI documents.
const LEAST_LOGPROB: f32 = -9999.0;

#[derive(Serialize)]
struct Body<C> {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<C>,
    usage: Usage,
}

#[derive(Serialize)]
struct ChatChoice {
    index: usize,
    message: ChatMessage,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct ChatMessage {
    role: &'static str,
    /// Null where the answer is nothing but calls.
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ChatToolCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_call_problems: Vec<String>,
}

#[derive(Serialize)]
struct ChatToolCall {
    id: String,
    r#type: &'static str,
    function: ChatFunction,
}

#[derive(Serialize)]
struct ChatFunction {
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct ChatLogprobs {
    content: Vec<ChatToken>,
    refusal: Option<String>,
}

#[derive(Serialize)]
struct ChatToken {
    #[serde(flatten)]
    chosen: ChatAlternative,
    top_logprobs: Vec<ChatAlternative>,
}

#[derive(Serialize)]
struct ChatAlternative {
    token: String,
    logprob: Value,
    bytes: Vec<u8>,
}

#[derive(Serialize)]
struct TextChoice {
    index: usize,
    text: String,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct TextLogprobs {
    text_offset: Vec<usize>,
    token_logprobs: Vec<Value>,
    tokens: Vec<String>,
    top_logprobs: Vec<Map<String, Value>>,
}

impl Usage {
    /// Tokens read and written.
    pub fn new(prompt_tokens: u32, completion_tokens: u32) -> Self {
        Self { prompt_tokens, completion_tokens, total_tokens: prompt_tokens.saturating_add(completion_tokens) }
    }
}

impl Answer {
    /// The response body, in the form of the answer's endpoint.
    pub fn into_body(self) -> Value {
        let Self { endpoint, id, created, model, choices, usage } = self;
        let choices = choices.into_iter().enumerate();
        let body = match endpoint {
            Endpoint::ChatCompletions => {
                let choices = choices.map(|(index, choice)| chat_choice(&id, index, choice)).collect();
                serde_json::to_value(Body { id, object: "chat.completion", created, model, choices, usage })
            }
            Endpoint::Completions => {
                let choices = choices.map(|(index, choice)| text_choice(index, choice)).collect();
                serde_json::to_value(Body { id, object: "text_completion", created, model, choices, usage })
            }
        };
        body.unwrap_or(Value::Null)
    }
}

impl ErrorBody {
    /// The response to a request that is refused.
    pub fn refused(error: &RequestError) -> Self {
        Self {
            error: ErrorObject {
                message: error.to_string(),
                r#type: "invalid_request_error",
                param: error.fault.field().map(str::to_owned),
                code: None,
            },
        }
    }

    /// The response to a request that failed while it ran; `code` names the kind of failure.
    pub fn failed(message: impl Into<String>, code: &str) -> Self {
        Self {
            error: ErrorObject {
                message: message.into(),
                r#type: "server_error",
                param: None,
                code: Some(code.to_owned()),
            },
        }
    }
}

fn chat_choice(id: &str, index: usize, choice: Choice) -> ChatChoice {
    let call = |(call, number): (ToolCall, usize)| ChatToolCall {
        id: call_id(id, index, number),
        r#type: "function",
        function: ChatFunction { name: call.name, arguments: call.arguments },
    };
    let finish_reason = finish_reason(&choice.finish, !choice.calls.is_empty());
    let tool_calls: Vec<ChatToolCall> = choice.calls.into_iter().zip(0..).map(call).collect();
    ChatChoice {
        index,
        message: ChatMessage {
            role: "assistant",
            content: Some(choice.text).filter(|text| tool_calls.is_empty() || !text.is_empty()),
            refusal: None,
            tool_calls,
            tool_call_problems: choice.call_problems,
        },
        logprobs: choice.logprobs.map(chat_logprobs),
        finish_reason,
    }
}

fn call_id(id: &str, index: usize, number: usize) -> String {
    format!("call_{id}-{index}-{number}")
}

fn finish_reason(reason: &FinishReason, has_calls: bool) -> Option<&'static str> {
    match (reason.protocol_name(), has_calls) {
        (Some("stop"), true) => Some("tool_calls"),
        (reason, _) => reason,
    }
}

fn chat_logprobs(tokens: Vec<TokenLogprob>) -> ChatLogprobs {
    let alternative = |token: TextLogprob| ChatAlternative {
        token: String::from_utf8_lossy(&token.bytes).into_owned(),
        logprob: told(token.logprob),
        bytes: token.bytes,
    };
    let token = |token: TokenLogprob| ChatToken {
        chosen: alternative(token.chosen),
        top_logprobs: token.alternatives.into_iter().map(alternative).collect(),
    };
    ChatLogprobs { content: tokens.into_iter().map(token).collect(), refusal: None }
}

fn text_choice(index: usize, choice: Choice) -> TextChoice {
    TextChoice {
        index,
        text: choice.text,
        logprobs: choice.logprobs.map(|tokens| text_logprobs(tokens, &mut 0)),
        finish_reason: choice.finish.protocol_name(),
    }
}

/// The tokens as columns; `offset` is the number of characters before them, and moves over them.
fn text_logprobs(tokens: Vec<TokenLogprob>, offset: &mut usize) -> TextLogprobs {
    let mut columns = TextLogprobs::default();
    for token in tokens {
        let text = readable(&token.chosen.bytes);
        columns.text_offset.push(*offset);
        *offset += String::from_utf8_lossy(&token.chosen.bytes).chars().count();
        columns.token_logprobs.push(told(token.chosen.logprob));
        columns.tokens.push(text);
        let alternatives = token.alternatives.iter().chain([&token.chosen]);
        columns.top_logprobs.push(alternatives.map(|token| (readable(&token.bytes), told(token.logprob))).collect());
    }
    columns
}

/// A token as a string: its text, or `bytes:\xe2\x96` where it is not UTF-8 by itself, so that different tokens keep
/// different names.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |text, byte| format!("{text}\\x{byte:02x}")),
    }
}

fn told(logprob: f32) -> Value {
    json_number(logprob.max(LEAST_LOGPROB))
}
