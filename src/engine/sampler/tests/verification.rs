//! Tested drafts leave the distribution as it is, whoever drafts; and what is wrong with a test shows.

use super::{plain, unmasked};
use crate::arith::{Kernels, scalar};
use crate::engine::sampler::{Draft, Judgement, Sampler, TokenCounts, VerifyRule};
use crate::engine::validity::ValidRow;
use crate::params::SamplingParams;
use crate::types::TokenId;

const DRAWS: u32 = 20_000;
const ROW: [f32; 8] = [1.0, 2.5, -0.5, 2.0, f32::NEG_INFINITY, 0.0, 1.5, -2.0];
/// 99.9% quantile of the total variation distance of 20,000 right draws from softmax of the row at temperature 1, over
/// 200,000 simulated sets.
const NULL_QUANTILE: f64 = 0.0134;

/// What drafts a test has.
#[derive(Clone, Copy, Debug)]
enum Drafter {
    /// Always the likeliest token, without a probability.
    Likeliest,
    /// Always an unlikely one, likewise.
    Unlikely,
    /// Always one that cannot come.
    Impossible,
    /// Draws of its own.
    Drawing,
}

const DRAFTERS: [Drafter; 4] = [Drafter::Likeliest, Drafter::Unlikely, Drafter::Impossible, Drafter::Drawing];
/// What [`Drafter::Drawing`] draws from.
const PROPOSED: [(u32, f64); 4] = [(0, 0.2), (1, 0.2), (4, 0.1), (6, 0.5)];

impl Drafter {
    fn draft(self, position: u32) -> Draft {
        match self {
            Self::Likeliest => Draft::certain(TokenId(1)),
            Self::Unlikely => Draft::certain(TokenId(2)),
            Self::Impossible => Draft::certain(TokenId(4)),
            Self::Drawing => {
                let score = |&(id, q): &(u32, f64)| {
                    (q.ln() + scalar::gumbel_for(scalar::PURPOSE_DRAFT, 7, position, 0, id), id)
                };
                let (_, token) = PROPOSED.iter().map(score).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
                let distribution = PROPOSED.iter().map(|&(id, q)| (TokenId(id), q)).collect();
                Draft { token: TokenId(token), distribution: Some(distribution) }
            }
        }
    }
}

/// A way to make a token of a judgement; the right one takes its token.
type Outcome = fn(&Judgement, &Draft, TokenId) -> TokenId;

/// Total variation distance between 20,000 judged drafts and softmax, and how many were accepted. `outcome` is also told
/// what plain decoding draws.
fn distance(params: &SamplingParams, drafter: Drafter, outcome: Outcome) -> (f64, u32) {
    let statistics = scalar::row_statistics(&ROW);
    let row = ValidRow::check(&ROW, &statistics).unwrap();
    let mut sampler = Sampler::new(Kernels::detect());
    let tokens = TokenCounts::default();
    let (mut counts, mut accepted) = ([0_u32; ROW.len()], 0);
    for position in 0..DRAWS {
        let context = unmasked(params, &tokens, position);
        let draft = drafter.draft(position);
        let plain = sampler.sample(&row, &context).unwrap();
        let judged = sampler.judge(&row, &context, Some(&draft), VerifyRule::Rejection).unwrap();
        accepted += u32::from(judged.odds.unwrap().accepts());
        counts[outcome(&judged, &draft, plain).index()] += 1;
    }
    let total: f64 = ROW.iter().map(|&value| f64::from(value).exp()).sum();
    let difference =
        |(&count, &value): (&u32, &f32)| (f64::from(count) / f64::from(DRAWS) - f64::from(value).exp() / total).abs();
    (counts.iter().zip(&ROW).map(difference).sum::<f64>() / 2.0, accepted)
}

#[test]
fn tested_drafts_follow_softmax_whoever_drafts() {
    for drafter in DRAFTERS {
        let (distance, accepted) = distance(&plain(), drafter, |judged, _, _| judged.token);
        assert!(distance < NULL_QUANTILE, "{drafter:?}: {distance}");
        match drafter {
            Drafter::Impossible => assert_eq!(accepted, 0),
            _ => assert!(accepted > DRAWS / 100, "{drafter:?}: {accepted} accepted"),
        }
    }
}

/// The residual dropped: a rejected draft is replaced from the whole distribution.
#[test]
fn a_dropped_residual_shows() {
    let dropped: Outcome = |judged, draft, plain| if judged.odds.unwrap().accepts() { draft.token } else { plain };
    for drafter in [Drafter::Likeliest, Drafter::Drawing] {
        let (distance, _) = distance(&plain(), drafter, dropped);
        assert!(distance > 3.0 * NULL_QUANTILE, "{drafter:?}: {distance}");
    }
}

/// The test turned round: what should be accepted is not.
#[test]
fn an_inverted_test_shows() {
    let inverted: Outcome = |judged, draft, plain| if judged.odds.unwrap().accepts() { plain } else { draft.token };
    for drafter in [Drafter::Likeliest, Drafter::Unlikely, Drafter::Drawing] {
        let (distance, _) = distance(&plain(), drafter, inverted);
        assert!(distance > 3.0 * NULL_QUANTILE, "{drafter:?}: {distance}");
    }
}

/// Filters bound what a test may accept: with top-k 1 nothing but the best token comes.
#[test]
fn what_a_filter_cuts_is_never_accepted() {
    let params = SamplingParams { top_k: Some(1), ..plain() };
    for drafter in DRAFTERS {
        let statistics = scalar::row_statistics(&ROW);
        let row = ValidRow::check(&ROW, &statistics).unwrap();
        let tokens = TokenCounts::default();
        let context = unmasked(&params, &tokens, 3);
        let draft = drafter.draft(3);
        let judged = Sampler::default().judge(&row, &context, Some(&draft), VerifyRule::Rejection).unwrap();
        assert_eq!(judged.token, TokenId(1), "{drafter:?}");
    }
}

/// Greedy rows and the coupled rule know no chance: the token is that of plain decoding.
#[test]
fn without_chance_a_draft_changes_nothing() {
    let statistics = scalar::row_statistics(&ROW);
    let row = ValidRow::check(&ROW, &statistics).unwrap();
    let mut sampler = Sampler::default();
    for (temperature, rule) in [(0.0, VerifyRule::Rejection), (1.0, VerifyRule::Coupled), (0.0, VerifyRule::Coupled)] {
        let params = SamplingParams { temperature, ..plain() };
        for position in 0..200 {
            let tokens = TokenCounts::default();
            let context = unmasked(&params, &tokens, position);
            let draft = Drafter::Drawing.draft(position);
            let plain = sampler.sample(&row, &context).unwrap();
            let judged = sampler.judge(&row, &context, Some(&draft), rule).unwrap();
            assert_eq!(judged, Judgement { token: plain, odds: None });
        }
    }
}
