//! One request body of the OpenAI protocol (chat completions, completions), with vLLM's extra sampling fields.

use serde_json::Value;

use super::error::{RequestFault, Warning};
use super::fields::RequestFields;
use super::json::Object;
use super::messages;
use super::output::OutputConstraint;
use super::streaming::Streaming;
use super::{known, output, read, streaming, tools};
use crate::tools::{ToolChoice, ToolUse};
use crate::types::TokenId;

/// What a body is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
}

/// A request as the client sent it: nothing is filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The model that the client named. One model is loaded, so that this decides nothing.
    pub model: Option<String>,
    /// What to generate from.
    pub input: Input,
    /// How to sample: the client's layer of the resolution.
    pub fields: RequestFields,
    /// What the output has to look like; `None` for free text.
    pub constraint: Option<OutputConstraint>,
    /// What the model may call.
    pub tools: Option<ToolUse>,
    /// How the answer comes in pieces; `None` where it comes as a whole.
    pub stream: Option<Streaming>,
    /// What was accepted but is likely not what the client meant.
    pub warnings: Vec<Warning>,
}

/// What to generate from.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Messages for the chat template, at least one: objects with `role` and `content` (a string), and `name` where
    /// the client gave it.
    Messages(Vec<Value>),
    /// A text for the tokenizer.
    Text(String),
    /// Tokens, at least one.
    Tokens(Vec<TokenId>),
}

impl Endpoint {
    /// Path under the server's address.
    pub fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }

    /// The field that holds what to generate from.
    pub fn prompt_field(self) -> &'static str {
        match self {
            Self::ChatCompletions => "messages",
            Self::Completions => "prompt",
        }
    }

    /// The endpoint at `path`.
    pub fn of_path(path: &str) -> Option<Self> {
        [Self::ChatCompletions, Self::Completions].into_iter().find(|endpoint| endpoint.path() == path)
    }
}

impl Request {
    /// Reads a body. `endpoint` is where it was sent; `None` leaves it to the body (`messages` or `prompt`).
    ///
    /// # Errors
    /// If the body is no JSON object, has an unknown field, or a field has a value that is not accepted or cannot be
    /// honoured. Token ids are checked against a vocabulary later, by [`Request::resolve`].
    pub fn parse(body: &str, endpoint: Option<Endpoint>) -> Result<Self, RequestFault> {
        let object = Object::parse(body)?;
        let endpoint = match endpoint {
            Some(endpoint) => endpoint,
            None => endpoint_of(&object)?,
        };
        let mut warnings = Vec::new();
        for member in object.members() {
            known::check(member, endpoint, &mut warnings)?;
        }
        let input = match endpoint {
            Endpoint::ChatCompletions => Input::Messages(messages::read(object.given("messages"), &mut warnings)?),
            Endpoint::Completions => prompt(object.given("prompt"))?,
        };
        let model = object.given("model").map(|model| read::string("model", model)).transpose()?.map(str::to_owned);
        let fields = RequestFields::read(|name| object.given(name), Some(endpoint), &mut warnings)?;
        let constraint = output::constraint(|name| object.given(name))?;
        let tools = tools::tools(|name| object.given(name))?;
        let stream = streaming::streaming(|name| object.given(name))?;
        if let (Some(output), Some(ToolUse { choice: ToolChoice::Required | ToolChoice::Named(_), .. })) =
            (&constraint, &tools)
        {
            return Err(RequestFault::Conflict {
                first: output.field.to_owned(),
                second: "tool_choice".to_owned(),
                why: "an output that has to be a call has no other form; give one of them".to_owned(),
            });
        }
        Ok(Self { model, input, fields, constraint, tools, stream, warnings })
    }

    /// Where the request was sent.
    pub fn endpoint(&self) -> Endpoint {
        match self.input {
            Input::Messages(_) => Endpoint::ChatCompletions,
            Input::Text(_) | Input::Tokens(_) => Endpoint::Completions,
        }
    }
}

fn endpoint_of(object: &Object<'_>) -> Result<Endpoint, RequestFault> {
    match (object.given("messages"), object.given("prompt")) {
        (Some(_), None) => Ok(Endpoint::ChatCompletions),
        (None, Some(_)) => Ok(Endpoint::Completions),
        (Some(_), Some(_)) => Err(RequestFault::Conflict {
            first: "messages".to_owned(),
            second: "prompt".to_owned(),
            why: "chat completions take `messages`, completions take `prompt`; give one of them".to_owned(),
        }),
        // A typo in another field is told before what is missing: it may be the typo that makes it missing.
        (None, None) => {
            object.members().iter().try_for_each(|member| known::check_name(&member.name))?;
            Err(RequestFault::Missing {
                field: "messages".to_owned(),
                accepted: "`messages` (chat completions) or `prompt` (completions)".to_owned(),
            })
        }
    }
}

fn prompt(value: Option<&Value>) -> Result<Input, RequestFault> {
    let accepted = "a string, or an array of token ids that is not empty";
    match value {
        None => Err(RequestFault::Missing { field: "prompt".to_owned(), accepted: accepted.to_owned() }),
        Some(Value::String(text)) => Ok(Input::Text(text.clone())),
        Some(Value::Array(items)) if items.first().is_some_and(|item| item.is_string() || item.is_array()) => {
            let why = "one prompt per request; put each prompt into a line of its own";
            Err(RequestFault::NotSupported { field: "prompt".to_owned(), why: why.to_owned() })
        }
        Some(value @ Value::Array(items)) if !items.is_empty() => Ok(Input::Tokens(read::token_ids("prompt", value)?)),
        Some(value) => Err(RequestFault::value("prompt", accepted, read::found(value))),
    }
}
