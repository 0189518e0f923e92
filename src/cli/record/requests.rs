//! From a line of the request file to what the engine takes.

use std::path::Path;

use anyhow::Context;

use super::outputs::OutputLine;
use crate::engine::{Clock, Layers, Prompt, Received, Submission};
use crate::model::{ChatPrompt, ChatTemplate, Model, Tokenizer};
use crate::params::{Defaults, Input, Request, RequestError, RequestFault, RequestFields, RequestLine, read_lines};

/// Reads a request file.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<RequestLine>> {
    let place = || format!("requests file {}", path.display());
    let bytes = std::fs::read(path).with_context(place)?;
    read_lines(&bytes).with_context(place)
}

/// A line that is ready for the engine, or refused.
pub(super) struct Line {
    /// What its output line needs.
    pub output: OutputLine,
    /// The request as it was received.
    pub received: Received,
    /// The request, or why it is refused.
    pub prepared: Result<Submission, RequestError>,
}

/// What turns requests into submissions.
pub(in crate::cli) struct Preparation<'a> {
    tokenizer: &'a Tokenizer,
    chat_template: Option<&'a ChatTemplate>,
    defaults: Defaults,
    layers: Layers,
    /// The time that chat templates see: that of the capture's header, so that replay can render them again.
    unix_seconds: u64,
}

impl<'a> Preparation<'a> {
    /// # Errors
    /// If the model's generation config recommends what no request could have.
    pub fn new(
        model: &'a Model,
        overrides: RequestFields,
        context_length: usize,
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        let defaults = Defaults::of_model(model, overrides, context_length).context("the model's generation config")?;
        let layers = Layers {
            server_overrides: Some(defaults.server.to_json().to_string()),
            generation_config: Some(defaults.generation_config.to_json().to_string()),
        };
        let unix_seconds = clock.epoch_ns() / 1_000_000_000;
        let chat_template = model.chat_template.as_ref();
        Ok(Self { tokenizer: &model.tokenizer, chat_template, defaults, layers, unix_seconds })
    }

    /// Resolves a line's parameters and tokenizes its prompt.
    pub(super) fn prepare(&self, line: RequestLine) -> Line {
        let RequestLine { line, custom_id, body, request } = line;
        let endpoint = request.as_ref().ok().map(Request::endpoint);
        let received = Received {
            client_id: custom_id.clone(),
            endpoint: endpoint.map(|endpoint| endpoint.path().to_owned()),
            body: Some(body),
        };
        let prepared = request
            .and_then(|request| self.submission(&request, received.clone()).map_err(|fault| fault.at_line(line)));
        Line { output: OutputLine::new(line, custom_id, endpoint), received, prepared }
    }

    /// What the engine takes of a request.
    pub fn submission(&self, request: &Request, received: Received) -> Result<Submission, RequestFault> {
        let resolved = request.resolve(&self.defaults)?;
        let prompt = self.prompt(&request.input)?;
        let sampling = resolved.sampling();
        Ok(Submission { received, session: None, prompt, sampling, resolved, layers: self.layers.clone() })
    }

    fn prompt(&self, input: &Input) -> Result<Prompt, RequestFault> {
        let encode = |field: &'static str, text: String, add_special_tokens: bool| {
            let tokens = self.tokenizer.encode(&text, add_special_tokens);
            let tokens = tokens.map_err(|error| fault(field, "a text that the tokenizer takes", error))?;
            Ok(Prompt { text: Some(text), add_special_tokens, tokens })
        };
        match input {
            Input::Tokens(tokens) => Ok(Prompt { text: None, add_special_tokens: false, tokens: tokens.clone() }),
            Input::Text(text) => encode("prompt", text.clone(), true),
            Input::Messages(messages) => {
                let template = self.chat_template.ok_or_else(|| RequestFault::NotSupported {
                    field: "messages".to_owned(),
                    why: "the model has no chat template; send a `prompt`".to_owned(),
                })?;
                let prompt =
                    ChatPrompt { messages, tools: None, add_generation_prompt: true, unix_seconds: self.unix_seconds };
                let text = template.render(prompt);
                let text = text.map_err(|error| fault("messages", "what the model's chat template renders", error))?;
                // The template writes the special tokens itself.
                encode("messages", text, false)
            }
        }
    }
}

fn fault(field: &str, accepted: &str, error: impl ToString) -> RequestFault {
    RequestFault::Value { field: field.to_owned(), accepted: accepted.to_owned(), found: error.to_string() }
}
