//! Tools: how they stand in the prompt, what a call has to look like, and how calls are read back.
//!
//! A [`ToolFormat`] is where the engine has the form of a call: prompts are written with it, outputs are constrained to its
//! grammar, and answers are read with it. Replay has the form in code of its own (`replay::tools`); of this module it takes
//! the types, and the grammar for one comparison.

mod begun;
mod begun_json;
mod grammar;
mod json;
mod prompt;
mod reading;
mod tagged;
mod tagged_schema;

pub use self::begun::{Begun, BegunCall, begun};
pub use self::grammar::grammar;
pub use self::json::JsonFormat;
pub use self::prompt::{ToldTemplate, for_template};
pub use self::reading::{NoCall, ReadCall, Reader, Spelled};
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

    /// Whether calls of this form hold to all that the tool's schema asks for.
    ///
    /// # Errors
    /// With the first thing that they do not hold to.
    fn check(&self, _tool: &Tool) -> Result<(), Unfit> {
        Ok(())
    }

    /// Reads one call, from after its opening tag to after its closing one.
    ///
    /// # Errors
    /// If none stands there. Where it is [`NoCall::Wrong`], the closing tag was taken all the same.
    fn read(&self, answer: &mut Reader<'_>, tools: &[Tool]) -> ReadCall;

    /// What is certain of a call that has only begun, from after its opening tag: whatever follows, a call that is read there
    /// has this name, and arguments that begin like this. `None` while the name is not certain.
    fn begun(&self, answer: Reader<'_>, tools: &[Tool]) -> Option<ToolCall>;
}

/// What of a tool's schema a format does not hold to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Where it stands in the schema.
    pub place: String,
    /// What can stand there.
    pub accepted: String,
    /// What does.
    pub found: String,
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

/// Reads an answer. What follows an opening tag and has not the form of a call is gone over as far as the next one; all that
/// is no call is said.
pub fn parse(answer: &Spelled, format: &dyn ToolFormat, tools: &[Tool]) -> Parsed {
    let mut reader = answer.reader();
    let mut parsed = Parsed::default();
    let mut opened = reader.until_tag(OPEN);
    parsed.content = opened.unwrap_or(reader.rest()).trim_end().to_owned();
    let mut number = 0;
    while opened.is_some() {
        number += 1;
        let start = reader;
        let read = format.read(&mut reader, tools);
        if matches!(read, Err(NoCall::Unformed(_))) {
            reader = start;
        }
        let behind = reader;
        opened = reader.until_tag(OPEN);
        let after = opened.unwrap_or(behind.rest());
        let mut inside = behind;
        let is_closed = inside.until_tag(CLOSE).is_some_and(|inside| inside.len() < after.len());
        match &read {
            Ok(_) => {}
            Err(NoCall::Unformed(_)) if !is_closed => parsed.problems.push(format!("call {number} is not closed")),
            Err(NoCall::Unformed(problem) | NoCall::Wrong(problem)) => {
                parsed.problems.push(format!("call {number}: {problem}"));
            }
        }
        if !matches!(read, Err(NoCall::Unformed(_))) && !after.trim().is_empty() {
            parsed.problems.push(format!("text after call {number}: {:?}", shortened(after.trim())));
        }
        parsed.calls.extend(read);
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
