//! Chat templates: messages to prompt text, as `transformers` renders them.
//!
//! The template language is Jinja 2 with what `transformers` adds: `raise_exception`, `strftime_now`, a `tojson` like
//! Python's `json.dumps`, Python's string, list and dictionary methods, and `{% generation %}` blocks.

mod json;
mod time;

use std::{fmt, thread};

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
/// Work that one rendering may do: a template comes with a model and is code, which could loop or grow without end. A unit
/// pays for an instruction or for 64 bytes that are made.
const FUEL: u64 = 1 << 19;
/// Longest source, in bytes; those of published models have up to 20,000.
const LONGEST_SOURCE: usize = 1 << 18;
/// Room for what the engine does recursively: a template's expressions nest as deep as [`LONGEST_SOURCE`] allows, and its
/// values as deep as [`FUEL`] does. Memory that is not touched costs nothing.
const STACK_BYTES: usize = 512 << 20;

impl ChatTemplate {
    /// Checks that the template can be parsed.
    pub(crate) fn new(source: &str, special: SpecialTokenTexts) -> Result<Self, TemplateError> {
        if source.len() > LONGEST_SOURCE {
            let reason = format!("expected at most {LONGEST_SOURCE} bytes, found {}", source.len());
            return Err(TemplateError { line: 1, reason });
        }
        let template = Self { source: source.to_owned(), prepared: without_generation_blocks(source), special };
        on_a_deep_stack(|| environment(0).template_from_named_str(NAME, &template.prepared).map(drop))?;
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
        on_a_deep_stack(|| {
            environment(unix_seconds)
                .template_from_named_str(NAME, &self.prepared)
                .and_then(|template| template.render(variables))
        })
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

/// Runs `work` with [`STACK_BYTES`] of stack.
fn on_a_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, TemplateError> {
    let unnumbered = |reason: String| TemplateError { line: 1, reason };
    // Errors are put into words on that thread: they can hold values of any depth.
    let work = || work().map_err(|error| template_error(&error));
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("chat-template".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work);
        let thread = thread.map_err(|error| unnumbered(format!("cannot start a thread to render it: {error}")))?;
        thread.join().unwrap_or_else(|_| Err(unnumbered("the template engine panicked".to_owned())))
    })
}

/// The engine, set up like that of `transformers`.
fn environment<'source>(unix_seconds: u64) -> Environment<'source> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    // The engine charges for what it shows, and only afterwards.
    environment.set_formatter(|out, state, value| {
        json::check(state, value, usize::MAX)?;
        minijinja::escape_formatter(out, state, value)
    });
    environment.add_filter("tojson", json::to_json);
    // Indents without end, and shows values as no other language does.
    environment.remove_filter("pprint");
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
        (ErrorKind::OutOfFuel, _) => format!(
            "it does more than a chat template may: {FUEL} instructions, or {} MiB of text made on the way",
            (FUEL * 64) >> 20
        ),
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    TemplateError { line: error.line().unwrap_or(1), reason }
}

#[cfg(test)]
mod tests;
