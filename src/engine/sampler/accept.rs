//! Whether a draft stands: the row's token beside the draft that was read after it.
//!
//! Greedy rows and rows under [`VerifyRule::Coupled`] give the token that they give without a draft; the draft is
//! accepted when it is that token. Under [`VerifyRule::Rejection`] (Leviathan et al., "Fast inference from transformers
//! via speculative decoding", 2023) a sampled row tests the draft against its probability, so that the token depends on
//! where drafts stood, and its distribution does not.

use super::select::Ranked;
use super::truncate::Kept;
use super::{SampleContext, SampleError, Sampler};
use crate::arith::scalar;
use crate::engine::validity::ValidRow;
use crate::types::TokenId;

/// How a sampled row is verified; greedy rows have no choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyRule {
    /// A draft is accepted when it is the token that plain decoding draws there.
    #[default]
    Coupled,
    /// A draft is accepted with probability min(1, p/q), and replaced from the residual max(p - q, 0) else.
    Rejection,
}

impl VerifyRule {
    /// Its name on command lines and in captures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Coupled => "coupled",
            Self::Rejection => "rejection",
        }
    }
}

/// A proposed token, and how its drafter came to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The token.
    pub token: TokenId,
    /// The distribution it was drawn from, sorted by id; `None` for a drafter without probabilities, whose q is 1.
    pub distribution: Option<Vec<(TokenId, f64)>>,
}

impl Draft {
    /// A draft of a drafter without probabilities.
    pub fn certain(token: TokenId) -> Self {
        Self { token, distribution: None }
    }

    /// The drafter's probability of a token.
    pub fn probability(&self, token: TokenId) -> f64 {
        match &self.distribution {
            None => f64::from(u8::from(token == self.token)),
            Some(distribution) => match distribution.binary_search_by_key(&token, |&(id, _)| id) {
                Ok(index) => distribution[index].1,
                Err(_) => 0.0,
            },
        }
    }
}

/// What a row decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The token that comes next.
    pub token: TokenId,
    /// The test that a draft was put to, where it was one of chance.
    pub odds: Option<Odds>,
}

/// A draft's test under [`VerifyRule::Rejection`]: accepted when `u * q < p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Odds {
    /// The target's probability of the draft, after all filters.
    pub p: f64,
    /// The drafter's.
    pub q: f64,
    /// The uniform.
    pub u: f64,
}

impl Odds {
    /// Whether the draft passes.
    pub fn accepts(&self) -> bool {
        self.u * self.q < self.p
    }
}

impl Sampler {
    /// The token that comes after `row`, where `draft` was proposed for it.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn judge(
        &mut self,
        row: &ValidRow<'_>,
        context: &SampleContext<'_>,
        draft: Option<&Draft>,
        rule: VerifyRule,
    ) -> Result<Judgement, SampleError> {
        match draft {
            Some(draft) if rule == VerifyRule::Rejection && !context.params.is_greedy() => {
                self.test(row, context, draft)
            }
            _ => Ok(Judgement { token: self.sample(row, context)?, odds: None }),
        }
    }

    /// Puts a draft to the test of chance.
    fn test(
        &mut self,
        row: &ValidRow<'_>,
        context: &SampleContext<'_>,
        draft: &Draft,
    ) -> Result<Judgement, SampleError> {
        let target = self.probabilities(row, context)?;
        let (position, choice, seed) = (context.position.0, context.choice.0, context.params.seed);
        let p = target.iter().find(|&&(id, _)| id == draft.token).map_or(0.0, |&(_, p)| p);
        let words = scalar::philox(seed, [position, 0, choice, scalar::PURPOSE_ACCEPT]);
        let odds = Odds { p, q: draft.probability(draft.token), u: scalar::uniform(words[0]) };
        if odds.accepts() {
            return Ok(Judgement { token: draft.token, odds: Some(odds) });
        }
        let residual =
            |&(id, p): &(TokenId, f64)| Some((id, p - draft.probability(id))).filter(|&(_, left)| left > 0.0);
        let draw = |weights: &mut dyn Iterator<Item = (TokenId, f64)>| {
            let score = |(id, weight): (TokenId, f64)| {
                let noise = scalar::gumbel_for(scalar::PURPOSE_RESIDUAL, seed, position, choice, id.0);
                (scalar::log(weight) + noise, id)
            };
            let better =
                |a: (f64, TokenId), b: (f64, TokenId)| if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a };
            weights.map(score).reduce(better).map(|(_, id)| id)
        };
        // Rounding can leave no residual though the draft was rejected; what else there is decides then.
        let token = draw(&mut target.iter().filter_map(residual))
            .or_else(|| draw(&mut target.iter().copied().filter(|&(id, p)| id != draft.token && p > 0.0)));
        let token = token.ok_or(SampleError::NothingLeft { position: context.position })?;
        Ok(Judgement { token, odds: Some(odds) })
    }

    /// The probabilities of the tokens that the filters keep, best first.
    fn probabilities(
        &mut self,
        row: &ValidRow<'_>,
        context: &SampleContext<'_>,
    ) -> Result<Vec<(TokenId, f64)>, SampleError> {
        let maximum = self.divided(row, context)?.1;
        let processed = if self.processed.is_empty() { row.values() } else { &self.processed };
        let mut weights: Vec<(TokenId, f64)> = {
            let weight =
                |token: &Ranked| (TokenId(token.id()), f64::from(scalar::exp(processed[token.index()] - maximum)));
            match self.truncation.apply(self.kernels, processed, maximum, context.params) {
                Kept::Row => {
                    let mut ranked: Vec<Ranked> =
                        processed.iter().zip(0..).map(|(&value, id)| Ranked::new(id, value)).collect();
                    ranked.sort_unstable();
                    ranked.iter().map(weight).collect()
                }
                Kept::Tokens(tokens) => {
                    let mut ranked = tokens.to_vec();
                    ranked.sort_unstable();
                    ranked.iter().map(weight).collect()
                }
            }
        };
        let total: f64 = weights.iter().fold(0.0, |sum, &(_, weight)| sum + weight);
        weights.iter_mut().for_each(|(_, weight)| *weight /= total);
        Ok(weights)
    }
}
