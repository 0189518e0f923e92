//! Draws follow the softmax that they are to follow.

use super::{plain, unmasked};
use crate::arith::{Kernels, scalar};
use crate::engine::sampler::{SampleContext, Sampler, TokenCounts};
use crate::engine::validity::ValidRow;
use crate::params::SamplingParams;
use crate::types::ChoiceIndex;

const DRAWS: u32 = 20_000;
const ROW: [f32; 8] = [1.0, 2.5, -0.5, 2.0, f32::NEG_INFINITY, 0.0, 1.5, -2.0];

/// Where the draws of one test differ from each other.
#[derive(Clone, Copy)]
enum Varied {
    Position,
    Choice,
    Seed,
}

/// Softmax of the row after division by `temperature`, in f64.
fn softmax(temperature: f64) -> Vec<f64> {
    let weights: Vec<f64> = ROW.iter().map(|&value| (f64::from(value) / temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Total variation distance between 20,000 draws and `expected`.
fn distance(params: &SamplingParams, varied: Varied, expected: &[f64]) -> f64 {
    let statistics = scalar::row_statistics(&ROW);
    let row = ValidRow::check(&ROW, &statistics).expect("a valid row");
    let mut sampler = Sampler::new(Kernels::detect());
    let tokens = TokenCounts::default();
    let mut counts = [0_u32; ROW.len()];
    for draw in 0..DRAWS {
        let (position, choice, seed) = match varied {
            Varied::Position => (draw, 0, params.seed),
            Varied::Choice => (9, draw, params.seed),
            Varied::Seed => (9, 0, u64::from(draw)),
        };
        let params = SamplingParams { seed, ..params.clone() };
        let context = SampleContext { choice: ChoiceIndex(choice), ..unmasked(&params, &tokens, position) };
        counts[sampler.sample(&row, &context).expect("something is left").index()] += 1;
    }
    let difference = |(&count, p): (&u32, &f64)| (f64::from(count) / f64::from(DRAWS) - p).abs();
    counts.iter().zip(expected).map(difference).sum::<f64>() / 2.0
}

/// 99.9% quantile of that distance for draws that do follow the distribution, over 200,000 simulated sets of 20,000
/// (NumPy's multinomial generator).
const NULL_QUANTILE_AT_1: f64 = 0.0134;
/// As above, at temperature 0.6.
const NULL_QUANTILE_AT_0_6: f64 = 0.0124;
/// As above, at temperature 1 with top-k 3.
const NULL_QUANTILE_TOP_K: f64 = 0.0120;

#[test]
fn draws_follow_softmax_whatever_varies() {
    for varied in [Varied::Position, Varied::Choice, Varied::Seed] {
        let found = distance(&plain(), varied, &softmax(1.0));
        assert!(found < NULL_QUANTILE_AT_1, "total variation {found}");
        let colder = SamplingParams { temperature: 0.6, ..plain() };
        let found = distance(&colder, varied, &softmax(0.6));
        assert!(found < NULL_QUANTILE_AT_0_6, "total variation {found}");
    }
}

#[test]
fn truncated_draws_follow_the_renormalized_rest() {
    let mut expected = softmax(1.0);
    let kept = [1, 3, 6];
    let mass: f64 = kept.iter().map(|&id: &usize| expected[id]).sum();
    expected.iter_mut().enumerate().for_each(|(id, p)| *p = if kept.contains(&id) { *p / mass } else { 0.0 });
    let filters = [
        SamplingParams { top_k: Some(3), ..plain() },
        // Weights relative to the best: 1, 0.61, 0.37, 0.22, ...
        SamplingParams { min_p: 0.3, ..plain() },
        // Cumulative shares: 0.42, 0.68, 0.84, ...
        SamplingParams { top_p: 0.75, ..plain() },
    ];
    for params in filters {
        let found = distance(&params, Varied::Position, &expected);
        assert!(found < NULL_QUANTILE_TOP_K, "total variation {found} with {params:?}");
    }
}

#[test]
fn another_distribution_is_noticed() {
    let found = distance(&plain(), Varied::Position, &softmax(0.9));
    assert!(found > NULL_QUANTILE_AT_1, "a temperature of 0.9 for 1 went unnoticed: {found}");
    let top_k = SamplingParams { top_k: Some(5), ..plain() };
    let found = distance(&top_k, Varied::Position, &softmax(1.0));
    assert!(found > NULL_QUANTILE_AT_1, "two tokens cut off went unnoticed: {found}");
}
