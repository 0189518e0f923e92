//! The fast sampler against its definition, against softmax, and on the rows that must never become a token.

mod cases;
mod definition;
mod distribution;
mod invalid_rows;
mod reference;
mod verification;

use super::{SampleContext, TokenCounts};
use crate::params::SamplingParams;
use crate::types::{ChoiceIndex, Position};

/// Parameters that change nothing: plain sampling at temperature 1.
fn plain() -> SamplingParams {
    SamplingParams {
        temperature: 1.0,
        top_p: 1.0,
        min_p: 0.0,
        top_k: None,
        seed: 7,
        repetition_penalty: 1.0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        logit_bias: Vec::new(),
        min_tokens: 0,
        max_tokens: 100,
        stop: Vec::new(),
        stop_token_ids: Vec::new(),
        ignore_eos: false,
        logprobs: None,
        choices: 1,
    }
}

/// The first token of a first choice, at this position, which no grammar masks.
fn unmasked<'a>(params: &'a SamplingParams, counts: &'a TokenCounts, position: u32) -> SampleContext<'a> {
    let (position, choice) = (Position(position), ChoiceIndex(0));
    SampleContext { params, counts, emitted: 0, end_tokens: &[], mask: None, position, choice }
}
