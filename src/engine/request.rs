//! What the engine is asked to do, and why it may refuse.

use std::fmt;
use std::sync::Arc;

use crate::engine::constraint::OutputGrammar;
use crate::params::{ResolvedParams, SamplingParams};
use crate::tools::{ToolFormat, ToolUse};
use crate::types::{RequestId, TokenId};

/// A request whose parameters are resolved and whose prompt is tokenized.
#[derive(Clone, Debug)]
pub struct Submission {
    /// How it came in.
    pub received: Received,
    /// The session whose prefix-cache entries it may use and add to; `None` for a request on its own.
    pub session: Option<String>,
    /// The prompt.
    pub prompt: Prompt,
    /// The parameters it runs with.
    pub sampling: SamplingParams,
    /// Where each of them came from, and what is worth a warning.
    pub resolved: ResolvedParams,
    /// The layers of resolution that are not the client's, as JSON text.
    pub layers: Layers,
    /// What its output has to follow.
    pub grammar: Option<OutputGrammar>,
    /// What it may call.
    pub tools: Option<Tooling>,
}

impl Submission {
    /// Whether the prompt leaves room for a token of the answer.
    ///
    /// # Errors
    /// If it is empty, or fills the context.
    pub fn check_prompt(&self, context_length: usize) -> Result<(), RefusalReason> {
        match self.prompt.tokens.len() {
            0 => Err(RefusalReason::EmptyPrompt),
            prompt if prompt >= context_length => Err(RefusalReason::PromptTooLong { prompt, context: context_length }),
            _ => Ok(()),
        }
    }

    /// Positions that one of its choices can come to use: prompt and output, but for the last token, which is never
    /// read.
    pub fn positions(&self, context_length: usize) -> usize {
        let tokens = self.prompt.tokens.len().saturating_add(self.sampling.max_tokens as usize);
        tokens.min(context_length).saturating_sub(1).max(self.prompt.tokens.len())
    }
}

/// The tools of a request, and how calls are written.
#[derive(Clone)]
pub struct Tooling {
    /// The tools.
    pub tools: ToolUse,
    /// The form of calls.
    pub format: &'static dyn ToolFormat,
}

impl fmt::Debug for Tooling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tooling").field("tools", &self.tools).field("format", &self.format.name()).finish()
    }
}

/// A request as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The client's id for it.
    pub client_id: Option<String>,
    /// The protocol's path, e.g. `/v1/chat/completions`.
    pub endpoint: Option<String>,
    /// The body, byte for byte.
    pub body: Option<String>,
}

/// A prompt, as text and as tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// After the chat template; `None` when the client sent tokens.
    pub text: Option<String>,
    /// Whether the tokenizer was to add its own special tokens.
    pub add_special_tokens: bool,
    /// As the model reads it.
    pub tokens: Vec<TokenId>,
}

/// The server's side of parameter resolution, as JSON text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The operator's overrides.
    pub server_overrides: Option<String>,
    /// The model's generation configuration.
    pub generation_config: Option<String>,
}

/// Whose computation a cached page is: entries of the prefix cache live and fall with their owners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// All requests of a session.
    Session(Arc<str>),
    /// A request on its own.
    Request(RequestId),
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(name) => write!(formatter, "session {name}"),
            Self::Request(request) => write!(formatter, "request {request}"),
        }
    }
}

/// Why the engine refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// There is nothing to continue.
    #[error("the prompt is empty; it needs at least one token")]
    EmptyPrompt,
    /// No room for a token of the answer.
    #[error(
        "the prompt has {prompt} tokens and the model's context holds {context}: \
         shorten the prompt to {} tokens or fewer", context - 1
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Positions of the context.
        context: usize,
    },
    /// A token id outside the vocabulary.
    #[error("token {position} of the prompt is {token}, and the model's vocabulary has {vocabulary} tokens")]
    UnknownToken {
        /// Its index in the prompt.
        position: usize,
        /// The id.
        token: TokenId,
        /// Tokens in the vocabulary.
        vocabulary: usize,
    },
    /// The request could never be admitted.
    #[error(
        "prompt and max_tokens come to {needed} pages of the key-value cache, which has {pages}: \
         lower max_tokens or raise --kv-pages"
    )]
    TooManyPages {
        /// Pages the request can grow to.
        needed: usize,
        /// Pages there are.
        pages: usize,
    },
    /// Refused before it reached the engine.
    #[error("{0}")]
    Invalid(String),
}
