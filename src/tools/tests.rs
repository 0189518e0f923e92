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

fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
    ToolCall { name: name.to_owned(), arguments: arguments.to_string() }
}

#[test]
fn what_is_rendered_is_read_back() {
    let calls = [
        call("weather", json!({"city": "Oslo\n<b>, \"quoted\"", "days": 3, "unit": "C"})),
        call("weather", json!({"city": ""})),
        call("time", json!({})),
    ];
    for format in FORMATS {
        let rendered: Vec<String> = calls.iter().map(|call| format!("{OPEN}{}{CLOSE}", format.render(call))).collect();
        let parsed = parse(&format!("I will look.\n{}", rendered.join("\n")), format, &tools());
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
    let parsed = parse(&text, &JsonFormat, &tools());
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
        ("<function=weather>\n<parameter=days>\nsoon\n</parameter>\n</function>", "parameter `days`: expected JSON"),
        ("<function=weather>\n<parameter=town>\nOslo\n</parameter>\n</function>", "has no parameter `town`"),
        ("<function=weather>\nOslo</function>", "expected `<parameter=KEY>` or `</function>`"),
        ("<weather>", "expected `<function=NAME>`"),
        (
            "<function=weather>\n<parameter=city>\nA\n</parameter>\n<parameter=city>\nB\n</parameter>\n</function>",
            "parameter `city` stands there twice",
        ),
    ];
    for (inside, problem) in inside {
        let found = TaggedFormat.parse(inside, &tools()).unwrap_err();
        assert!(found.contains(problem), "{inside:?}: {found}");
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
