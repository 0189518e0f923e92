//! From what the engine finished to an answer of the protocol.

use crate::engine::FinishedChoice;
use crate::engine::logprobs::{Logprob, TokenLogprobs};
use crate::model::Tokenizer;
use crate::params::Endpoint;
use crate::params::response::{Answer, Choice, TextLogprob, TokenLogprob, Usage};
use crate::types::{FinishReason, TokenId};

/// What an answer says besides its choices.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Where the request was sent.
    pub endpoint: Endpoint,
    /// The request's id; the answer's is made of it.
    pub id: &'a str,
    /// Seconds since the Unix epoch; 0 where answers are to be reproducible.
    pub created: u64,
    /// Name of the model.
    pub model: &'a str,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Whether the request asked for log probabilities.
    pub wants_logprobs: bool,
}

impl About<'_> {
    /// The answer's id.
    pub fn answer_id(&self) -> String {
        let prefix = match self.endpoint {
            Endpoint::ChatCompletions => "chatcmpl",
            Endpoint::Completions => "cmpl",
        };
        format!("{prefix}-{}", self.id)
    }
}

/// The answer that has these choices, by index.
pub fn answer(about: &About<'_>, choices: Vec<FinishedChoice>, tokenizer: &Tokenizer) -> Answer {
    let emitted = choices.iter().map(|choice| choice.tokens.len() as u32).sum();
    let choice = |choice| self::choice(choice, about.wants_logprobs, tokenizer);
    Answer {
        endpoint: about.endpoint,
        id: about.answer_id(),
        created: about.created,
        model: about.model.to_owned(),
        usage: Usage::new(about.prompt_tokens, emitted),
        choices: choices.into_iter().map(choice).collect(),
    }
}

fn choice(choice: FinishedChoice, wants_logprobs: bool, tokenizer: &Tokenizer) -> Choice {
    let logprobs = wants_logprobs.then(|| {
        let told = told_tokens(&choice, tokenizer).min(choice.logprobs.len());
        choice.logprobs[..told].iter().map(|entry| token_logprob(entry, tokenizer)).collect()
    });
    let parsed = choice.calls.unwrap_or_default();
    let text = if parsed.calls.is_empty() { choice.text } else { parsed.content };
    Choice { text, calls: parsed.calls, call_problems: parsed.problems, finish: choice.reason, logprobs }
}

/// How many of a choice's tokens are part of its text: not the end or stop token that ended it, nor those that lie wholly
/// in the stop string.
pub fn told_tokens(choice: &FinishedChoice, tokenizer: &Tokenizer) -> usize {
    let count = choice.tokens.len();
    match choice.reason {
        FinishReason::EndToken(_) | FinishReason::StopToken(_) => count.saturating_sub(1),
        FinishReason::StopString(_) => begun_tokens(&choice.tokens, choice.text.len(), tokenizer),
        _ => count,
    }
}

/// How many of the tokens begin within the first `bytes` of their text.
pub fn begun_tokens(tokens: &[TokenId], bytes: usize, tokenizer: &Tokenizer) -> usize {
    let mut end = 0;
    let begins_in_text = |token: &&TokenId| {
        let begins = end;
        end += tokenizer.token_bytes(**token).len();
        begins < bytes
    };
    tokens.iter().take_while(begins_in_text).count()
}

/// What is told of a token: the chosen one and its alternatives, as bytes.
pub fn token_logprob(entry: &TokenLogprobs, tokenizer: &Tokenizer) -> TokenLogprob {
    let text = |logprob: &Logprob| TextLogprob {
        bytes: tokenizer.token_bytes(logprob.token).to_vec(),
        logprob: logprob.logprob,
    };
    TokenLogprob { chosen: text(&entry.chosen), alternatives: entry.alternatives.iter().map(text).collect() }
}
