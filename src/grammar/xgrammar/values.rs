//! Values of `const` and `enum`, for XGrammar.

use serde_json::{Map, Number, Value as Json, json};

use super::schema::Identities;
use crate::grammar::GrammarError;
use crate::grammar::schema::{child, refused, shown};

/// Puts the values under `head` in words that the library keeps: with parts, as schemas of their parts.
///
/// # Errors
/// If one is a number that the library would write as another one.
pub(super) fn rewrite(
    place: &str,
    head: &str,
    subschema: &mut Map<String, Json>,
    identities: &mut Identities,
) -> Result<(), GrammarError> {
    let Some(value) = subschema.get(head).filter(|_| ["const", "enum"].contains(&head)) else { return Ok(()) };
    if let Some(number) = other_number(value) {
        let expected = "numbers that 17 digits write as they are, as xgrammar writes them";
        return Err(refused(&child(place, head), expected, &shown(&number)));
    }
    let has_parts =
        if head == "enum" { value.as_array().into_iter().flatten().any(has_parts) } else { has_parts(value) };
    match value {
        _ if !has_parts => {}
        Json::Array(values) if head == "enum" => {
            let cases = values.iter().map(|value| constant(value, identities)).collect();
            subschema.shift_remove(head);
            subschema.insert("anyOf".to_owned(), cases);
        }
        value => {
            if let Json::Object(parts) = constant(value, identities) {
                subschema.shift_remove(head);
                subschema.extend(parts);
            }
        }
    }
    Ok(())
}

fn has_parts(value: &Json) -> bool {
    value.is_object() || value.is_array()
}

/// A schema of one value, with white space between its parts; the library writes a `const` with none.
fn constant(value: &Json, identities: &mut Identities) -> Json {
    let mut schema = match value {
        Json::Object(map) => {
            let properties = map.iter().map(|(key, value)| (key.clone(), constant(value, identities)));
            let properties: Map<String, Json> = properties.collect();
            let required: Vec<&String> = map.keys().collect();
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
        }
        Json::Array(values) if values.is_empty() => json!({"type": "array", "maxItems": 0}),
        Json::Array(values) => {
            let items: Vec<Json> = values.iter().map(|value| constant(value, identities)).collect();
            json!({"type": "array", "prefixItems": items, "items": false, "minItems": items.len()})
        }
        other => json!({"const": other}),
    };
    identities.give(&mut schema);
    schema
}

/// A number in the value that the library would write with other digits: it has 17 of them.
fn other_number(value: &Json) -> Option<Json> {
    match value {
        Json::Number(number) if !is_kept(number) => Some(value.clone()),
        Json::Array(values) => values.iter().find_map(other_number),
        Json::Object(map) => map.values().find_map(other_number),
        _ => None,
    }
}

fn is_kept(number: &Number) -> bool {
    let Some(value) = number.as_f64().filter(|value| value.fract() != 0.0) else { return true };
    let digits = |text: String| text.split('e').next().unwrap_or_default().to_owned();
    let (all, shortest) = (digits(format!("{value:.16e}")), digits(format!("{value:e}")));
    all.trim_end_matches('0').trim_end_matches('.') == shortest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_17_digits_do_not_write_as_they_are_are_found() {
        for kept in ["0", "-7", "2.5", "-0.375", "1e3", "9007199254740991", "-0.0", "0.0009765625"] {
            let value: Json = serde_json::from_str(kept).unwrap();
            assert_eq!(other_number(&json!([{"a": value}])), None, "{kept}");
        }
        for other in ["0.1", "-2.7", "1e-7", "3.14"] {
            let value: Json = serde_json::from_str(other).unwrap();
            assert_eq!(other_number(&json!({"a": [1, value]})), Some(value), "{other}");
        }
    }
}
