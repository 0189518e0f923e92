//! Whether arguments are what a tool's schema asks for: a plain check of the keywords that say which keys and which types.
//!
//! What it does not know (references, patterns, bounds) it does not judge.

use serde_json::{Map, Value};

/// # Errors
/// What is expected, and where, in words.
pub(super) fn fits(value: &Value, schema: &Value) -> Result<(), String> {
    let keywords = match schema {
        Value::Object(keywords) => keywords,
        Value::Bool(false) => return Err("nothing at all".to_owned()),
        _ => return Ok(()),
    };
    if let Some(expected) = keywords.get("const").filter(|expected| !same(expected, value)) {
        return Err(format!("{expected}, and not {value}"));
    }
    if let Some(Value::Array(choices)) = keywords.get("enum")
        && !choices.iter().any(|choice| same(choice, value))
    {
        return Err(format!("one of {}, and not {value}", keywords["enum"]));
    }
    if let Some(kind) = keywords.get("type") {
        let kinds = kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice);
        if !kinds.iter().filter_map(Value::as_str).any(|kind| is_a(value, kind)) {
            return Err(format!("{kind}, and not {value}"));
        }
    }
    if let Some(Value::Array(choices)) = keywords.get("anyOf")
        && choices.iter().all(|choice| fits(value, choice).is_err())
    {
        return Err(format!("one of the schemas of `anyOf`, and not {value}"));
    }
    match value {
        Value::Object(members) => members_fit(members, keywords),
        Value::Array(items) if keywords.get("prefixItems").is_none() => {
            let Some(schema) = keywords.get("items").filter(|items| items.is_object()) else { return Ok(()) };
            items.iter().try_for_each(|item| fits(item, schema))
        }
        _ => Ok(()),
    }
}

/// The keys that have to be there are, and no others than may be.
fn members_fit(members: &Map<String, Value>, keywords: &Map<String, Value>) -> Result<(), String> {
    let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
    for key in required.filter_map(Value::as_str) {
        if !members.contains_key(key) {
            return Err(format!("the required key `{key}`"));
        }
    }
    for (key, member) in members {
        let named = keywords.get("properties").and_then(|properties| properties.get(key));
        let schema = match (named, keywords.get("patternProperties")) {
            (Some(schema), _) => Some(schema),
            (None, Some(_)) => None,
            (None, None) => keywords.get("additionalProperties"),
        };
        match schema {
            Some(Value::Bool(false)) if named.is_none() => return Err(format!("no key `{key}`")),
            Some(schema) => fits(member, schema).map_err(|wrong| format!("`{key}`: {wrong}"))?,
            None => {}
        }
    }
    Ok(())
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

/// Equality of JSON values: numbers by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}
