//! Tools: how they stand in the prompt, what a call has to look like, and how calls are read back.
//!
//! A [`ToolFormat`] is the one place where the form of a call is written down. The engine constrains the output with its
//! grammar, the answer is parsed with it, and replay renders the prompt with it, as with the model's chat template.

mod grammar;
mod json;
mod prompt;
mod tagged;

pub use self::grammar::grammar;
pub use self::json::JsonFormat;
pub use self::prompt::{ToldTemplate, for_template};
pub use self::tagged::TaggedFormat;

use serde_json::Value as Json;

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of its arguments, an object.
    pub parameters: Json,
}

/// Whether the model has to call, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// It answers in text.
    None,
    /// It decides.
    Auto,
    /// It calls at least one tool.
    Required,
    /// It calls this one.
    Named(String),
}

/// The tools of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// The tools, in the order of the request.
    pub tools: Vec<Tool>,
    /// Whether one has to be called.
    pub choice: ToolChoice,
    /// Whether several may be called in one answer.
    pub parallel: bool,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Name of the tool.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// What an answer holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The text before the calls.
    pub content: String,
    /// The calls that could be read.
    pub calls: Vec<ToolCall>,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

/// The form of calls.
pub trait ToolFormat: Sync {
    /// Its name in settings and captures.
    fn name(&self) -> &'static str;

    /// The tags of the format, as texts that a tokenizer may have single tokens for.
    fn tags(&self) -> &'static [&'static str];

    /// How a call is made, in words for the model: for models whose chat template knows nothing of tools.
    fn instructions(&self) -> &'static str;

    /// A call as the model writes it.
    fn render(&self, call: &ToolCall) -> String;

    /// The rule of a call of this tool: Lark, without the tags around it, each tag a call of `tag`.
    fn rule(&self, name: &str, tool: &Tool, tag: &dyn Fn(&str) -> Tag) -> String;

    /// Reads the inside of one call.
    ///
    /// # Errors
    /// In words, if it is none.
    fn parse(&self, inside: &str, tools: &[Tool]) -> Result<ToolCall, String>;
}

/// How a tag stands in a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The tag as a Lark expression.
    pub expression: String,
    /// Whether it is a special token, which no free text can spell.
    pub is_special: bool,
}

/// Opens a call.
pub const OPEN: &str = "<tool_call>";
/// Closes it.
pub const CLOSE: &str = "</tool_call>";

/// The formats.
pub const FORMATS: [&dyn ToolFormat; 2] = [&JsonFormat, &TaggedFormat];

/// The format of that name.
pub fn format_named(name: &str) -> Option<&'static dyn ToolFormat> {
    FORMATS.into_iter().find(|format| format.name() == name)
}

impl ToolUse {
    /// The tools that may be called.
    pub fn callable(&self) -> Vec<&Tool> {
        let is_callable = |tool: &&Tool| match &self.choice {
            ToolChoice::None => false,
            ToolChoice::Auto | ToolChoice::Required => true,
            ToolChoice::Named(name) => tool.name == *name,
        };
        self.tools.iter().filter(is_callable).collect()
    }
}

/// Reads an answer; `text` has the texts of special tokens in it.
pub fn parse(text: &str, format: &dyn ToolFormat, tools: &[Tool]) -> Parsed {
    let mut pieces = text.split(OPEN);
    let mut parsed = Parsed { content: pieces.next().unwrap_or_default().trim_end().to_owned(), ..Parsed::default() };
    for (piece, number) in pieces.zip(1..) {
        let Some((inside, after)) = piece.split_once(CLOSE) else {
            parsed.problems.push(format!("call {number} is not closed"));
            continue;
        };
        match format.parse(inside, tools) {
            Ok(call) => parsed.calls.push(call),
            Err(problem) => parsed.problems.push(format!("call {number}: {problem}")),
        }
        if !after.trim().is_empty() {
            parsed.problems.push(format!("text after call {number}: {:?}", shortened(after.trim())));
        }
    }
    parsed
}

/// Calls as JSON: names, and arguments as text.
pub fn calls_json(calls: &[ToolCall]) -> Json {
    calls.iter().map(|call| serde_json::json!({"name": call.name, "arguments": call.arguments})).collect()
}

/// The format that a chat template asks for by its own words.
pub fn format_of_template(template: &str) -> &'static dyn ToolFormat {
    if template.contains("<function=") { &TaggedFormat } else { &JsonFormat }
}

/// The beginning of a text.
fn shortened(text: &str) -> String {
    const CHARACTERS: usize = 60;
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The named tool, or what there is.
fn find<'a>(name: &str, tools: &'a [Tool]) -> Result<&'a Tool, String> {
    let names = || tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ");
    tools
        .iter()
        .find(|tool| tool.name == name)
        .ok_or_else(|| format!("expected a tool of the request ({}), found {name:?}", names()))
}

#[cfg(test)]
mod tests;
