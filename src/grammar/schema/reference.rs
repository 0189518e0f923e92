//! Where references may point.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::grammar::GrammarError;
use crate::grammar::schema::draft::Draft;
use crate::grammar::schema::keyword::Kind;
use crate::grammar::schema::refused;

/// Whether the libraries read the target, what stands behind `#`, as a JSON pointer is read: as plain keys, of which they pass
/// over empty ones.
pub(super) fn is_plain(target: &str) -> bool {
    let keys = target.strip_prefix('/').unwrap_or("");
    target.is_empty()
        || target.starts_with('/')
            && !keys.split('/').any(str::is_empty)
            && !target.contains(['~', '%'])
            && !target.contains("/patternProperties/")
}

/// Refuses a subschema inside what another one takes for something else, such as a value of `const`: other words for the
/// one would change the other. `places` are all subschemas.
pub(super) fn check(root: &Json, draft: Draft, places: &[String]) -> Result<(), GrammarError> {
    let all: HashSet<&str> = places.iter().map(String::as_str).collect();
    for place in places {
        let ends = place.char_indices().rev().filter(|(_, character)| *character == '/').map(|(end, _)| end);
        let Some(end) = ends.into_iter().find(|end| all.contains(&place[..*end])) else { continue };
        let mut keys = place[end + 1..].split('/');
        let name = keys.next().unwrap_or_default();
        let is_schema = match (Kind::of(name, draft), keys.count()) {
            (Kind::Annotation, _) | (Kind::Schema, 0) => true,
            (Kind::Schema, 1) => root.pointer(&place[..end + 1 + name.len()]).is_some_and(Json::is_array),
            (Kind::SchemaList | Kind::SchemaMap | Kind::PatternMap, 1) => true,
            _ => false,
        };
        if !is_schema {
            let found = format!("one to a part of `{name}`");
            return Err(refused(place, "references to schemas", &found));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::grammar::schema::admit;

    #[test]
    fn references_point_to_schemas_by_plain_keys() {
        let definitions = json!({"": {"x": {"type": "integer"}}, "x": {"type": "null"}, "a": {"": {"type": "null"}}});
        for (target, is_admitted) in
            [("#/$defs/x", true), ("#/$defs//x", false), ("#/$defs/a/", false), ("#/", false), ("#//", false)]
        {
            let schema = json!({"$defs": definitions, "anyOf": [{"$ref": target}]});
            assert_eq!(admit(&schema).is_ok(), is_admitted, "{target}");
        }
        let of = |target: &str| {
            json!({
                "type": "object",
                "properties": {
                    "const": {"const": {"type": "null"}},
                    "enum": {"enum": [{"type": "null"}]},
                    "list": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "null"}}]},
                    "type": {"$ref": target}
                }
            })
        };
        for target in ["#/properties/list", "#/properties/list/anyOf/0", "#/properties/list/anyOf/1/items"] {
            assert!(admit(&of(target)).is_ok(), "{target}");
        }
        for target in ["#/properties/const/const", "#/properties/enum/enum/0", "#/properties"] {
            assert!(admit(&of(target)).is_err(), "{target}");
        }
    }
}
