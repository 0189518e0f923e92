//! The plain parameters that one choice is sampled with.

use crate::types::TokenId;

/// Fully resolved sampling parameters: what the engine samples with and what replay repeats.
///
/// `docs/arithmetic.md`, "Sampling", defines what each one does to a row and in which order. Values are within the
/// ranges that [`crate::params::wire`] accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divisor of the logits; exactly 0 chooses the greatest logit.
    pub temperature: f32,
    /// Share of the probability mass that the kept tokens must reach, in (0, 1]; 1 keeps every token.
    pub top_p: f32,
    /// Least probability relative to the best token's, in [0, 1]; 0 keeps every token.
    pub min_p: f32,
    /// How many of the best tokens are kept; `None` keeps every token.
    pub top_k: Option<u32>,
    /// Key of the sampling noise. 0 is a seed like any other.
    pub seed: u64,
    /// Divides positive and multiplies other logits of tokens in the prompt or the output; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Subtracted once from the logit of a token that is in the output.
    pub presence_penalty: f32,
    /// Subtracted from the logit of a token once per occurrence in the output.
    pub frequency_penalty: f32,
    /// Added to the logits of single tokens; sorted by id, each id once.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Tokens to emit before the sequence may end.
    pub min_tokens: u32,
    /// Tokens after which the sequence ends.
    pub max_tokens: u32,
    /// Strings that end the sequence; they are not part of the output.
    pub stop: Vec<String>,
    /// Tokens that end the sequence besides the model's end tokens.
    pub stop_token_ids: Vec<TokenId>,
    /// Whether the model's end tokens are ordinary tokens.
    pub ignore_eos: bool,
    /// How many alternatives are reported per token; `None` reports no log probabilities at all.
    pub logprobs: Option<u32>,
    /// Choices to generate.
    pub choices: u32,
}

impl SamplingParams {
    /// Whether the best token is taken as it is, so that no noise is drawn.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Whether any penalty looks at the tokens so far.
    pub fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }
}
