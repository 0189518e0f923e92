//! Faults of filters, draws and verdicts.

use std::borrow::Cow;

use super::{Fault, Faults};
use crate::arith::scalar;
use crate::engine::logprobs::TokenLogprobs;
use crate::engine::sampler::{Draft, Judgement, Odds, SampleContext, SampleError, Sampler, TokenCounts, VerifyRule};
use crate::engine::validity::ValidRow;
use crate::params::SamplingParams;
use crate::types::{StepId, TokenId};

/// What a fault looks at beside the row.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The step.
    pub step: StepId,
    /// The greatest value of the row before in the batch.
    pub neighbour_maximum: f32,
    /// The sequence's tokens.
    pub tokens: &'a [TokenId],
    /// How many of them are the prompt.
    pub prompt: usize,
}

impl Faults {
    /// The token that comes after `row`, where `draft` was proposed for it.
    pub fn judge(
        &self,
        sampler: &mut Sampler,
        row: &ValidRow<'_>,
        context: &SampleContext<'_>,
        (draft, rule): (Option<&Draft>, VerifyRule),
        surroundings: &Surroundings<'_>,
    ) -> Result<Judgement, SampleError> {
        let Some(fault) = self.active else { return sampler.judge(row, context, draft, rule) };
        let params = params(fault, context.params, draft.is_some(), surroundings);
        let counts = counts(fault, context, surroundings);
        let context = &SampleContext { params: &params, counts: &counts, ..*context };
        if fault == Fault::FOREIGN_MAXIMUM && !keeps_anything(row, &params, surroundings.neighbour_maximum) {
            return Ok(Judgement { token: TokenId(0), odds: None });
        }
        let honest = sampler.judge(row, context, draft, rule)?;
        let plain = |sampler: &mut Sampler| sampler.sample(row, context);
        let Some(draft) = draft else { return Ok(honest) };
        Ok(match (fault, honest.odds) {
            (Fault::ACCEPT_ANYWAY, _) if context.params.is_greedy() && row.rank(draft.token) == Some(1) => {
                Judgement { token: draft.token, ..honest }
            }
            (Fault::ACCEPT_INVERTED, _) if !context.params.is_greedy() => {
                let passes = honest.odds.map_or(honest.token == draft.token, |odds| odds.accepts());
                let token = if passes { other_than(draft.token, plain(sampler)?, row) } else { draft.token };
                Judgement { token, ..honest }
            }
            (Fault::RESIDUAL_DROPPED, Some(odds)) if !odds.accepts() => Judgement { token: plain(sampler)?, ..honest },
            (Fault::UNIFORM_ZERO, Some(odds)) => {
                let odds = Odds { u: 0.0, ..odds };
                let token = if odds.accepts() { draft.token } else { honest.token };
                Judgement { token, odds: Some(odds) }
            }
            (Fault::MATCH_FOR_RATIO, Some(_)) => Judgement { token: plain(sampler)?, odds: None },
            _ => honest,
        })
    }

    /// What the client is told of a token, which was an accepted draft or not.
    pub fn told(&self, told: Option<TokenLogprobs>, is_accepted: bool) -> Option<TokenLogprobs> {
        let mut told = told;
        if let Some(told) = told.as_mut().filter(|_| is_accepted && self.is(Fault::LOGPROB_ZERO)) {
            told.chosen.logprob = 0.0;
        }
        told
    }
}

/// The parameters that the row is really sampled with.
fn params<'a>(
    fault: Fault,
    params: &'a SamplingParams,
    verifies: bool,
    surroundings: &Surroundings<'_>,
) -> Cow<'a, SamplingParams> {
    let mut wrong = params.clone();
    match fault {
        Fault::MIN_P_SKIPPED if verifies => wrong.min_p = 0.0,
        Fault::BIAS_SKIPPED if verifies => wrong.logit_bias.clear(),
        Fault::MIN_TOKENS_SKIPPED if verifies => wrong.min_tokens = 0,
        Fault::ALWAYS_GREEDY if verifies => wrong.temperature = 0.0,
        Fault::SEED_IGNORED => wrong.seed = wrong.seed.wrapping_add(surroundings.step.0),
        _ => return Cow::Borrowed(params),
    }
    Cow::Owned(wrong)
}

fn counts<'a>(fault: Fault, context: &SampleContext<'a>, surroundings: &Surroundings<'_>) -> Cow<'a, TokenCounts> {
    let Surroundings { tokens, prompt, .. } = surroundings;
    if fault != Fault::PENALTIES_ONE_BEHIND || tokens.len() <= *prompt {
        return Cow::Borrowed(context.counts);
    }
    let mut counts = TokenCounts::of_prompt(&tokens[..*prompt]);
    tokens[*prompt..tokens.len() - 1].iter().for_each(|token| counts.push(*token));
    Cow::Owned(counts)
}

/// Whether any token passes min-p when its weight is taken relative to another row's maximum.
fn keeps_anything(row: &ValidRow<'_>, params: &SamplingParams, maximum: f32) -> bool {
    let best = (row.statistics().maximum - maximum) / params.temperature;
    params.is_greedy() || params.min_p == 0.0 || scalar::exp(best) >= params.min_p
}

/// `token`, or the best one that is not the draft where it is the draft.
fn other_than(draft: TokenId, token: TokenId, row: &ValidRow<'_>) -> TokenId {
    if token != draft {
        return token;
    }
    let best = crate::engine::sampler::best_tokens(row.values(), 2);
    best.into_iter().map(|(token, _)| token).find(|token| *token != draft).unwrap_or(token)
}
