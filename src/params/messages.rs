//! The messages of a chat request, brought into the form that chat templates read.

use serde_json::{Map, Value, json};

use super::error::{RequestFault, Warning};
use super::{known, read};

const ACCEPTED: &str = "an array of messages that is not empty";
const ROLES: &str = "`system`, `developer`, `user`, `assistant` or `tool`";
const CONTENT: &str = "a string, or an array of parts {\"type\": \"text\", \"text\": ...}";
const FIELDS: &[&str] = &["role", "content", "name", "tool_calls", "tool_call_id"];
const CALL: &str = "{\"id\": ..., \"type\": \"function\", \"function\": {\"name\": ..., \"arguments\": JSON text}}";
/// Fields of a message that ask for nothing where they are `null` or empty, and cannot be honoured otherwise.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("function_call", "an older form; use `tool_calls`"),
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
    check_fields(object, index)?;
    let given = |field: &str| object.get(field).filter(|value| !value.is_null());
    let role = match given("role") {
        None => Err(RequestFault::Missing { field: path("role"), accepted: ROLES.to_owned() }),
        Some(Value::String(role)) => role_for_template(role, index, warnings),
        Some(value) => Err(RequestFault::value(path("role"), ROLES, read::found(value))),
    }?;
    let calls = given("tool_calls").map(|calls| tool_calls(&path("tool_calls"), role, calls)).transpose()?;
    let content = match given("content") {
        None if calls.is_some() => Ok(String::new()),
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
    let mut told = Map::from_iter([("role".to_owned(), json!(role)), ("content".to_owned(), json!(content))]);
    for field in ["name", "tool_call_id"] {
        if let Some(value) = given(field) {
            told.insert(field.to_owned(), json!(read::string(&path(field), value)?));
        }
    }
    if role == "tool" && given("tool_call_id").is_none() {
        let accepted = "the `id` of the call that this answers".to_owned();
        return Err(RequestFault::Missing { field: path("tool_call_id"), accepted });
    }
    told.extend(calls.map(|calls| ("tool_calls".to_owned(), calls)));
    Ok(Value::Object(told))
}

/// The calls of an assistant's message, their arguments as the objects that templates read.
fn tool_calls(path: &str, role: &str, value: &Value) -> Result<Value, RequestFault> {
    if role != "assistant" {
        return Err(RequestFault::value(
            path,
            "calls in messages of the assistant alone",
            format!("a message of `{role}`"),
        ));
    }
    let items = value.as_array().ok_or_else(|| RequestFault::value(path, "an array of calls", read::found(value)))?;
    let call = |(index, item): (usize, &Value)| {
        let path = format!("{path}[{index}]");
        let fault = || RequestFault::value(&path, CALL, read::found(item));
        let name = item["function"]["name"].as_str().ok_or_else(fault)?;
        let arguments = item["function"]["arguments"].as_str().ok_or_else(fault)?;
        let arguments = serde_json::from_str::<Value>(arguments).ok().filter(Value::is_object).ok_or_else(|| {
            let field = format!("{path}.function.arguments");
            RequestFault::value(field, "a JSON object as text", read::found(&item["function"]["arguments"]))
        })?;
        let id = item["id"].as_str().ok_or_else(fault)?;
        Ok(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}))
    };
    items.iter().enumerate().map(call).collect()
}

fn check_fields(object: &Map<String, Value>, index: usize) -> Result<(), RequestFault> {
    for (field, value) in object {
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        match UNSUPPORTED.iter().find(|(name, _)| name == field) {
            Some(_) if empty => {}
            Some((_, why)) => {
                return Err(RequestFault::NotSupported {
                    field: format!("messages[{index}].{field}"),
                    why: (*why).to_owned(),
                });
            }
            None if FIELDS.contains(&field.as_str()) => {}
            None => {
                let known = FIELDS.iter().copied().chain(UNSUPPORTED.iter().map(|&(name, _)| name));
                return Err(known::unknown(field, known, FIELDS).inside(&format!("messages[{index}]")));
            }
        }
    }
    Ok(())
}

fn role_for_template<'a>(role: &'a str, index: usize, warnings: &mut Vec<Warning>) -> Result<&'a str, RequestFault> {
    let field = || format!("messages[{index}].role");
    match role {
        "system" | "user" | "assistant" | "tool" => Ok(role),
        "developer" => {
            warnings.push(Warning::DeveloperRole { index });
            Ok("system")
        }
        "function" => {
            Err(RequestFault::NotSupported { field: field(), why: "an older form; use the role `tool`".to_owned() })
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
