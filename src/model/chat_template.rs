//! Chat templates: messages to prompt text, as `transformers` renders them.

use serde_json::Value;

/// A chat template that could not be rendered.
#[derive(Debug, thiserror::Error)]
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

/// A model's chat template.
#[derive(Debug)]
pub struct ChatTemplate {}

impl ChatTemplate {
    /// The prompt's text. Special tokens stand in it by name: encode it without adding any.
    ///
    /// # Errors
    /// If the template refuses the messages, or does something it should not.
    pub fn render(&self, _prompt: ChatPrompt<'_>) -> Result<String, TemplateError> {
        todo!("within the hour")
    }

    /// The template's text, as the model has it.
    pub fn source(&self) -> &str {
        todo!("within the hour")
    }
}
