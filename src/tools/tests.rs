//! What is rendered can be read back, and what cannot be read is said.

use serde_json::json;

use super::*;

fn tools() -> Vec<Tool> {
    let parameters = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]}},
        "required": ["city"],
        "additionalProperties": false,
    });
    let tool = |name: &str, parameters| Tool { name: name.to_owned(), description: None, parameters };
    vec![tool("weather", parameters), tool("time", json!({"type": "object", "properties": {}}))]
}

fn call_of(name: &str, arguments: serde_json::Value) -> ToolCall {
    ToolCall { name: name.to_owned(), arguments: arguments.to_string() }
}

#[test]
fn what_is_rendered_is_read_back() {
    let calls = [
        call_of("weather", json!({"city": "Oslo\n<b>, \"quoted\"", "days": 3, "unit": "C"})),
        call_of("weather", json!({"city": ""})),
        call_of("time", json!({})),
    ];
    for format in FORMATS {
        let rendered: Vec<String> = calls.iter().map(|call| format!("{OPEN}{}{CLOSE}", format.render(call))).collect();
        let answer = Spelled::of_text(&format!("I will look.\n{}", rendered.join("\n")));
        let parsed = parse(&answer, format, &tools());
        assert_eq!(parsed.problems, Vec::<String>::new(), "{}", format.name());
        assert_eq!(
            (parsed.content.as_str(), parsed.calls.as_slice()),
            ("I will look.", &calls[..]),
            "{}",
            format.name()
        );
    }
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_read() {
    let good = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";
    let text = format!(
        "{good}\n<tool_call>\n{{\"name\": \"tide\", \"arguments\": {{}}}}\n</tool_call> and {good}<tool_call>{{"
    );
    let parsed = parse(&Spelled::of_text(&text), &JsonFormat, &tools());
    assert_eq!(parsed.calls.len(), 2);
    let problems = [
        "call 2: expected a tool of the request (weather, time), found \"tide\"",
        "text after call 2: \"and\"",
        "call 4 is not closed",
    ];
    assert_eq!(parsed.problems, problems);
}

#[test]
fn a_tagged_call_says_what_is_wrong_with_it() {
    let inside = [
        ("<function=weather>\n<parameter=city>\nOslo\n", "parameter `city` is not closed"),
        ("<function=weather>\n<parameter=city>\nOslo</parameter>\n</function>", "parameter `city` is not closed"),
        ("<function=weather>\n<parameter=days>\nsoon\n</parameter>\n</function>", "parameter `days`: expected JSON"),
        ("<function=weather>\n<parameter=town>\nOslo\n</parameter>\n</function>", "has no parameter `town`"),
        ("<function=weather>\nOslo</function>", "expected `<parameter=KEY>` or `</function>`"),
        ("<weather>", "expected `<function=NAME>`"),
        (
            "<function=weather>\n<parameter=city>\nA\n</parameter>\n<parameter=city>\nB\n</parameter>\n</function>",
            "parameter `city` stands there twice",
        ),
        ("<function=weather>\n</function>\nand more", "expected `</tool_call>` after `</function>`, found \"and more"),
    ];
    for (inside, problem) in inside {
        let parsed = parse(&Spelled::of_text(&format!("<tool_call>\n{inside}\n</tool_call>")), &TaggedFormat, &tools());
        assert!(parsed.calls.is_empty(), "{inside:?}");
        assert!(
            matches!(&parsed.problems[..], [found] if found.contains(problem)),
            "{inside:?}: {:?}",
            parsed.problems
        );
    }
    let open = parse(&Spelled::of_text("<tool_call>\n<function=weather>"), &TaggedFormat, &tools());
    assert_eq!(open.problems, ["call 1 is not closed"]);
}

/// JSON may spell a tag; free text may not, and the call after it is read.
#[test]
fn a_tag_inside_of_a_value_is_read_or_said() {
    let call =
        "<tool_call>\n{\"name\": \"time\", \"arguments\": {\"at\": \"a </tool_call> b <tool_call>\"}}\n</tool_call>";
    let parsed = parse(&Spelled::of_text(call), &JsonFormat, &tools());
    assert_eq!(parsed.problems, Vec::<String>::new());
    assert_eq!(
        parsed.calls,
        [ToolCall { name: "time".to_owned(), arguments: r#"{"at":"a </tool_call> b <tool_call>"}"#.to_owned() }]
    );
    let city = |text: &str| {
        format!("<tool_call>\n<function=weather>\n<parameter=city>\n{text}\n</parameter>\n</function>\n</tool_call>")
    };
    let text = format!("{}\n{}", city("a </tool_call> b"), city("Oslo"));
    let parsed = parse(&Spelled::of_text(&text), &TaggedFormat, &tools());
    assert_eq!(parsed.problems, ["call 1: the text of parameter `city` spells the tag `</tool_call>`"]);
    assert_eq!(parsed.calls, [call_of("weather", json!({"city": "Oslo"}))]);
}

/// What the grammar of tagged calls does not see to is refused.
#[test]
fn a_schema_that_tags_do_not_hold_to_is_refused() {
    let tool = |parameters| Tool { name: "f".to_owned(), description: None, parameters };
    let of_property = |schema: Json| json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
    for parameters in [
        of_property(json!({"type": "string", "description": "Any text.", "x-order": 1})),
        of_property(json!({"type": "string", "enum": ["C", "F"]})),
        of_property(json!({"type": ["string", "null"], "enum": ["C"]})),
        of_property(json!({"type": "integer", "minimum": 3, "multipleOf": 3})),
        of_property(json!({"const": "text that is JSON"})),
        json!({"type": "object", "properties": {}, "additionalProperties": false, "title": "A"}),
    ] {
        assert_eq!(TaggedFormat.check(&tool(parameters.clone())), Ok(()), "{parameters}");
    }
    for (parameters, place) in [
        (of_property(json!({"type": "string", "const": "x"})), "properties.a.const"),
        (of_property(json!({"type": "string", "pattern": "x"})), "properties.a.pattern"),
        (of_property(json!({"type": "string", "enum": ["a", 1]})), "properties.a.enum"),
        (of_property(json!({"enum": ["a"], "maxLength": 3})), "properties.a.maxLength"),
        (of_property(json!({"enum": ["a </parameter>"]})), "properties.a.enum"),
        (of_property(json!({"enum": []})), "properties.a"),
        (of_property(json!({"type": "integer", "enum": ["a"]})), "properties.a"),
        (json!({"properties": {"a>": {}}}), "properties"),
        (json!({"properties": {"a": {}}, "required": ["a", "b"]}), "required"),
        (json!({"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {}]}), "anyOf"),
    ] {
        let found = TaggedFormat.check(&tool(parameters.clone())).unwrap_err();
        assert_eq!(found.place, place, "{parameters}");
        assert_eq!(JsonFormat.check(&tool(parameters)), Ok(()));
    }
}

#[test]
fn a_template_without_tools_gets_them_in_words() {
    let tools = ToolUse { tools: tools(), choice: ToolChoice::Auto, parallel: true };
    let conversation = [
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "Time?"}),
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "time", "arguments": {}}}]}),
        json!({"role": "tool", "tool_call_id": "a", "content": "noon"}),
    ];
    let messages = |conversation: &[Json], tools| for_template(conversation, tools, &JsonFormat, "no place").messages;
    let told = messages(&conversation, Some(&tools));
    assert!(told[0]["content"].as_str().unwrap().starts_with("Be brief.\n\nYou can call functions."));
    assert_eq!(told[2]["content"], "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>");
    assert_eq!(told[3], json!({"role": "user", "content": "<tool_response>\nnoon\n</tool_response>"}));
    assert_eq!(messages(&conversation[1..2], Some(&tools)).len(), 2, "a system message is made");
    assert_eq!(messages(&conversation[..2], None), conversation[..2]);
}
