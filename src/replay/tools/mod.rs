//! Tools, plainly: what a request may call, how calls are written, and what an answer calls.
//!
//! Written from the definition of the two formats, apart from [`crate::tools`], which the engine uses. The vocabulary is
//! shared (the types of tools); the grammar's source is compared with what that shared code makes, in [`shared`] alone.

mod answer;
mod arguments;
mod calls;
mod prompt;
mod shared;
mod spelled;

pub(super) use self::answer::{Answer, Judgement, judge};
pub(crate) use self::answer::{begins, may_call, without_end};
pub(crate) use self::arguments::Judge;
pub(super) use self::calls::calls_json;
pub(crate) use self::calls::{Follows, Opened, Unread, opened};
pub(super) use self::prompt::told;
pub(super) use self::shared::constraint;
pub(crate) use self::spelled::Spelled;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::context::Context;
use super::verdict::Skip;
use crate::tools::{Tool, ToolChoice, ToolUse};

/// How calls are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object with `name` and `arguments` between the tags of a call.
    Json,
    /// A `<function=NAME>` tag between them, and a `<parameter=KEY>` tag per argument in that.
    Tagged,
}

/// Opens a call.
pub(crate) const CALL: &str = "<tool_call>";
/// Closes one.
pub(crate) const END_CALL: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const END_FUNCTION: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const END_PARAMETER: &str = "</parameter>";
const TAGS: [&str; 6] = [CALL, END_CALL, FUNCTION, END_FUNCTION, PARAMETER, END_PARAMETER];

impl Format {
    /// Its name in settings and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Tagged => "tagged",
        }
    }

    /// The format of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Json, Self::Tagged].into_iter().find(|format| format.name() == name)
    }

    /// The tags of its calls.
    pub(crate) fn tags(self) -> &'static [&'static str] {
        match self {
            Self::Json => &TAGS[..2],
            Self::Tagged => &TAGS,
        }
    }
}

/// How the engine wrote calls: as its setting says, or else as the model's chat template does.
///
/// # Errors
/// If the setting is none that is known here: what a format unknown asks for is not known either.
pub(super) fn format_of(context: &Context<'_>) -> Result<Format, Skip> {
    let settings = &context.recording.header().configuration;
    let setting = settings.iter().find(|setting| setting.name == "tool-format").map(|setting| setting.value.as_str());
    match setting {
        Some("\"json\"") => Ok(Format::Json),
        Some("\"tagged\"") => Ok(Format::Tagged),
        None | Some("null") => {
            let template = context.model().and_then(|model| model.chat_template.as_ref());
            let is_tagged = template.is_some_and(|template| template.source().contains(FUNCTION));
            Ok(if is_tagged { Format::Tagged } else { Format::Json })
        }
        Some(other) => {
            const SHOWN: usize = 40;
            let other = &other[..other.floor_char_boundary(SHOWN)];
            Err(Skip::missing(format!("the setting `tool-format` is {other}, which is not known here")))
        }
    }
}

/// Tools by their names.
pub(crate) struct Callable<'a>(HashMap<&'a str, &'a Tool>);

impl<'a> Callable<'a> {
    /// Of two with one name, the first.
    pub(crate) fn new(tools: &'a [Tool]) -> Self {
        Self(tools.iter().rev().map(|tool| (tool.name.as_str(), tool)).collect())
    }

    fn named(&self, name: &str) -> Option<&'a Tool> {
        self.0.get(name).copied()
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.0.keys().copied()
    }
}

/// The tools that a body brings; `None` if it brings none.
pub(crate) fn tools_of(body: &Map<String, Value>) -> Option<ToolUse> {
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

/// The schema of a tool's parameter, if it declares one of that name.
fn parameter<'a>(tool: &'a Tool, key: &str) -> Option<&'a Value> {
    tool.parameters.get("properties")?.get(key)
}

/// Whether a tagged value is text as it stands, and no JSON: a parameter of type string, or one that lists texts only.
fn is_text(schema: &Value) -> bool {
    listed_texts(schema).is_some() || schema.get("type") == Some(&Value::from("string"))
}

/// The texts of a schema that lists texts only.
fn listed_texts(schema: &Value) -> Option<Vec<&str>> {
    schema.get("enum")?.as_array()?.iter().map(Value::as_str).collect()
}

/// Whether a free text spells a tag of tagged calls, so that the call is broken.
fn spells_a_tag(text: &str) -> bool {
    TAGS.iter().any(|tag| text.contains(tag))
}

#[cfg(test)]
mod tests;
