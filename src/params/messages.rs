//! The messages of a chat request, brought into the form that chat templates read.

use serde_json::{Map, Value, json};

use super::error::{RequestFault, Warning};
use super::{known, read};

const ACCEPTED: &str = "an array of messages that is not empty";
const ROLES: &str = "`system`, `developer`, `user` or `assistant`";
const CONTENT: &str = "a string, or an array of parts {\"type\": \"text\", \"text\": ...}";
const FIELDS: &[&str] = &["role", "content", "name"];
/// Fields of a message that ask for nothing where they are `null` or empty, and cannot be honoured otherwise.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("tool_calls", "no tool calls"),
    ("tool_call_id", "no tool calls"),
    ("function_call", "no tool calls"),
    ("refusal", "put the refusal's text into `content`"),
    ("audio", "text alone is read"),
    ("reasoning_content", "no reasoning controls"),
    ("reasoning", "no reasoning controls"),
    ("annotations", "text alone is read"),
];

/// Reads `messages`: the parts of a content are joined by line breaks, as vLLM does for templates that take strings.
pub(super) fn read(value: Option<&Value>, warnings: &mut Vec<Warning>) -> Result<Vec<Value>, RequestFault> {
    let missing = || RequestFault::Missing { field: "messages".to_owned(), accepted: ACCEPTED.to_owned() };
    match value.ok_or_else(missing)? {
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().map(|(index, item)| message(index, item, warnings)).collect()
        }
        value => Err(RequestFault::value("messages", ACCEPTED, read::found(value))),
    }
}

fn message(index: usize, value: &Value, warnings: &mut Vec<Warning>) -> Result<Value, RequestFault> {
    let path = |field: &str| format!("messages[{index}].{field}");
    let accepted = "an object with `role` and `content`";
    let object = value
        .as_object()
        .ok_or_else(|| RequestFault::value(format!("messages[{index}]"), accepted, read::found(value)))?;
    check_fields(object, path)?;
    let given = |field: &str| object.get(field).filter(|value| !value.is_null());
    let role = match given("role") {
        None => Err(RequestFault::Missing { field: path("role"), accepted: ROLES.to_owned() }),
        Some(Value::String(role)) => role_for_template(role, index, warnings),
        Some(value) => Err(RequestFault::value(path("role"), ROLES, read::found(value))),
    }?;
    let content = match given("content") {
        None => Err(RequestFault::Missing { field: path("content"), accepted: CONTENT.to_owned() }),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) if !parts.is_empty() => parts
            .iter()
            .enumerate()
            .map(|(part_index, part)| text_of(part, &path(&format!("content[{part_index}]"))))
            .collect::<Result<Vec<_>, _>>()
            .map(|texts| texts.join("\n")),
        Some(value) => Err(RequestFault::value(path("content"), CONTENT, read::found(value))),
    }?;
    match given("name") {
        None => Ok(json!({"role": role, "content": content})),
        Some(name) => Ok(json!({"role": role, "content": content, "name": read::string(&path("name"), name)?})),
    }
}

fn check_fields(object: &Map<String, Value>, path: impl Fn(&str) -> String) -> Result<(), RequestFault> {
    for (field, value) in object {
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        match UNSUPPORTED.iter().find(|(name, _)| name == field) {
            Some(_) if empty => {}
            Some((_, why)) => {
                return Err(RequestFault::NotSupported { field: path(field), why: (*why).to_owned() });
            }
            None if FIELDS.contains(&field.as_str()) => {}
            None => {
                let known = FIELDS.iter().copied().chain(UNSUPPORTED.iter().map(|&(name, _)| name));
                return Err(match known::unknown(field, known, FIELDS) {
                    RequestFault::UnknownField { suggestion, accepted, .. } => {
                        RequestFault::UnknownField { field: path(field), suggestion, accepted }
                    }
                    fault => fault,
                });
            }
        }
    }
    Ok(())
}

fn role_for_template<'a>(role: &'a str, index: usize, warnings: &mut Vec<Warning>) -> Result<&'a str, RequestFault> {
    let field = || format!("messages[{index}].role");
    match role {
        "system" | "user" | "assistant" => Ok(role),
        "developer" => {
            warnings.push(Warning::DeveloperRole { index });
            Ok("system")
        }
        "tool" | "function" => {
            Err(RequestFault::NotSupported { field: field(), why: format!("no tool calls; accepted: {ROLES}") })
        }
        _ => Err(RequestFault::value(field(), ROLES, format!("the string {role:?}"))),
    }
}

fn text_of(part: &Value, path: &str) -> Result<String, RequestFault> {
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(text.to_owned()),
        (Some("text"), None) => {
            Err(RequestFault::value(format!("{path}.text"), "a string", read::found(&part["text"])))
        }
        (Some(kind), _) => Err(RequestFault::NotSupported {
            field: path.to_owned(),
            why: format!("`{kind}` parts; text alone is read"),
        }),
        (None, _) => Err(RequestFault::value(path, CONTENT, read::found(part))),
    }
}
