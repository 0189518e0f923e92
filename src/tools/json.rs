//! Calls as JSON: `{"name": ..., "arguments": {...}}` between the tags.

use serde_json::{Value as Json, json};

use super::begun_json::compact;
use super::{CLOSE, NoCall, ReadCall, Reader, Tag, Tool, ToolCall, ToolFormat, find, shortened};

/// A JSON object in `<tool_call>` tags, as Hermes, Qwen 2.5 and many others write calls.
#[derive(Clone, Copy, Debug)]
pub struct JsonFormat;

impl ToolFormat for JsonFormat {
    fn name(&self) -> &'static str {
        "json"
    }

    fn tags(&self) -> &'static [&'static str] {
        &[super::OPEN, CLOSE]
    }

    fn instructions(&self) -> &'static str {
        "To call a function, write its name and its arguments as one JSON object:\n\
         <tool_call>\n{\"name\": FUNCTION, \"arguments\": OBJECT}\n</tool_call>"
    }

    fn render(&self, call: &ToolCall) -> String {
        format!("\n{{\"name\": {}, \"arguments\": {}}}\n", json!(call.name), call.arguments)
    }

    fn rule(&self, name: &str, tool: &Tool, _tag: &dyn Fn(&str) -> Tag) -> String {
        let schema = json!({
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": tool.parameters},
            "required": ["name", "arguments"],
            "additionalProperties": false,
        });
        format!("{name}: \"\\n\" {name}_object \"\\n\"\n{name}_object: %json {schema}\n")
    }

    fn read(&self, answer: &mut Reader<'_>, tools: &[Tool]) -> ReadCall {
        let before = answer.rest();
        let found = |text: &str| format!("{:?}", shortened(text.trim()));
        let call = answer
            .json()
            .map_err(|error| NoCall::Unformed(format!("expected a JSON object, found {} ({error})", found(before))))?;
        answer.skip_space();
        if !answer.take_tag(CLOSE) {
            return Err(NoCall::Unformed(format!("expected `{CLOSE}` after the JSON, found {}", found(answer.rest()))));
        }
        let wrong = |expected: &str| NoCall::Wrong(format!("expected {expected}, found {}", found(&call.to_string())));
        let name = call["name"].as_str().ok_or_else(|| wrong("`name`, a string"))?;
        let tool = find(name, tools).map_err(NoCall::Wrong)?;
        match &call["arguments"] {
            arguments @ Json::Object(_) => Ok(ToolCall { name: tool.name.clone(), arguments: arguments.to_string() }),
            _ => Err(wrong("`arguments`, an object")),
        }
    }

    fn begun(&self, mut answer: Reader<'_>, tools: &[Tool]) -> Option<ToolCall> {
        for part in ["{", "\"name\"", ":"] {
            answer.skip_space();
            answer.take(part).then_some(())?;
        }
        let name = answer.json().ok()?;
        let tool = find(name.as_str()?, tools).ok()?;
        for part in [",", "\"arguments\"", ":"] {
            answer.skip_space();
            answer.take(part).then_some(())?;
        }
        answer.skip_space();
        let is_object = answer.rest().starts_with('{');
        let arguments = if is_object { compact(answer.rest()) } else { String::new() };
        Some(ToolCall { name: tool.name.clone(), arguments })
    }
}
