//! The tools of a request, read from its body as it was received.

use serde_json::{Map, Value, json};

use super::context::Context;
use crate::tools::{self, Tool, ToolChoice, ToolFormat, ToolUse};

/// The tools that a body brings; `None` if it brings none.
pub(super) fn tools_of(body: &Map<String, Value>) -> Option<ToolUse> {
    let tools: Vec<Tool> = body.get("tools")?.as_array()?.iter().map(tool).collect::<Option<_>>()?;
    if tools.is_empty() {
        return None;
    }
    let choice = match body.get("tool_choice").unwrap_or(&Value::Null) {
        Value::Null => ToolChoice::Auto,
        Value::String(choice) if choice == "none" => ToolChoice::None,
        Value::String(choice) if choice == "required" => ToolChoice::Required,
        Value::String(_) => ToolChoice::Auto,
        named => ToolChoice::Named(named["function"]["name"].as_str()?.to_owned()),
    };
    let parallel = body.get("parallel_tool_calls").and_then(Value::as_bool).unwrap_or(true);
    Some(ToolUse { tools, choice, parallel })
}

fn tool(tool: &Value) -> Option<Tool> {
    let function = &tool["function"];
    let parameters = match &function["parameters"] {
        Value::Object(schema) => {
            let mut schema = schema.clone();
            schema.entry("type").or_insert(json!("object"));
            Value::Object(schema)
        }
        _ => json!({"type": "object", "properties": {}, "additionalProperties": false}),
    };
    let name = function["name"].as_str()?.to_owned();
    Some(Tool { name, description: function["description"].as_str().map(str::to_owned), parameters })
}

/// How the engine wrote calls: as its setting says, or else as the model's chat template does.
pub(super) fn format_of(context: &Context<'_>) -> &'static dyn ToolFormat {
    let setting = context.setting("tool-format");
    let named = setting.as_ref().and_then(|name| name.as_str()).and_then(tools::format_named);
    let template = context.model().and_then(|model| model.chat_template.as_ref());
    named.unwrap_or_else(|| tools::format_of_template(template.map_or("", |template| template.source())))
}
