//! Sampling defaults that travel with a model.

use crate::types::TokenId;

/// What the model's authors recommend: `generation_config.json`, or the `general.sampling.*` keys of a GGUF file.
///
/// `None` means that the model says nothing, which is not the same as any value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationConfig {
    /// Sampling temperature.
    pub temperature: Option<f32>,
    /// Nucleus: keep the best tokens up to this probability.
    pub top_p: Option<f32>,
    /// Keep this many of the best tokens; 0 is no limit.
    pub top_k: Option<u32>,
    /// Keep tokens with at least this share of the best one's probability.
    pub min_p: Option<f32>,
    /// Divides the positive logits of tokens that appeared, multiplies the negative ones.
    pub repetition_penalty: Option<f32>,
    /// Tokens that end generation (`eos_token_id`); also part of the tokenizer's end tokens.
    pub end_tokens: Vec<TokenId>,
    /// The whole object as the model has it; an empty object where it has none.
    pub raw: serde_json::Value,
}
