//! Tools: what is read of them, and what is refused.

use serde_json::json;

use super::{chat, completion, parse, refusal};
use crate::params::Input;
use crate::tools::{ToolChoice, ToolUse};

const TOOLS: &str = r#""tools": [
    {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"properties": {"at": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "wait"}}]"#;

fn tools(fields: &str) -> Option<ToolUse> {
    parse(&chat(fields)).expect("a request").tools
}

#[test]
fn tools_are_read_with_their_defaults() {
    let read = tools(TOOLS).expect("tools");
    assert_eq!((read.choice, read.parallel), (ToolChoice::Auto, true));
    let [look, wait] = &read.tools[..] else { panic!("two tools") };
    assert_eq!((look.name.as_str(), look.description.as_deref()), ("look", Some("Looks.")));
    assert_eq!(look.parameters, json!({"properties": {"at": {"type": "string"}}, "type": "object"}));
    assert_eq!(wait.parameters, json!({"type": "object", "properties": {}, "additionalProperties": false}));
    let named = r#""tool_choice": {"type": "function", "function": {"name": "wait"}}"#;
    for (fields, choice) in [
        (r#""tool_choice": "none""#, ToolChoice::None),
        (r#""tool_choice": "required", "parallel_tool_calls": false"#, ToolChoice::Required),
        (named, ToolChoice::Named("wait".to_owned())),
    ] {
        let read = tools(&format!("{TOOLS}, {fields}")).expect("tools");
        assert_eq!((read.choice.clone(), read.parallel), (choice, !fields.contains("parallel")), "{fields}");
    }
    assert_eq!(tools(r#""tools": [], "tool_choice": "auto""#), None);
}

#[test]
fn what_is_no_tool_is_refused_by_its_place() {
    let function = |function: &str| format!(r#""tools": [{{"type": "function", "function": {function}}}]"#);
    for (fields, expected) in [
        (r#""tools": {}"#.to_owned(), "`tools`: accepted: an array of tools"),
        (r#""tools": [1]"#.to_owned(), "`tools[0]`: accepted: {\"type\": \"function\""),
        (r#""tools": [{"type": "code", "function": {"name": "f"}}]"#.to_owned(), "`tools[0].type`: accepted: \"function\""),
        (function("{}"), "`tools[0].function.name` is missing"),
        (function(r#"{"name": "a b"}"#), "`tools[0].function.name`: accepted: 1 to 64 letters"),
        (function(r#"{"name": "f", "parameters": []}"#), "`tools[0].function.parameters`: accepted: a JSON Schema of an object"),
        (function(r#"{"name": "f", "parametres": {}}"#), "`tools[0].function.parametres` is not a known field; did you mean `parameters`?"),
        (
            r#""tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}]"#.to_owned(),
            "`tools[1].function.name (\"f\")` stands there twice",
        ),
        (format!(r#"{TOOLS}, "tool_choice": "any""#), "`tool_choice`: accepted: \"none\", \"auto\", \"required\""),
        (
            format!(r#"{TOOLS}, "tool_choice": {{"type": "function", "function": {{"name": "go"}}}}"#),
            "`tool_choice.function.name`: accepted: a tool of `tools`: look, wait; found: \"go\"",
        ),
        (r#""tool_choice": "required""#.to_owned(), "`tool_choice`: accepted: \"none\" without `tools`"),
        (
            format!(r#"{TOOLS}, "tool_choice": "required", "response_format": {{"type": "json_object"}}"#),
            "`response_format` and `tool_choice` contradict each other",
        ),
    ] {
        let message = refusal(&chat(&fields));
        assert!(message.starts_with(expected), "{fields}: {message}");
    }
    assert!(refusal(&completion(TOOLS)).starts_with("`tools`: accepted: nothing here"));
}

#[test]
fn calls_and_their_answers_are_read_as_templates_want_them() {
    let body = json!({"messages": [
        {"role": "user", "content": "Look north."},
        {"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"north\"}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "Snow."},
    ]});
    let Input::Messages(messages) = parse(&body.to_string()).expect("a request").input else { panic!("messages") };
    assert_eq!(messages[1]["content"], "");
    assert_eq!(messages[1]["tool_calls"][0]["function"]["arguments"], json!({"at": "north"}));
    assert_eq!(messages[2], json!({"role": "tool", "content": "Snow.", "tool_call_id": "c1"}));
}
