//! Whatever an answer goes on with, what was certain of its beginning stays.

use serde_json::json;

use super::super::{FORMATS, JsonFormat, TaggedFormat, parse};
use super::*;

fn tools() -> Vec<Tool> {
    let parameters = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "more": {"type": "object"}},
    });
    let tool = |name: &str, parameters| Tool { name: name.to_owned(), description: None, parameters };
    vec![tool("weather", parameters), tool("time", json!({"type": "object", "properties": {}}))]
}

/// The calls that were begun at any place of the text are those that are read in the end; how many pieces there were.
fn stays_certain(text: &str, format: &dyn ToolFormat) -> usize {
    let whole = parse(&Spelled::of_text(text), format, &tools());
    let mut pieces = std::collections::HashSet::new();
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        let Begun { content, calls } = begun(&Spelled::of_text(&text[..end]), format, &tools());
        assert!(content.is_none_or(|content| content == whole.content));
        for (call, read) in calls.iter().zip(&whole.calls) {
            assert_eq!(call.call.name, read.name);
            assert!(read.arguments.starts_with(&call.call.arguments), "{:?} of {read:?} at {end}", call.call.arguments);
            assert!(!call.is_whole || call.call == *read);
            pieces.insert((call.call.name.clone(), call.call.arguments.clone()));
        }
        assert!(calls.len() <= whole.calls.len(), "{calls:?} at {end} of {text:?}");
    }
    assert_eq!(begun(&Spelled::of_text(text), format, &tools()).calls.len(), whole.calls.len());
    pieces.len()
}

#[test]
fn what_was_sent_stays_true() {
    let call =
        |name: &str, arguments: serde_json::Value| ToolCall { name: name.to_owned(), arguments: arguments.to_string() };
    let calls = [
        call("weather", json!({"city": "Oslo é 😀\n<b>, \"quoted\" \\ </par", "days": 3, "more": {"a": [1.5, null]}})),
        call("time", json!({})),
        call("weather", json!({"days": -7, "city": ""})),
    ];
    for format in FORMATS {
        let rendered: Vec<String> = calls.iter().map(|call| format!("{OPEN}{}{CLOSE}", format.render(call))).collect();
        let pieces = stays_certain(&format!("I will look. \n{}\n", rendered.join("\n")), format);
        assert!(pieces > 30, "{}: {pieces} pieces", format.name());
    }
    let spaced = "<tool_call> { \"name\" : \"weather\" , \"arguments\" : { \"days\" : 1.0 , \"city\" : \"\\u00e9\" } }\n</tool_call>";
    assert!(stays_certain(spaced, &JsonFormat) > 5);
}

#[test]
fn of_a_call_that_may_be_none_nothing_is_sent() {
    let begins = |text: &str, format: &dyn ToolFormat| begun(&Spelled::of_text(text), format, &tools()).calls;
    assert_eq!(begins("<tool_call>\n{\"name\": \"weath", &JsonFormat), []);
    assert_eq!(begins("<tool_call>\n{\"name\": \"tide\", \"arguments\": {", &JsonFormat), []);
    assert_eq!(begins("<tool_call>\n<function=weather", &TaggedFormat), []);
    assert_eq!(begins("<tool_call>\n<function=tide>\n", &TaggedFormat), []);
    let spelled = "<tool_call>\n<function=weather>\n<parameter=city>\na</parameter> b";
    assert_eq!(begins(spelled, &TaggedFormat)[0].call.arguments, "{\"city\":\"a");
}

#[test]
fn text_is_held_back_while_it_may_become_a_tag() {
    assert_eq!(Begun::certain_text("I will. \n<tool_c"), "I will.");
    assert_eq!(Begun::certain_text("a < b"), "a < b");
    assert_eq!(Begun::certain_text("a <"), "a");
}
