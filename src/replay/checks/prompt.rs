//! The chat template and the tokenizer give the recorded prompt.

use serde_json::{Map, Value, json};

use crate::capture::records::Admission;
use crate::model::{ChatPrompt, Model};
use crate::replay::context::Context;
use crate::replay::tools::{Format, format_of, told, tools_of};
use crate::replay::verdict::{Skip, Verdict};
use crate::tools::ToolUse;

/// What the body asks to continue.
enum Input {
    Messages(Vec<Value>, Option<ToolUse>),
    Text(String),
    Tokens(Vec<u32>),
}

/// Renders and tokenizes the request as it was received.
pub(in crate::replay) fn check(context: &Context<'_>, admission: &Admission) -> Verdict {
    let mut verdict = Verdict::new();
    let Some(body) = &admission.body else {
        return Verdict::skipped(Skip::not_recorded("the request's body is not recorded"));
    };
    let Some(model) = context.model() else { return Verdict::skipped(context.preflight.no_model()) };
    let input = match read(body) {
        Ok(input) => input,
        Err(expected) => {
            verdict.mismatch("body", expected, excerpt(body));
            return verdict;
        }
    };
    let endpoint = match &input {
        Input::Messages(..) => "/v1/chat/completions",
        Input::Text(_) | Input::Tokens(_) => "/v1/completions",
    };
    if let Some(found) = &admission.endpoint {
        verdict.equal("endpoint", endpoint, found.as_str());
    }
    // A chat template writes the special tokens itself.
    let add_special = matches!(input, Input::Text(_));
    if context.is_own() {
        let has_tools = matches!(input, Input::Messages(_, Some(_)));
        match has_tools.then(|| format_of(context)).transpose() {
            Ok(format) => verdict.equal("tool_format", format.map(Format::name), admission.tool_format.as_deref()),
            Err(skip) => verdict.skip(skip),
        }
    }
    if let Some(found) = admission.add_special_tokens {
        verdict.equal("add_special_tokens", add_special, found);
    }
    match input {
        Input::Tokens(tokens) => {
            verdict.equal("prompt_text", None, admission.prompt_text.as_deref());
            verdict.equal("prompt_tokens", &tokens, &admission.prompt_tokens);
        }
        Input::Text(text) => compare(&mut verdict, model, admission, &text, add_special),
        Input::Messages(messages, tools) => match format_of(context) {
            Ok(format) => match render(context, model, &messages, tools.as_ref(), format) {
                Ok(text) => compare(&mut verdict, model, admission, &text, add_special),
                Err(error) => verdict.mismatch("prompt_text", format!("none: {error}"), found_text(admission)),
            },
            Err(skip) => verdict.skip(skip),
        },
    }
    verdict
}

fn render(
    context: &Context<'_>,
    model: &Model,
    messages: &[Value],
    tools: Option<&ToolUse>,
    format: Format,
) -> Result<String, String> {
    let template = model.chat_template.as_ref().ok_or("the model has no chat template")?;
    // Templates see the time of the header.
    let unix_seconds = context.recording.header().epoch_ns / 1_000_000_000;
    let told = told(messages, tools, format, template.source());
    let (messages, tools) = (told.messages.as_slice(), told.tools.as_ref());
    let prompt = ChatPrompt { messages, tools, add_generation_prompt: true, unix_seconds };
    template.render(prompt).map_err(|error| error.to_string())
}

fn compare(verdict: &mut Verdict, model: &Model, admission: &Admission, text: &str, add_special: bool) {
    match &admission.prompt_text {
        Some(found) => {
            let (expected, found) = parting(text, found);
            verdict.holds(expected == found, "prompt_text", expected, found);
        }
        None => verdict.skip(Skip::not_recorded("the prompt's text is not recorded")),
    }
    match model.tokenizer.encode(text, add_special) {
        Ok(tokens) => {
            let tokens: Vec<u32> = tokens.iter().map(|token| token.0).collect();
            let (expected, found) = parting_tokens(&tokens, &admission.prompt_tokens);
            verdict.holds(tokens == admission.prompt_tokens, "prompt_tokens", expected, found);
        }
        Err(error) => verdict.mismatch("prompt_tokens", format!("none: {error}"), "some".to_owned()),
    }
}

