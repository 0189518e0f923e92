//! The fields that constrain the output: what each asks for, and what is refused.

use serde_json::json;

use super::{chat, parse, refusal};
use crate::grammar::Constraint;

fn constraint(fields: &str) -> Option<Constraint> {
    parse(&chat(fields)).expect("a request").constraint.map(|output| output.constraint)
}

#[test]
fn every_form_is_read() {
    let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}});
    let expected = [
        (r#""temperature": 0"#.to_owned(), None),
        (r#""response_format": {"type": "text"}"#.to_owned(), None),
        (r#""response_format": null, "structured_outputs": null"#.to_owned(), None),
        (r#""response_format": {"type": "json_object"}"#.to_owned(), Some(Constraint::JsonObject)),
        (
            format!(
                r#""response_format": {{"type": "json_schema", "json_schema": {{"name": "x", "strict": true, "schema": {schema}}}}}"#
            ),
            Some(Constraint::JsonSchema(schema.clone())),
        ),
        (format!(r#""structured_outputs": {{"json": {schema}}}"#), Some(Constraint::JsonSchema(schema.clone()))),
        (
            format!(r#""structured_outputs": {{"json": {}}}"#, json!(schema.to_string())),
            Some(Constraint::JsonSchema(schema)),
        ),
        (r#""structured_outputs": {"json_object": true}"#.to_owned(), Some(Constraint::JsonObject)),
        (r#""structured_outputs": {"regex": "a+", "json": null}"#.to_owned(), Some(Constraint::Regex("a+".to_owned()))),
        (
            r#""structured_outputs": {"choice": ["a", "b"], "disable_any_whitespace": false}"#.to_owned(),
            Some(Constraint::Choice(vec!["a".to_owned(), "b".to_owned()])),
        ),
        (
            r#""structured_outputs": {"grammar": "start: \"a\""}"#.to_owned(),
            Some(Constraint::Lark("start: \"a\"".to_owned())),
        ),
        (
            r#""structured_outputs": {"grammar": "start: \"a ::= b\""}"#.to_owned(),
            Some(Constraint::Lark("start: \"a ::= b\"".to_owned())),
        ),
        (
            r#""structured_outputs": {"grammar": "root ::= \"a: b\""}"#.to_owned(),
            Some(Constraint::Ebnf("root ::= \"a: b\"".to_owned())),
        ),
    ];
    for (fields, expected) in expected {
        assert_eq!(constraint(&fields), expected, "{fields}");
    }
}

#[test]
fn what_is_not_one_form_is_refused_by_name() {
    for (fields, expected) in [
        (r#""response_format": "json""#, "`response_format`: accepted: an object whose `type` is"),
        (r#""response_format": {"type": "xml"}"#, "`response_format.type`: accepted: an object whose `type` is"),
        (
            r#""response_format": {"type": "json_object", "schema": {}}"#,
            "`response_format.schema` is not a known field",
        ),
        (r#""response_format": {"type": "json_schema"}"#, "`response_format.json_schema` is missing"),
        (
            r#""response_format": {"type": "json_schema", "json_schema": {"name": "x"}}"#,
            "`response_format.json_schema.schema` is missing",
        ),
        (
            r#""response_format": {"type": "json_schema", "json_schema": {"shema": {}}}"#,
            "`response_format.json_schema.shema` is not a known field; did you mean `schema`?",
        ),
        (r#""structured_outputs": {}"#, "`structured_outputs`: accepted: an object with one of"),
        (r#""structured_outputs": {"json_object": false}"#, "`structured_outputs`: accepted: an object with one of"),
        (
            r#""structured_outputs": {"regex": "a", "choice": ["a"]}"#,
            "`structured_outputs`: accepted: an object with one of",
        ),
        (
            r#""structured_outputs": {"regx": "a"}"#,
            "`structured_outputs.regx` is not a known field; did you mean `regex`?",
        ),
        (r#""structured_outputs": {"choice": []}"#, "`structured_outputs.choice`: accepted: an array of strings"),
        (r#""structured_outputs": {"choice": [1]}"#, "`structured_outputs.choice[0]`: accepted: a string"),
        (r#""structured_outputs": {"json": 1}"#, "`structured_outputs.json`: accepted: a JSON Schema"),
        (r#""structured_outputs": {"json": "{"}"#, "`structured_outputs.json`: accepted: a JSON Schema"),
        (
            r#""structured_outputs": {"regex": "a", "disable_any_whitespace": true}"#,
            "`structured_outputs.disable_any_whitespace` is not supported yet",
        ),
        (
            r#""structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}"#,
            "`response_format` and `structured_outputs` contradict each other",
        ),
    ] {
        let message = refusal(&chat(fields));
        assert!(message.starts_with(expected), "{fields}: {message}");
    }
}
