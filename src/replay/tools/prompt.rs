//! What a chat template is told of tools and of calls.
//!
//! A template that speaks of `tools` has a place for them. Any other one is given plain messages: the tools in words at
//! the end of the system message, calls as the text of the assistant, results as messages of the user.

use serde_json::{Map, Value, json};

use super::{CALL, END_CALL, END_FUNCTION, END_PARAMETER, FUNCTION, Format, PARAMETER};
use crate::tools::{Tool, ToolChoice, ToolUse};

/// What a chat template is rendered with.
pub(in crate::replay) struct Told {
    pub(in crate::replay) messages: Vec<Value>,
    /// The tools, for a template that has a place for them.
    pub(in crate::replay) tools: Option<Value>,
}

/// Tells the template `source` of a conversation and its tools.
pub(in crate::replay) fn told(conversation: &[Value], tools: Option<&ToolUse>, format: Format, source: &str) -> Told {
    let tools: &[Tool] = match tools {
        Some(tools) if tools.choice != ToolChoice::None => &tools.tools,
        _ => &[],
    };
    if source.contains("tools") {
        let declared: Vec<Value> =
            tools.iter().map(|tool| json!({"type": "function", "function": function(tool)})).collect();
        let tools = (!declared.is_empty()).then_some(Value::Array(declared));
        return Told { messages: conversation.to_vec(), tools };
    }
    let mut messages: Vec<Value> = Vec::new();
    for message in conversation {
        messages.push(in_words(message, format));
    }
    if !tools.is_empty() {
        tell(&mut messages, &description(tools, format));
    }
    Told { messages, tools: None }
}

/// A tool's name, description and parameters, in this order.
fn function(tool: &Tool) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), Value::from(tool.name.as_str()));
    if let Some(description) = &tool.description {
        function.insert("description".to_owned(), Value::from(description.as_str()));
    }
    function.insert("parameters".to_owned(), tool.parameters.clone());
    Value::Object(function)
}

/// Adds to the system message that comes first, or makes one.
fn tell(messages: &mut Vec<Value>, description: &str) {
    if let Some(first) = messages.first_mut()
        && first["role"] == "system"
    {
        let before = first["content"].as_str().unwrap_or("").to_owned();
        first["content"] = Value::from(before + "\n\n" + description);
        return;
    }
    messages.insert(0, json!({"role": "system", "content": description}));
}

fn description(tools: &[Tool], format: Format) -> String {
    let mut lines = vec!["You can call functions. These are the functions:".to_owned()];
    lines.extend(tools.iter().map(|tool| function(tool).to_string()));
    let (how, form) = match format {
        Format::Json => (
            "To call a function, write its name and its arguments as one JSON object:",
            "{\"name\": FUNCTION, \"arguments\": OBJECT}".to_owned(),
        ),
        Format::Tagged => (
            "To call a function, write its name and each of its parameters in tags:",
            format!("{FUNCTION}FUNCTION>\n{PARAMETER}PARAMETER>\nVALUE\n{END_PARAMETER}\n{END_FUNCTION}"),
        ),
    };
    lines.extend([how.to_owned(), CALL.to_owned(), form, END_CALL.to_owned()]);
    lines.join("\n")
}

/// A message as text alone.
fn in_words(message: &Value, format: Format) -> Value {
    let content = message["content"].as_str().unwrap_or("");
    if message["role"] == "tool" {
        return json!({"role": "user", "content": format!("<tool_response>\n{content}\n</tool_response>")});
    }
    let Some(Value::Array(calls)) = message.get("tool_calls") else { return message.clone() };
    let mut parts: Vec<String> = Vec::new();
    if !content.is_empty() {
        parts.push(content.to_owned());
    }
    for call in calls {
        let function = &call["function"];
        let name = function["name"].as_str().unwrap_or("");
        let inside = match format {
            Format::Json => {
                format!("{{\"name\": {}, \"arguments\": {}}}", Value::from(name), function["arguments"])
            }
            Format::Tagged => tagged(name, &function["arguments"]),
        };
        parts.push(format!("{CALL}\n{inside}\n{END_CALL}"));
    }
    json!({"role": message["role"], "content": parts.join("\n")})
}

fn tagged(name: &str, arguments: &Value) -> String {
    let mut lines = vec![format!("{FUNCTION}{name}>")];
    for (key, value) in arguments.as_object().into_iter().flatten() {
        let value = match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        lines.extend([format!("{PARAMETER}{key}>"), value, END_PARAMETER.to_owned()]);
    }
    lines.push(END_FUNCTION.to_owned());
    lines.join("\n")
}
