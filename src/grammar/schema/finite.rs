//! Schemas that only a document without an end would satisfy.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use crate::grammar::GrammarError;
use crate::grammar::schema::{child, refused};

/// Passes over all subschemas; two are enough where references do not point backwards.
const MAX_PASSES: usize = 64;

/// Refuses a subschema that no finite document satisfies, since output under it would never end. `places` are all
/// subschemas, those that others refer to after those.
pub(super) fn check(root: &Json, places: &[String]) -> Result<(), GrammarError> {
    let mut finite = HashSet::new();
    for _ in 0..MAX_PASSES {
        let before = finite.len();
        for place in places.iter().rev() {
            if !finite.contains(place.as_str()) && is_finite(root, place, &finite) {
                finite.insert(place.as_str());
            }
        }
        if finite.len() == before {
            break;
        }
    }
    match places.iter().find(|place| !finite.contains(place.as_str())) {
        Some(place) => Err(refused(place, "what a document of finite size can satisfy", "a recursion without an end")),
        None => Ok(()),
    }
}

/// Whether a document of finite size can satisfy the subschema, if those known to be finite are.
fn is_finite(root: &Json, place: &str, known: &HashSet<&str>) -> bool {
    let Some(Json::Object(subschema)) = root.pointer(place) else {
        return true;
    };
    let known_at = |place: &str| known.contains(place);
    let list = |name: &str| subschema.get(name).and_then(Json::as_array).map_or(0, Vec::len);
    let member = |name: &str, index: usize| known_at(&format!("{place}/{name}/{index}"));
    let target = subschema.get("$ref").and_then(Json::as_str).and_then(|reference| reference.strip_prefix('#'));
    target.is_none_or(known_at)
        && (0..list("allOf")).all(|index| member("allOf", index))
        && ["anyOf", "oneOf"].iter().all(|name| list(name) == 0 || (0..list(name)).any(|index| member(name, index)))
        && match subschema.get("type").and_then(Json::as_str) {
            Some("object") => required(subschema).all(|name| known_at(&child(&format!("{place}/properties"), name))),
            Some("array") => {
                let minimum = subschema.get("minItems").and_then(Json::as_u64).unwrap_or(0);
                let lists = ["prefixItems", "items"].map(|name| (name, list(name)));
                let listed = lists.iter().map(|(_, length)| *length as u64).sum::<u64>();
                let first = |length: usize| 0..length.min(usize::try_from(minimum).unwrap_or(usize::MAX));
                lists.iter().all(|(name, length)| first(*length).all(|index| member(name, index)))
                    && (minimum <= listed
                        || !subschema.get("items").is_some_and(Json::is_object)
                        || known_at(&format!("{place}/items")))
            }
            _ => true,
        }
}

/// The required properties that have a schema of their own.
fn required(subschema: &Map<String, Json>) -> impl Iterator<Item = &str> {
    let properties = subschema.get("properties").and_then(Json::as_object);
    let names = subschema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    names.filter(move |name| properties.is_some_and(|properties| properties.contains_key(*name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_requires_itself_is_refused() {
        let places = ["", "/$defs/a", "/$defs/a/properties/a"].map(str::to_owned);
        let mut schema = json!({
            "$ref": "#/$defs/a",
            "$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}}
        });
        assert!(check(&schema, &places).is_err());
        schema["$defs"]["a"]["required"] = json!([]);
        assert!(check(&schema, &places).is_ok());
        schema["$defs"]["a"] = json!({"type": "array", "minItems": 1, "items": {"$ref": "#"}});
        assert!(check(&schema, &["", "/$defs/a", "/$defs/a/items"].map(str::to_owned)).is_err());
        schema["$defs"]["a"]["minItems"] = json!(0);
        assert!(check(&schema, &["", "/$defs/a", "/$defs/a/items"].map(str::to_owned)).is_ok());
    }
}
