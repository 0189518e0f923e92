//! `tools`, `tool_choice` and `parallel_tool_calls`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::error::RequestFault;
use super::{known, read};
use crate::tools::{Tool, ToolChoice, ToolUse};

/// The fields of tools.
pub(super) const TOOL_FIELDS: &[&str] = &["tools", "tool_choice", "parallel_tool_calls"];

const TOOL: &str = "{\"type\": \"function\", \"function\": {\"name\": ..., \"parameters\": ...}}";
const CHOICE: &str = "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": ...}}";
const NAME: &str = "1 to 64 letters, digits, `_` and `-`";

/// Reads the fields; `None` for a request without tools.
pub(super) fn tools<'a>(field: impl Fn(&str) -> Option<&'a Value>) -> Result<Option<ToolUse>, RequestFault> {
    let tools = field("tools").map(tool_list).transpose()?.unwrap_or_default();
    let parallel = field("parallel_tool_calls").map(|value| read::boolean("parallel_tool_calls", value)).transpose()?;
    let choice = field("tool_choice").map(|value| tool_choice(value, &tools)).transpose()?;
    if tools.is_empty() {
        return match choice {
            Some(ToolChoice::Required | ToolChoice::Named(_)) => {
                Err(RequestFault::value("tool_choice", "\"none\" without `tools`", "a choice among no tools"))
            }
            _ => Ok(None),
        };
    }
    let choice = choice.unwrap_or(ToolChoice::Auto);
    Ok(Some(ToolUse { tools, choice, parallel: parallel.unwrap_or(true) }))
}

fn tool_list(value: &Value) -> Result<Vec<Tool>, RequestFault> {
    let items =
        value.as_array().ok_or_else(|| RequestFault::value("tools", "an array of tools", read::found(value)))?;
    let mut names = HashSet::new();
    let mut tools = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let tool = tool(&format!("tools[{index}]"), item)?;
        if !names.insert(tool.name.clone()) {
            return Err(RequestFault::Duplicate { field: format!("tools[{index}].function.name ({:?})", tool.name) });
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn tool(path: &str, value: &Value) -> Result<Tool, RequestFault> {
    let fault = |field: &str, accepted: &str, found: &Value| RequestFault::value(field, accepted, read::found(found));
    let object = value.as_object().ok_or_else(|| fault(path, TOOL, value))?;
    check_fields(path, object, &["type", "function"])?;
    if object.get("type").is_none_or(|kind| kind != "function") {
        return Err(fault(&format!("{path}.type"), "\"function\"", object.get("type").unwrap_or(&Value::Null)));
    }
    let path = format!("{path}.function");
    let function = object.get("function").unwrap_or(&Value::Null);
    let function = function.as_object().ok_or_else(|| fault(&path, TOOL, function))?;
    check_fields(&path, function, &["name", "description", "parameters", "strict"])?;
    let given = |name: &str| function.get(name).filter(|value| !value.is_null());
    let name_field = format!("{path}.name");
    let missing = || RequestFault::Missing { field: name_field.clone(), accepted: NAME.to_owned() };
    let name = read::string(&name_field, given("name").ok_or_else(missing)?)?;
    let is_name = |name: &str| {
        (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    if !is_name(name) {
        return Err(fault(&name_field, NAME, &json!(name)));
    }
    given("strict").map(|value| read::boolean(&format!("{path}.strict"), value)).transpose()?;
    let description =
        given("description").map(|value| read::string(&format!("{path}.description"), value)).transpose()?;
    let parameters = match given("parameters") {
        None => json!({"type": "object", "properties": {}, "additionalProperties": false}),
        Some(Value::Object(schema)) if schema.get("type").is_none_or(|kind| kind == "object") => {
            let mut schema = schema.clone();
            schema.entry("type").or_insert(json!("object"));
            Value::Object(schema)
        }
        Some(value) => return Err(fault(&format!("{path}.parameters"), "a JSON Schema of an object", value)),
    };
    Ok(Tool { name: name.to_owned(), description: description.map(str::to_owned), parameters })
}

fn tool_choice(value: &Value, tools: &[Tool]) -> Result<ToolChoice, RequestFault> {
    let fault = || RequestFault::value("tool_choice", CHOICE, read::found(value));
    match value {
        Value::String(choice) => match choice.as_str() {
            "none" => Ok(ToolChoice::None),
            "auto" => Ok(ToolChoice::Auto),
            "required" => Ok(ToolChoice::Required),
            _ => Err(fault()),
        },
        Value::Object(object) => {
            check_fields("tool_choice", object, &["type", "function"])?;
            let name = value["function"]["name"].as_str().ok_or_else(fault)?;
            if value["type"] != "function" {
                return Err(fault());
            }
            if !tools.iter().any(|tool| tool.name == name) {
                let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                let accepted = format!("a tool of `tools`: {}", names.join(", "));
                return Err(RequestFault::value("tool_choice.function.name", accepted, format!("{name:?}")));
            }
            Ok(ToolChoice::Named(name.to_owned()))
        }
        _ => Err(fault()),
    }
}

fn check_fields(
    path: &str,
    object: &Map<String, Value>,
    accepted: &'static [&'static str],
) -> Result<(), RequestFault> {
    match object.keys().find(|name| !accepted.contains(&name.as_str())) {
        Some(name) => Err(known::unknown(name, accepted.iter().copied(), accepted).inside(path)),
        None => Ok(()),
    }
}
