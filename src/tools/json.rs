//! Calls as JSON: `{"name": ..., "arguments": {...}}` between the tags.

use serde_json::{Value as Json, json};

use super::{Tag, Tool, ToolCall, ToolFormat, find, shortened};

/// A JSON object in `<tool_call>` tags, as Hermes, Qwen 2.5 and many others write calls.
#[derive(Clone, Copy, Debug)]
pub struct JsonFormat;

impl ToolFormat for JsonFormat {
    fn name(&self) -> &'static str {
        "json"
    }

    fn tags(&self) -> &'static [&'static str] {
        &[super::OPEN, super::CLOSE]
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

    fn parse(&self, inside: &str, tools: &[Tool]) -> Result<ToolCall, String> {
        let found = || format!("{:?}", shortened(inside.trim()));
        let call: Json = serde_json::from_str(inside)
            .map_err(|error| format!("expected a JSON object, found {} ({error})", found()))?;
        let name = call["name"].as_str().ok_or_else(|| format!("expected `name`, a string, found {}", found()))?;
        let tool = find(name, tools)?;
        match &call["arguments"] {
            arguments @ Json::Object(_) => Ok(ToolCall { name: tool.name.clone(), arguments: arguments.to_string() }),
            _ => Err(format!("expected `arguments`, an object, found {}", found())),
        }
    }
}
