//! The sampler's definition, word by word: sorted, sequential, one row. `Fault` plants one error in it.

use crate::arith::scalar;
use crate::engine::sampler::SampleContext;

/// An error that the comparison with the fast form must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    TopPKeepsOneTooFew,
    TopPKeepsOneTooMany,
    TopPSumsBeforeTheFilters,
    TiesGoToTheHigherId,
    NoiseIgnoresThePosition,
    NoiseIgnoresTheChoice,
    MinPReadsANeighboursMaximum,
    MinPBeforeTemperature,
    RepetitionForgetsThePrompt,
    FrequencyCountsOnce,
    MinTokensOneTooFew,
    BiasAfterPenalties,
}

/// The token that the definition gives; `None` where nothing is left or a value overflows.
pub fn token(row: &[f32], context: &SampleContext<'_>, fault: Fault) -> Option<u32> {
    let params = context.params;
    let mut values = row.to_vec();

    let add_bias = |values: &mut Vec<f32>| {
        for &(token, bias) in &params.logit_bias {
            values[token.index()] += bias;
        }
    };
    if fault != Fault::BiasAfterPenalties {
        add_bias(&mut values);
    }
    let emitted = if fault == Fault::MinTokensOneTooFew { context.emitted + 1 } else { context.emitted };
    if emitted < params.min_tokens {
        for token in context.end_tokens.iter().chain(&params.stop_token_ids) {
            values[token.index()] = f32::NEG_INFINITY;
        }
    }

    for (token, count) in context.counts.iter() {
        let value = &mut values[token.index()];
        if count.emitted > 0 || fault != Fault::RepetitionForgetsThePrompt {
            *value = if *value > 0.0 { *value / params.repetition_penalty } else { *value * params.repetition_penalty };
        }
        let times = if fault == Fault::FrequencyCountsOnce { count.emitted.min(1) } else { count.emitted };
        *value = (-params.frequency_penalty).mul_add(times as f32, *value);
        if count.emitted > 0 {
            *value -= params.presence_penalty;
        }
    }
    if fault == Fault::BiasAfterPenalties {
        add_bias(&mut values);
    }

    let before_temperature = values.clone();
    if params.temperature != 0.0 {
        values.iter_mut().for_each(|value| *value /= params.temperature);
    }
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_by(|&a, &b| {
        let by_value = values[b as usize].partial_cmp(&values[a as usize]).expect("no NaN");
        by_value.then(if fault == Fault::TiesGoToTheHigherId { b.cmp(&a) } else { a.cmp(&b) })
    });
    let greatest = values[order[0] as usize];
    if !greatest.is_finite() {
        return None;
    }
    if params.temperature == 0.0 {
        return Some(order[0]);
    }

    let weight = |id: u32, values: &[f32], maximum: f32| scalar::exp(values[id as usize] - maximum);
    let unfiltered = order.clone();
    order.retain(|&id| match fault {
        Fault::MinPReadsANeighboursMaximum => weight(id, &values, greatest + 5.0) >= params.min_p,
        Fault::MinPBeforeTemperature => {
            let maximum = before_temperature.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            weight(id, &before_temperature, maximum) >= params.min_p
        }
        _ => weight(id, &values, greatest) >= params.min_p,
    });
    if order.is_empty() {
        // What the incident's servers did: the whole row is masked, and argmax falls through to the lowest id.
        return Some(0);
    }
    if let Some(count) = params.top_k {
        order.truncate(count as usize);
    }
    if params.top_p < 1.0 {
        let weights = |ids: &[u32]| ids.iter().map(|&id| f64::from(weight(id, &values, greatest))).collect::<Vec<_>>();
        let summed = if fault == Fault::TopPSumsBeforeTheFilters { &unfiltered } else { &order };
        let total: f64 = weights(summed).iter().fold(0.0, |sum, weight| sum + weight);
        let threshold = f64::from(params.top_p) * total;
        let mut sum = 0.0;
        let mut kept = 0;
        for weight in weights(&order) {
            if sum >= threshold {
                break;
            }
            sum += weight;
            kept += 1;
        }
        kept = match fault {
            Fault::TopPKeepsOneTooFew => kept - 1,
            Fault::TopPKeepsOneTooMany => kept + 1,
            _ => kept,
        };
        order.truncate(kept.max(1));
    }

    let position = if fault == Fault::NoiseIgnoresThePosition { 0 } else { context.position.0 };
    let choice = if fault == Fault::NoiseIgnoresTheChoice { 0 } else { context.choice.0 };
    let score = |id: u32| f64::from(values[id as usize]) + scalar::gumbel(params.seed, position, choice, id);
    order.sort_unstable();
    let mut best = order[0];
    for &id in &order {
        if score(id) > score(best) {
            best = id;
        }
    }
    Some(best)
}
