//! Request files: one request per line, as a plain body or as an OpenAI Batch input line.

use std::collections::HashMap;

use super::error::{RequestError, RequestFault};
use super::json::Object;
use super::known;
use super::read;
use super::wire::{Endpoint, Request};

/// One line of a request file. A line that is refused does not keep the others from running.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestLine {
    /// Number of the line in the file, from 1.
    pub line: usize,
    /// The `custom_id` of a Batch line, where it could be read.
    pub custom_id: Option<String>,
    /// The body exactly as it stands in the file; the whole line where no body could be made out.
    pub body: String,
    /// The request, or why it is refused.
    pub request: Result<Request, RequestError>,
}

const BATCH_FIELDS: &[&str] = &["custom_id", "method", "url", "body"];

/// Reads a request file. Empty lines are passed over.
///
/// # Errors
/// If the file holds no request at all.
pub fn read_lines(bytes: &[u8]) -> Result<Vec<RequestLine>, RequestError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let numbered = bytes.split(|&byte| byte == b'\n').zip(1..);
    let mut lines: Vec<_> =
        numbered.filter(|(text, _)| !text.trim_ascii().is_empty()).map(|(text, line)| read_line(text, line)).collect();
    if lines.is_empty() {
        return Err(RequestFault::Empty.alone());
    }
    refuse_repeated_ids(&mut lines);
    Ok(lines)
}

/// Reads a text that holds one request, as a plain body or as a Batch input line; it may span lines.
///
/// # Errors
/// If the request is refused.
pub fn read_one(text: &str) -> Result<Request, RequestFault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Err(RequestFault::Empty);
    }
    read_text(text, &mut Envelope::default())
}

/// What a Batch line says about its body; kept before anything is refused, so that a refusal can be told under its id.
#[derive(Default)]
struct Envelope {
    custom_id: Option<String>,
    body: Option<String>,
}

fn read_line(bytes: &[u8], line: usize) -> RequestLine {
    let mut envelope = Envelope::default();
    let request = std::str::from_utf8(bytes)
        .map_err(|error| RequestFault::NotText { offset: error.valid_up_to() })
        .and_then(|text| read_text(text, &mut envelope))
        .map_err(|fault| fault.at_line(line));
    let body = envelope.body.unwrap_or_else(|| String::from_utf8_lossy(bytes).trim_ascii().to_owned());
    RequestLine { line, custom_id: envelope.custom_id, body, request }
}

fn read_text(text: &str, envelope: &mut Envelope) -> Result<Request, RequestFault> {
    let object = Object::parse(text)?;
    if !BATCH_FIELDS.iter().any(|field| object.get(field).is_some()) {
        return Request::parse(text, None);
    }
    envelope.custom_id = object.given("custom_id").and_then(|id| id.as_str()).map(str::to_owned);
    envelope.body = object.get("body").map(|body| body.text.to_owned());
    let endpoint = batch_endpoint(&object)?;
    let accepted = "an object: the request's body";
    match object.get("body") {
        Some(body) if body.value.is_object() => Request::parse(body.text, Some(endpoint)),
        Some(body) => Err(RequestFault::value("body", accepted, read::found(&body.value))),
        None => Err(RequestFault::Missing { field: "body".to_owned(), accepted: accepted.to_owned() }),
    }
}

/// Checks everything of a Batch line but its body.
fn batch_endpoint(object: &Object<'_>) -> Result<Endpoint, RequestFault> {
    let unknown = object.members().iter().find(|member| !BATCH_FIELDS.contains(&member.name.as_str()));
    if let Some(member) = unknown {
        return Err(known::unknown(&member.name, BATCH_FIELDS.iter().copied(), BATCH_FIELDS));
    }
    let given = |field: &str, accepted: &str| {
        let missing = || RequestFault::Missing { field: field.to_owned(), accepted: accepted.to_owned() };
        read::string(field, object.given(field).ok_or_else(missing)?)
    };
    let id = given("custom_id", "a string that no other line has")?;
    if id.is_empty() {
        return Err(RequestFault::value("custom_id", "a string that is not empty", "\"\""));
    }
    if let Some(method) = object.given("method")
        && method != "POST"
    {
        return Err(RequestFault::value("method", "\"POST\"", read::found(method)));
    }
    let accepted = format!("\"{}\" or \"{}\"", Endpoint::ChatCompletions.path(), Endpoint::Completions.path());
    let url = given("url", &accepted)?;
    Endpoint::of_path(url).ok_or_else(|| RequestFault::value("url", accepted, format!("{url:?}")))
}

/// Outputs are found by `custom_id`, so that the second of two equal ones cannot run.
fn refuse_repeated_ids(lines: &mut [RequestLine]) {
    let mut first_lines: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let Some(id) = line.custom_id.clone() else { continue };
        let number = line.line;
        let first = *first_lines.entry(id.clone()).or_insert(number);
        if first != number {
            let accepted = format!("a string that no other line has (line {first} has it)");
            line.request = Err(RequestFault::value("custom_id", accepted, format!("{id:?}")).at_line(number));
        }
    }
}
