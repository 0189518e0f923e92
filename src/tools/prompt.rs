//! Tools and calls in the messages that a chat template reads.

use serde_json::{Value as Json, json};

use super::{CLOSE, OPEN, Tool, ToolCall, ToolChoice, ToolFormat, ToolUse};

/// What a chat template is rendered with.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldTemplate {
    /// The messages.
    pub messages: Vec<Json>,
    /// The tools, for a template that has a place for them.
    pub tools: Option<Json>,
}

/// Tells a chat template of the tools: by its own variable where it has one, and else in words among the messages.
pub fn for_template(
    conversation: &[Json],
    tools: Option<&ToolUse>,
    format: &dyn ToolFormat,
    template: &str,
) -> ToldTemplate {
    if !template.contains("tools") {
        return ToldTemplate { messages: messages(conversation, tools, format), tools: None };
    }
    let tools = tools.filter(|tools| tools.choice != ToolChoice::None && !tools.tools.is_empty());
    ToldTemplate {
        messages: conversation.to_vec(),
        tools: tools.map(|tools| tools.tools.iter().map(declaration).collect()),
    }
}

/// A tool as the protocol has it.
fn declaration(tool: &Tool) -> Json {
    let mut function = serde_json::Map::from_iter([("name".to_owned(), json!(tool.name))]);
    function.extend(tool.description.as_ref().map(|description| ("description".to_owned(), json!(description))));
    function.insert("parameters".to_owned(), tool.parameters.clone());
    json!({"type": "function", "function": function})
}

/// The messages for a template that has no place for tools: they are described in the system message, calls stand in the
/// text of the assistant, and results come from the user.
fn messages(messages: &[Json], tools: Option<&ToolUse>, format: &dyn ToolFormat) -> Vec<Json> {
    let mut told: Vec<Json> = messages.iter().map(|message| plain(message, format)).collect();
    let Some(tools) = tools.filter(|tools| tools.choice != ToolChoice::None && !tools.tools.is_empty()) else {
        return told;
    };
    let described = description(tools, format);
    match told.first_mut().filter(|message| message["role"] == "system") {
        Some(system) => {
            let content = system["content"].as_str().unwrap_or_default();
            system["content"] = json!(format!("{content}\n\n{described}"));
        }
        None => told.insert(0, json!({"role": "system", "content": described})),
    }
    told
}

fn description(tools: &ToolUse, format: &dyn ToolFormat) -> String {
    let function = |tool: &Tool| declaration(tool)["function"].to_string();
    let functions: Vec<String> = tools.tools.iter().map(function).collect();
    format!("You can call functions. These are the functions:\n{}\n{}", functions.join("\n"), format.instructions())
}

/// A message of text alone.
fn plain(message: &Json, format: &dyn ToolFormat) -> Json {
    let text = message["content"].as_str().unwrap_or_default();
    if message["role"] == "tool" {
        return json!({"role": "user", "content": format!("<tool_response>\n{text}\n</tool_response>")});
    }
    let Some(calls) = message["tool_calls"].as_array() else { return message.clone() };
    let rendered = calls.iter().map(|call| {
        let function = &call["function"];
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        format!("{OPEN}{}{CLOSE}", format.render(&ToolCall { name, arguments: function["arguments"].to_string() }))
    });
    let parts: Vec<String> =
        Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().chain(rendered).collect();
    json!({"role": message["role"], "content": parts.join("\n")})
}