/// Reads what is to be continued. The error says what is expected of a body.
fn read(body: &str) -> Result<Input, String> {
    let body: Map<String, Value> = serde_json::from_str(body).map_err(|error| format!("a JSON object ({error})"))?;
    let given = |name: &str| body.get(name).filter(|value| !value.is_null());
    match (given("messages"), given("prompt")) {
        (Some(Value::Array(messages)), None) => messages
            .iter()
            .map(message)
            .collect::<Option<_>>()
            .map(|messages| Input::Messages(messages, tools_of(&body)))
            .ok_or("messages with text".to_owned()),
        (None, Some(Value::String(text))) => Ok(Input::Text(text.clone())),
        (None, Some(Value::Array(tokens))) => {
            let token = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
            tokens.iter().map(token).collect::<Option<_>>().map(Input::Tokens).ok_or("token ids in `prompt`".to_owned())
        }
        _ => Err("either `messages` or `prompt`".to_owned()),
    }
}

/// A message as templates read it: role and text, and what belongs to calls.
fn message(message: &Value) -> Option<Value> {
    let role = match message["role"].as_str()? {
        "developer" => "system",
        role => role,
    };
    let calls = message["tool_calls"].as_array().map(|calls| calls.iter().map(call).collect::<Option<Vec<_>>>());
    let content = match &message["content"] {
        Value::Null if calls.is_some() => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| part["text"].as_str()).collect::<Option<Vec<_>>>()?.join("\n"),
        _ => return None,
    };
    let mut told = Map::from_iter([("role".to_owned(), json!(role)), ("content".to_owned(), json!(content))]);
    for name in ["name", "tool_call_id"] {
        told.extend(message[name].as_str().map(|value| (name.to_owned(), json!(value))));
    }
    if let Some(calls) = calls {
        told.insert("tool_calls".to_owned(), json!(calls?));
    }
    Some(Value::Object(told))
}

/// A call as templates read it: its arguments are an object.
fn call(call: &Value) -> Option<Value> {
    let function = &call["function"];
    let arguments: Value = serde_json::from_str(function["arguments"].as_str()?).ok()?;
    Some(json!({"id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": arguments}}))
}

/// Where two texts part, with some text around it; twice the same if they do not.
fn parting(expected: &str, found: &str) -> (String, String) {
    if expected == found {
        return (String::new(), String::new());
    }
    let same = expected.bytes().zip(found.bytes()).take_while(|(a, b)| a == b).count();
    let from = |text: &str| {
        let start = (0..=same.min(text.len())).rev().find(|&byte| text.is_char_boundary(byte)).unwrap_or(0);
        format!("at byte {start}: {}", excerpt(&text[start..]))
    };
    (from(expected), from(found))
}

fn parting_tokens(expected: &[u32], found: &[u32]) -> (String, String) {
    let same = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let from = |tokens: &[u32]| {
        let next: Vec<String> = tokens.iter().skip(same).take(4).map(u32::to_string).collect();
        format!("{} tokens, at {same}: [{}]", tokens.len(), next.join(", "))
    };
    (from(expected), from(found))
}

fn found_text(admission: &Admission) -> String {
    admission.prompt_text.as_deref().map_or("none".to_owned(), excerpt)
}

/// The beginning of a text, quoted.
fn excerpt(text: &str) -> String {
    const CHARACTERS: usize = 40;
    let beginning: String = text.chars().take(CHARACTERS).collect();
    let more = if beginning.len() < text.len() { "..." } else { "" };
    format!("{beginning:?}{more}")
}
