//! Names in schemas that the library does not see, or reads as something else.

use serde_json::json;
use stepscope::grammar::{Backend, Constraint, Whitespace};

use crate::differences::valid;
use crate::settings;
use crate::support::Vocabulary;

/// Schemas that the library took for one before each had a mark of its own: its spelling of them leaves out names or does not
/// escape them.
#[test]
fn schemas_that_differ_by_names_alone_are_kept_apart() {
    let object = |properties: serde_json::Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let none = json!({"type": "null"});
    let titles = [object(json!({"title": none}), &["title"]), object(json!({"default": none}), &["default"])];
    let one = object(json!({"a\":{\"type\":\"null\"},\"b": none}), &[]);
    for (schema, right, wrong) in [
        (
            object(json!({"a": {"const": {"m": {"title": 1}}}, "b": {"const": {"k": {"title": 2}}}}), &["a", "b"]),
            r#"{"a":{"m":{"title":1}},"b":{"k":{"title":2}}}"#,
            r#"{"a":{"m":{"title":1}},"b":{"k":{"title":1}}}"#,
        ),
        (json!({"enum": [{"title": "a"}, {"title": "b"}]}), r#"{"title":"b"}"#, r#"{"title":"c"}"#),
        (json!({"enum": [{"title": "a"}, {"title": "b"}]}), r#"{"title":"a"}"#, r#"{"title":"ab"}"#),
        (
            object(json!({"x": object(json!({"a": none, "b": none}), &[]), "y": one}), &["x", "y"]),
            r#"{"x":{"a":null},"y":{"a\":{\"type\":\"null\"},\"b":null}}"#,
            r#"{"x":{},"y":{"a":null}}"#,
        ),
        (
            json!({"type": "array", "prefixItems": titles, "minItems": 2}),
            r#"[{"title":null},{"default":null}]"#,
            r#"[{"title":null},{"title":null}]"#,
        ),
        (
            json!({"type": "array", "items": {"const": [{"title": {}}]}, "prefixItems": [{"const": [{"title": []}]}]}),
            r#"[[{"title":[]}],[{"title":{}}]]"#,
            r#"[[{"title":[]}],[{"title":[]}]]"#,
        ),
    ] {
        let constraint = Constraint::JsonSchema(schema);
        let backends = [Backend::Llguidance, Backend::Xgrammar];
        for vocabulary in backends.map(|backend| Vocabulary::small(settings(backend, Whitespace::None))) {
            assert!(valid(&vocabulary, &constraint, right), "{constraint:?} {right}");
            assert!(!valid(&vocabulary, &constraint, wrong), "{constraint:?} {wrong}");
        }
    }
}
