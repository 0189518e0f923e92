//! The rejection rule, straight from its definition in `docs/arithmetic.md`.

use super::sampler::{self, NoToken, Situation};
use crate::arith::scalar;

/// How a drafter came to a draft.
#[derive(Clone, Debug, PartialEq)]
pub enum Proposal {
    /// It has no probabilities: q is 1 for the draft and 0 for all else.
    Certain,
    /// It drew from these tokens with these probabilities.
    Drawn(Vec<(u32, f64)>),
}

impl Proposal {
    /// The drafter's probability of `token`, where it proposed `draft`.
    pub fn probability(&self, draft: u32, token: u32) -> f64 {
        match self {
            Self::Certain if token == draft => 1.0,
            Self::Certain => 0.0,
            Self::Drawn(distribution) => {
                distribution.iter().find(|&&(id, _)| id == token).map_or(0.0, |&(_, probability)| probability)
            }
        }
    }
}

/// What a row decides about a draft.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// The target's probability of the draft.
    pub p: f64,
    /// The drafter's.
    pub q: f64,
    /// The uniform.
    pub u: f64,
    /// Whether `u * q < p`.
    pub accepted: bool,
    /// The draft if it is accepted, else the draw from the residual.
    pub token: u32,
}

/// Tests `draft` on a row.
///
/// # Errors
/// If the row gives no token at all.
pub fn decide(row: &[f32], situation: &Situation<'_>, draft: u32, proposal: &Proposal) -> Result<Decision, NoToken> {
    let target = probabilities(row, situation)?;
    let p = target.iter().find(|&&(id, _)| id == draft).map_or(0.0, |&(_, p)| p);
    let q = proposal.probability(draft, draft);
    let u = uniform(situation)?;
    let accepted = u * q < p;
    if accepted {
        return Ok(Decision { p, q, u, accepted, token: draft });
    }
    let residual: Vec<(u32, f64)> = target
        .iter()
        .map(|&(id, p)| (id, p - proposal.probability(draft, id)))
        .filter(|&(_, left)| left > 0.0)
        .collect();
    let without_draft = || target.iter().copied().filter(|&(id, _)| id != draft).collect();
    let weights: Vec<(u32, f64)> = if residual.is_empty() { without_draft() } else { residual };
    let token = draw(&weights, situation).ok_or(NoToken::NothingLeft)?;
    Ok(Decision { p, q, u, accepted, token })
}

/// The uniform that a draft is tested with: it depends on the seed and the place alone.
///
/// # Errors
/// Without a seed.
pub fn uniform(situation: &Situation<'_>) -> Result<f64, NoToken> {
    let counter = [situation.position, 0, situation.choice, scalar::PURPOSE_ACCEPT];
    let seed = situation.rules.seed.ok_or(NoToken::NoSeed)?;
    Ok(scalar::uniform(scalar::philox(seed, counter)[0]))
}

/// The probabilities of what the filters leave, best first.
fn probabilities(row: &[f32], situation: &Situation<'_>) -> Result<Vec<(u32, f64)>, NoToken> {
    let mut candidates = sampler::candidates(row, situation)?;
    candidates.sort_by(sampler::in_order);
    let best = candidates.first().ok_or(NoToken::NothingLeft)?.value;
    let weights: Vec<(u32, f64)> =
        candidates.iter().map(|candidate| (candidate.id, f64::from(scalar::exp(candidate.value - best)))).collect();
    let total = weights.iter().fold(0.0, |sum, &(_, weight)| sum + weight);
    Ok(weights.into_iter().map(|(id, weight)| (id, weight / total)).collect())
}

/// The id with the greatest sum of log-weight and noise; of equal sums the lowest.
fn draw(weights: &[(u32, f64)], situation: &Situation<'_>) -> Option<u32> {
    let mut best: Option<(f64, u32)> = None;
    for &(id, weight) in weights.iter().filter(|&&(_, weight)| weight > 0.0) {
        let Situation { rules, position, choice, .. } = situation;
        let noise = scalar::gumbel_for(scalar::PURPOSE_RESIDUAL, rules.seed?, *position, *choice, id);
        let score = scalar::log(weight) + noise;
        if best.is_none_or(|(greatest, lowest)| score > greatest || (score == greatest && id < lowest)) {
            best = Some((score, id));
        }
    }
    best.map(|(_, id)| id)
}
