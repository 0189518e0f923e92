//! Log probabilities of tokens, from the raw row.

use crate::engine::validity::ValidRow;
use crate::types::TokenId;

/// A token and its natural-log probability under the raw row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprob {
    /// The token.
    pub token: TokenId,
    /// `value - log_sum_exp`, in f32; -infinity for a masked token.
    pub logprob: f32,
}

/// What is reported about one emitted token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// The emitted token.
    pub chosen: Logprob,
    /// The best tokens of the row, best first: value descending, id ascending.
    pub alternatives: Vec<Logprob>,
}

/// The log probability of `token`, and of the row's `alternatives` best tokens; `None` for an id that the row does
/// not have.
pub fn logprobs(row: &ValidRow<'_>, token: TokenId, alternatives: u32) -> Option<TokenLogprobs> {
    let log_sum_exp = row.statistics().log_sum_exp;
    let logprob = |token: TokenId, value: f32| Logprob { token, logprob: value - log_sum_exp };
    let chosen = logprob(token, *row.values().get(token.index())?);
    let best = super::sampler::best_tokens(row.values(), alternatives as usize);
    Some(TokenLogprobs { chosen, alternatives: best.into_iter().map(|(id, value)| logprob(id, value)).collect() })
}
