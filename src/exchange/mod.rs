//! Between the protocol and the engine: requests become submissions, and what the engine finished becomes an answer.
//!
//! A file of requests and a server go through the same code, so that a request means the same to both.

mod answer;
mod grammars;
mod preparation;

pub use answer::{About, answer, begun_tokens, token_logprob, told_tokens};
pub use grammars::Grammars;
pub use preparation::Preparation;

use crate::params::RequestFault;

/// Why no request can be prepared at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The text that is to end a reasoning section is no token.
    #[error("reasoning-end: accepted: one token of the tokenizer; found: {text:?}")]
    NoSuchToken {
        /// The text.
        text: String,
    },
    /// The model's authors recommend a value that no request could have.
    #[error("the model's generation config: {0}")]
    GenerationConfig(#[source] RequestFault),
}
