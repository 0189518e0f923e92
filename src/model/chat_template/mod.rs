//! Chat templates: messages to prompt text, as `transformers` renders them.
//!
//! The template language is Jinja 2 with what `transformers` adds: `raise_exception`, `strftime_now`, a `tojson` like
//! Python's `json.dumps`, Python's string, list and dictionary methods, and `{% generation %}` blocks.

mod json;
mod time;

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, context};
use serde_json::Value;

/// A chat template that could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chat template, line {line}: {reason}")]
pub struct TemplateError {
    /// Line of the template, counted from 1.
    pub line: usize,
    /// What went wrong; the template's own words where it called `raise_exception`.
    pub reason: String,
}

/// What a template is rendered with.
#[derive(Clone, Copy, Debug)]
pub struct ChatPrompt<'a> {
    /// The conversation, as the OpenAI protocol has it.
    pub messages: &'a [Value],
    /// The tools, as the OpenAI protocol has them.
    pub tools: Option<&'a Value>,
    /// Whether the text is to end where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// The time that the template sees (`strftime_now`), in seconds since the Unix epoch, UTC.
    pub unix_seconds: u64,
}

/// Texts of the special tokens that templates name.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpecialTokenTexts {
    /// `bos_token`; undefined in the template where the model has none.
    pub(crate) begin_of_sequence: Option<String>,
    /// `eos_token`.
    pub(crate) end_of_sequence: Option<String>,
}

/// A model's chat template.
#[derive(Clone)]
pub struct ChatTemplate {
    source: String,
    /// The source in the language that the template engine knows.
    prepared: String,
    special: SpecialTokenTexts,
}

/// The name by which the engine knows the template; it has no extension, which would switch on HTML escaping.
const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Checks that the template can be parsed.
    pub(crate) fn new(source: &str, special: SpecialTokenTexts) -> Result<Self, TemplateError> {
        let template = Self { source: source.to_owned(), prepared: without_generation_blocks(source), special };
        environment(0).template_from_named_str(NAME, &template.prepared).map_err(|error| template_error(&error))?;
        Ok(template)
    }

    /// The prompt's text. Special tokens stand in it by name: encode it without adding any.
    ///
    /// # Errors
    /// If the template refuses the messages, or does something it should not.
    pub fn render(&self, prompt: ChatPrompt<'_>) -> Result<String, TemplateError> {
        let ChatPrompt { messages, tools, add_generation_prompt, unix_seconds } = prompt;
        let SpecialTokenTexts { begin_of_sequence, end_of_sequence } = &self.special;
        let or_undefined = |text: &Option<String>| text.as_deref().map_or(minijinja::Value::UNDEFINED, Into::into);
        let variables = context! {
            messages => Serde(messages),
            tools => tools.map(Serde),
            documents => (),
            add_generation_prompt,
            bos_token => or_undefined(begin_of_sequence),
            eos_token => or_undefined(end_of_sequence),
        };
        environment(unix_seconds)
            .template_from_named_str(NAME, &self.prepared)
            .and_then(|template| template.render(variables))
            .map_err(|error| template_error(&error))
    }

    /// The template's text, as the model has it.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, special, prepared: _ } = self;
        formatter.debug_struct("ChatTemplate").field("bytes", &source.len()).field("special", special).finish()
    }
}

/// The engine, set up like that of `transformers`.
fn environment<'source>(unix_seconds: u64) -> Environment<'source> {
    let mut environment = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", json::to_json);
    environment.add_function("raise_exception", |reason: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, reason))
    });
    environment.add_function("strftime_now", move |format: String| time::format(&format, unix_seconds));
    environment
}

/// `{% generation %}` marks the assistant's tokens for training and changes no text. A block that is always taken
/// stands in for it, so that the tags' whitespace control and the line numbers stay as they are.
fn without_generation_blocks(source: &str) -> String {
    let mut prepared = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        prepared.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end + "%}".len());
        let word = tag.trim_start_matches("{%").trim_end_matches("%}").trim_matches(['-', '+']).trim();
        match word {
            "generation" => prepared.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => prepared.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => prepared.push_str(tag),
        }
        rest = after;
    }
    prepared.push_str(rest);
    prepared
}

fn template_error(error: &Error) -> TemplateError {
    let reason = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    TemplateError { line: error.line().unwrap_or(1), reason }
}

#[cfg(test)]
mod tests;
