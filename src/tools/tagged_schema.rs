//! What of a tool's schema tagged calls hold to. What they do not is refused with the request: it would be asked for, and
//! nothing would see to it.

use serde_json::{Map, Value as Json};

use super::tagged::text_choices;
use super::{TaggedFormat, Tool, ToolFormat, Unfit};

const ANNOTATIONS: [&str; 12] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "$comment",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$defs",
];

/// The parameters are named and required or not, each is JSON by its schema, or text: any, or one of a list.
pub(super) fn check(tool: &Tool) -> Result<(), Unfit> {
    let none = Map::new();
    let properties = tool.parameters["properties"].as_object().unwrap_or(&none);
    only(&tool.parameters, &["type", "properties", "required", "additionalProperties"], "")?;
    for name in tool.parameters["required"].as_array().into_iter().flatten() {
        if !name.as_str().is_some_and(|name| properties.contains_key(name)) {
            return Err(unfit("required", "names of `properties`", name));
        }
    }
    for (key, schema) in properties {
        let place = format!("properties.{key}");
        if key.is_empty() || key.contains(['>', '\n']) {
            return Err(unfit("properties", "names without `>` and line breaks", &key.as_str().into()));
        }
        match text_choices(schema) {
            Some(choices) => {
                only(schema, &["enum", "type"], &place)?;
                let spells_a_tag = |text: &&&str| TaggedFormat.tags().iter().any(|tag| text.contains(tag));
                if let Some(choice) = choices.iter().find(spells_a_tag) {
                    return Err(unfit(&format!("{place}.enum"), "texts without the tags of calls", &(*choice).into()));
                }
                let may_be_text = |kind: &Json| {
                    kind == "string" || kind.as_array().is_some_and(|kinds| kinds.contains(&"string".into()))
                };
                if choices.is_empty() || !schema.get("type").is_none_or(may_be_text) {
                    return Err(unfit(&place, "a list of texts that can come", schema));
                }
            }
            None if schema["type"] == "string" => only(schema, &["type"], &place)?,
            None => {}
        }
    }
    Ok(())
}

/// Whether a schema has these keywords and annotations alone.
fn only(schema: &Json, keywords: &[&str], place: &str) -> Result<(), Unfit> {
    let is_held_to =
        |keyword: &str| keywords.contains(&keyword) || ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-");
    match schema.as_object().into_iter().flatten().find(|(keyword, _)| !is_held_to(keyword)) {
        Some((keyword, value)) => {
            let dot = if place.is_empty() { "" } else { "." };
            let accepted = format!("no `{keyword}` there, only {}", keywords.join(", "));
            Err(unfit(&format!("{place}{dot}{keyword}"), &accepted, value))
        }
        None => Ok(()),
    }
}

fn unfit(place: &str, accepted: &str, found: &Json) -> Unfit {
    let accepted = format!("{accepted}: calls are written in tags, which hold to nothing else (calls as JSON do)");
    Unfit { place: place.to_owned(), accepted, found: found.to_string() }
}
