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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::scalar;

    #[test]
    fn alternatives_are_best_first_and_sum_to_one() {
        let row = [0.5, 2.0, f32::NEG_INFINITY, 2.0, -1.0];
        let statistics = scalar::row_statistics(&row);
        let row = ValidRow::check(&row, &statistics).expect("valid");
        let found = logprobs(&row, TokenId(0), 9).expect("a token of the row");
        let ids: Vec<_> = found.alternatives.iter().map(|alternative| alternative.token.0).collect();
        assert_eq!(ids, [1, 3, 0, 4, 2]);
        let sum: f64 = found.alternatives.iter().map(|alternative| f64::from(alternative.logprob).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        assert_eq!(found.chosen, found.alternatives[2]);
        assert_eq!(found.chosen.logprob, 0.5 - statistics.log_sum_exp);
        assert_eq!(found.alternatives[4].logprob, f32::NEG_INFINITY);
    }

    #[test]
    fn no_alternatives_leaves_the_chosen_token() {
        let row = [0.5, 2.0];
        let statistics = scalar::row_statistics(&row);
        let row = ValidRow::check(&row, &statistics).expect("valid");
        let found = logprobs(&row, TokenId(1), 0).expect("a token of the row");
        assert!(found.alternatives.is_empty() && found.chosen.token == TokenId(1));
        assert_eq!(logprobs(&row, TokenId(2), 0), None);
    }
}
