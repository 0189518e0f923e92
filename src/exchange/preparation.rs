//! From a request to what the engine takes.

use super::{ExchangeError, Grammars};
use crate::engine::faults::Fault;
use crate::engine::{Clock, Layers, Prompt, Received, Submission, Tooling};
use crate::model::{ChatPrompt, ChatTemplate, Model, Tokenizer};
use crate::params::{Defaults, Input, OutputConstraint, Request, RequestFault, RequestFields};
use crate::tools::{self, ToolFormat, ToolUse, Unfit};

/// What turns requests into submissions.
pub struct Preparation<'a> {
    tokenizer: &'a Tokenizer,
    chat_template: Option<&'a ChatTemplate>,
    grammars: Grammars<'a>,
    /// A planted fault of the resolution.
    fault: Option<Fault>,
    tool_format: &'static dyn ToolFormat,
    defaults: Defaults,
    layers: Layers,
    /// The time that chat templates see: that of the capture's header, so that replay can render them again.
    unix_seconds: u64,
}

impl<'a> Preparation<'a> {
    /// What stands behind requests to `model`: the operator's overrides, a context of that many tokens, and the time that chat
    /// templates are told, which is that of the clock's beginning.
    ///
    /// # Errors
    /// If the model's generation config recommends what no request could have.
    pub fn new(
        model: &'a Model,
        grammars: Grammars<'a>,
        overrides: RequestFields,
        context_length: usize,
        clock: &Clock,
    ) -> Result<Self, ExchangeError> {
        let defaults = Defaults::of_model(model, overrides, context_length).map_err(ExchangeError::GenerationConfig)?;
        let layers = Layers {
            server_overrides: Some(defaults.server.to_json().to_string()),
            generation_config: Some(defaults.generation_config.to_json().to_string()),
        };
        let unix_seconds = clock.epoch_ns() / 1_000_000_000;
        let chat_template = model.chat_template.as_ref();
        let tool_format = tools::format_of_template(chat_template.map_or("", ChatTemplate::source));
        let fault = None;
        Ok(Self {
            tokenizer: &model.tokenizer,
            chat_template,
            grammars,
            fault,
            tool_format,
            defaults,
            layers,
            unix_seconds,
        })
    }

    /// The same with a planted fault, where it is one of the resolution.
    pub fn with_fault(self, fault: Option<Fault>) -> Self {
        Self { fault, ..self }
    }

    /// The same with calls written in that form, whatever the chat template says.
    pub fn with_tool_format(self, tool_format: &'static dyn ToolFormat) -> Self {
        Self { tool_format, ..self }
    }

    /// Tokens of the longest sequence.
    pub fn context_length(&self) -> usize {
        self.defaults.context_length as usize
    }

    /// What the engine takes of a request.
    ///
    /// # Errors
    /// If the request cannot be honoured, with the field that is at fault.
    pub fn submission(&self, request: &Request, received: Received) -> Result<Submission, RequestFault> {
        let mut resolved = request.resolve(&self.defaults)?;
        if let Some(fault) = self.fault {
            fault.resolve(&mut resolved);
        }
        let told = request.tools.as_ref();
        let prompt = self.prompt(&request.input, self.fault.map_or(told, |fault| fault.told(told)))?;
        let sampling = resolved.sampling();
        let compile = |output| self.grammars.compile(output, &prompt.tokens);
        let constraint = match &request.constraint {
            Some(constraint) => Some(constraint.clone()),
            None => self.constraint_of_tools(request)?,
        };
        let grammar = constraint.as_ref().map(compile).transpose()?;
        let tools = request.tools.clone().map(|tools| Tooling { tools, format: self.tool_format });
        let layers = self.layers.clone();
        Ok(Submission { received, session: None, prompt, sampling, resolved, layers, grammar, tools })
    }

    /// What the tools of a request demand of its output.
    fn constraint_of_tools(&self, request: &Request) -> Result<Option<OutputConstraint>, RequestFault> {
        let Some(tools) = &request.tools else { return Ok(None) };
        let asked = self.fault.map_or_else(|| tools.clone(), |fault| fault.asked(tools));
        let constraint = tools::grammar(&asked, self.tool_format, self.tokenizer);
        for (index, tool) in tools.tools.iter().enumerate().filter(|_| constraint.is_some()) {
            self.tool_format.check(tool).map_err(|Unfit { place, accepted, found }| {
                fault(&format!("tools[{index}].function.parameters.{place}"), &accepted, found)
            })?;
        }
        Ok(constraint.map(|constraint| OutputConstraint { field: "tools", constraint }))
    }

    /// The tokens of a prompt, and the text that they are read from.
    ///
    /// # Errors
    /// If the model has no chat template for messages, or template or tokenizer fail.
    pub fn prompt(&self, input: &Input, tools: Option<&ToolUse>) -> Result<Prompt, RequestFault> {
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
                let told = tools::for_template(messages, tools, self.tool_format, template.source());
                let prompt = ChatPrompt {
                    messages: &told.messages,
                    tools: told.tools.as_ref(),
                    add_generation_prompt: true,
                    unix_seconds: self.unix_seconds,
                };
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
