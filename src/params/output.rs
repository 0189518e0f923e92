//! What a request demands of its output as a whole: `response_format` of OpenAI, `structured_outputs` of vLLM.

use serde_json::{Map, Value};

use super::error::RequestFault;
use super::{known, read};
use crate::grammar::Constraint;

/// What the output has to look like, and which field of the request says so.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputConstraint {
    /// The field.
    pub field: &'static str,
    /// What it asks for.
    pub constraint: Constraint,
}

/// The fields that constrain the output.
pub(super) const OUTPUT_FIELDS: &[&str] = &["response_format", "structured_outputs"];

const FORMATS: &str = "an object whose `type` is \"text\", \"json_object\" or \"json_schema\"";
const KINDS: &[&str] = &["json", "json_object", "regex", "choice", "grammar"];
/// Fields of `structured_outputs` that ask for nothing where they are `false`, and cannot be honoured otherwise.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("disable_any_whitespace", "white space follows the schema alone; leave it out"),
    ("disable_additional_properties", "say it in the schema, with `additionalProperties`: false"),
    ("disable_fallback", "there is one grammar backend and no fallback; leave it out"),
    ("whitespace_pattern", "white space is as JSON has it; leave it out"),
    ("structural_tag", "use `tools`, or a `grammar`"),
];

/// Reads both fields; `None` where the output is free text.
pub(super) fn constraint<'a>(
    field: impl Fn(&str) -> Option<&'a Value>,
) -> Result<Option<OutputConstraint>, RequestFault> {
    let format = field("response_format").map(response_format).transpose()?.flatten();
    let structured = field("structured_outputs").map(structured_outputs).transpose()?;
    match (format, structured) {
        (Some(_), Some(_)) => Err(RequestFault::Conflict {
            first: "response_format".to_owned(),
            second: "structured_outputs".to_owned(),
            why: "an output has one form; give one of them".to_owned(),
        }),
        (Some(constraint), None) => Ok(Some(OutputConstraint { field: "response_format", constraint })),
        (None, structured) => {
            Ok(structured.map(|constraint| OutputConstraint { field: "structured_outputs", constraint }))
        }
    }
}

fn response_format(value: &Value) -> Result<Option<Constraint>, RequestFault> {
    let fault = || RequestFault::value("response_format", FORMATS, read::found(value));
    let object = value.as_object().ok_or_else(fault)?;
    let kind = object.get("type").and_then(Value::as_str).ok_or_else(fault)?;
    let fields: &[&str] = if kind == "json_schema" { &["type", "json_schema"] } else { &["type"] };
    check_fields("response_format", object, fields, &[])?;
    match kind {
        "text" => Ok(None),
        "json_object" => Ok(Some(Constraint::JsonObject)),
        "json_schema" => json_schema(object.get("json_schema")).map(Some),
        _ => Err(RequestFault::value("response_format.type", FORMATS, read::found(&object["type"]))),
    }
}

/// The object around the schema. `strict` changes nothing: a schema is enforced as a whole, or refused.
fn json_schema(value: Option<&Value>) -> Result<Constraint, RequestFault> {
    let field = "response_format.json_schema";
    let accepted = "an object with `name` and `schema`";
    let missing =
        |field: &str, accepted: &str| RequestFault::Missing { field: field.to_owned(), accepted: accepted.to_owned() };
    let value = value.ok_or_else(|| missing(field, accepted))?;
    let object = value.as_object().ok_or_else(|| RequestFault::value(field, accepted, read::found(value)))?;
    check_fields(field, object, &["name", "description", "schema", "strict"], &[])?;
    if let Some(strict) = given(object, "strict") {
        read::boolean("response_format.json_schema.strict", strict)?;
    }
    for name in ["name", "description"] {
        given(object, name).map(|value| read::string(&format!("{field}.{name}"), value)).transpose()?;
    }
    let field = "response_format.json_schema.schema";
    schema(field, given(object, "schema").ok_or_else(|| missing(field, "a JSON Schema"))?)
}

fn structured_outputs(value: &Value) -> Result<Constraint, RequestFault> {
    let accepted = "an object with one of `json`, `json_object`, `regex`, `choice` and `grammar`";
    let fault = || RequestFault::value("structured_outputs", accepted, read::found(value));
    let object = value.as_object().ok_or_else(fault)?;
    check_fields("structured_outputs", object, KINDS, UNSUPPORTED)?;
    // `json_object`: false asks for nothing, as its absence does.
    let asks = |name: &&str| given(object, name).filter(|value| **value != Value::Bool(false)).is_some();
    let kinds: Vec<&str> = KINDS.iter().copied().filter(asks).collect();
    let &[kind] = kinds.as_slice() else { return Err(fault()) };
    let field = format!("structured_outputs.{kind}");
    let value = &object[kind];
    match kind {
        "json" => match value {
            // vLLM takes the schema as text, too.
            Value::String(text) => {
                let parsed = serde_json::from_str(text);
                schema(
                    &field,
                    &parsed.map_err(|error| RequestFault::value(&field, "a JSON Schema", error.to_string()))?,
                )
            }
            value => schema(&field, value),
        },
        "json_object" => read::boolean(&field, value).map(|_| Constraint::JsonObject),
        "regex" => Ok(Constraint::Regex(read::string(&field, value)?.to_owned())),
        "choice" => choice(&field, value),
        _ => read::string(&field, value).map(Constraint::grammar),
    }
}

fn schema(field: &str, value: &Value) -> Result<Constraint, RequestFault> {
    match value {
        Value::Object(_) | Value::Bool(_) => Ok(Constraint::JsonSchema(value.clone())),
        _ => Err(RequestFault::value(field, "a JSON Schema: an object, true or false", read::found(value))),
    }
}

fn choice(field: &str, value: &Value) -> Result<Constraint, RequestFault> {
    let accepted = "an array of strings that is not empty";
    match value {
        Value::Array(items) if !items.is_empty() => {
            let text = |(index, item)| read::string(&format!("{field}[{index}]"), item).map(str::to_owned);
            Ok(Constraint::Choice(items.iter().enumerate().map(text).collect::<Result<_, _>>()?))
        }
        value => Err(RequestFault::value(field, accepted, read::found(value))),
    }
}

fn given<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

fn check_fields(
    path: &str,
    object: &Map<String, Value>,
    accepted: &'static [&'static str],
    unsupported: &'static [(&'static str, &'static str)],
) -> Result<(), RequestFault> {
    for (name, value) in object {
        if accepted.contains(&name.as_str()) {
            continue;
        }
        let field = format!("{path}.{name}");
        match unsupported.iter().find(|(known, _)| known == name) {
            Some(_) if value.is_null() || *value == Value::Bool(false) => {}
            Some((_, why)) => return Err(RequestFault::NotSupported { field, why: (*why).to_owned() }),
            None => {
                let known = accepted.iter().copied().chain(unsupported.iter().map(|&(name, _)| name));
                return Err(known::unknown(name, known, accepted).inside(path));
            }
        }
    }
    Ok(())
}
