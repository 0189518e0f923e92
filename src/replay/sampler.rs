//! The plain sampler: the processed row and the draw, line by line as docs/arithmetic.md defines them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::checks::applied_mask::allows;
use super::rules::Rules;
use crate::arith::scalar;
use crate::capture::records::MaskRecord;

/// What a draw depends on beside the row.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The request's parameters.
    pub rules: &'a Rules,
    /// The prompt.
    pub prompt: &'a [u32],
    /// What was emitted before.
    pub output: &'a [u32],
    /// The model's end tokens.
    pub end_tokens: &'a [u32],
    /// What the grammar allows; `None` where no grammar constrains the row.
    pub mask: Option<&'a MaskRecord>,
    /// Absolute position that the token will take.
    pub position: u32,
    /// Which choice of the request.
    pub choice: u32,
}

/// Why a row gives no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// The raw row has a NaN.
    #[error("the row has a NaN")]
    NotANumber,
    /// The raw row has a +infinity.
    #[error("the row has a +infinity")]
    PositiveInfinity,
    /// The raw row has nothing above -infinity.
    #[error("the row has no value above -infinity")]
    NothingFinite,
    /// Mask, bias and suppressed ends leave nothing.
    #[error("mask, bias and suppressed end tokens leave no value above -infinity")]
    NothingLeft,
    /// Penalties or the temperature take a value out of the range of binary32.
    #[error("penalties or the temperature take a value out of range")]
    Overflow,
    /// A draw without a seed follows from nothing.
    #[error("there is no seed to draw with")]
    NoSeed,
}

/// A token with its processed value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its value after bias, penalties and temperature.
    pub value: f32,
}

/// The token that the row gives.
///
/// # Errors
/// If the row is invalid, or if nothing can be chosen from it.
pub fn token(row: &[f32], situation: &Situation<'_>) -> Result<u32, NoToken> {
    let candidates = candidates(row, situation)?;
    let Situation { rules, position, choice, .. } = *situation;
    if rules.temperature == 0.0 {
        return candidates.first().map(|candidate| candidate.id).ok_or(NoToken::NothingLeft);
    }
    // Noise is keyed by id: that of the whole row at once is that of each candidate.
    let mut noise = vec![0.0; row.len()];
    scalar::gumbel_row(rules.seed.ok_or(NoToken::NoSeed)?, position, choice, &mut noise);
    let noisy = |candidate: &Candidate| (f64::from(candidate.value) + noise[candidate.id as usize], candidate.id);
    candidates.iter().map(noisy).reduce(better).map(|(_, id)| id).ok_or(NoToken::NothingLeft)
}

/// The tokens that can be drawn: best first where top-k or top-p put them into order, else by id.
///
/// # Errors
/// As [`token`].
pub fn candidates(row: &[f32], situation: &Situation<'_>) -> Result<Vec<Candidate>, NoToken> {
    validate(row)?;
    let rules = situation.rules;
    let mut values = row.to_vec();
    apply_mask(&mut values, situation);
    add_bias(&mut values, rules);
    suppress_ends(&mut values, situation);
    penalize(&mut values, situation);
    if values.iter().all(|&value| value == f32::NEG_INFINITY) {
        return Err(NoToken::NothingLeft);
    }
    if rules.temperature != 0.0 {
        values.iter_mut().for_each(|value| *value /= rules.temperature);
    }
    let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if !greatest.is_finite() || values.iter().any(|value| value.is_nan()) {
        return Err(NoToken::Overflow);
    }
    let all = values.iter().zip(0..).map(|(&value, id)| Candidate { id, value });
    if rules.temperature == 0.0 {
        return Ok(all.min_by(in_order).into_iter().collect());
    }
    let mut kept: Vec<Candidate> = all.collect();
    keep_min_p(&mut kept, greatest, rules.min_p);
    if rules.top_k.is_some() || rules.top_p != 1.0 {
        kept.sort_by(in_order);
    }
    if let Some(top_k) = rules.top_k {
        kept.truncate(top_k as usize);
    }
    keep_top_p(&mut kept, rules.top_p);
    Ok(kept)
}

/// Refuses a row that must not become a token.
fn validate(row: &[f32]) -> Result<(), NoToken> {
    if row.iter().any(|value| value.is_nan()) {
        return Err(NoToken::NotANumber);
    }
    if row.contains(&f32::INFINITY) {
        return Err(NoToken::PositiveInfinity);
    }
    if row.iter().all(|&value| value == f32::NEG_INFINITY) {
        return Err(NoToken::NothingFinite);
    }
    Ok(())
}

/// What the grammar does not allow is impossible.
fn apply_mask(values: &mut [f32], situation: &Situation<'_>) {
    let Some(mask) = situation.mask else { return };
    for (value, id) in values.iter_mut().zip(0..) {
        if !allows(mask, id) {
            *value = f32::NEG_INFINITY;
        }
    }
}

fn add_bias(values: &mut [f32], rules: &Rules) {
    for &(id, bias) in &rules.logit_bias {
        if let Some(value) = values.get_mut(id as usize) {
            *value += bias;
        }
    }
}

/// While the output is shorter than `min_tokens`, whatever would end it is impossible.
fn suppress_ends(values: &mut [f32], situation: &Situation<'_>) {
    if situation.output.len() >= situation.rules.min_tokens as usize {
        return;
    }
    for &id in situation.end_tokens.iter().chain(&situation.rules.stop_token_ids) {
        if let Some(value) = values.get_mut(id as usize) {
            *value = f32::NEG_INFINITY;
        }
    }
}

fn penalize(values: &mut [f32], situation: &Situation<'_>) {
    let rules = situation.rules;
    let seen: BTreeSet<u32> = situation.prompt.iter().chain(situation.output).copied().collect();
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for &id in situation.output {
        *counts.entry(id).or_default() += 1;
    }
    for id in seen {
        let Some(value) = values.get_mut(id as usize) else { continue };
        *value = if *value > 0.0 { *value / rules.repetition_penalty } else { *value * rules.repetition_penalty };
    }
    for (id, count) in counts {
        let Some(value) = values.get_mut(id as usize) else { continue };
        *value = (-rules.frequency_penalty).mul_add(count as f32, *value);
        *value -= rules.presence_penalty;
    }
}

fn keep_min_p(candidates: &mut Vec<Candidate>, greatest: f32, min_p: f32) {
    if min_p > 0.0 {
        candidates.retain(|candidate| scalar::exp(candidate.value - greatest) >= min_p);
    }
}

/// At 1 nothing is summed: a candidate of weight 0 would otherwise fall to the sum before it, which is the total.
fn keep_top_p(sorted: &mut Vec<Candidate>, top_p: f32) {
    if top_p == 1.0 {
        return;
    }
    let Some(best) = sorted.first().copied() else { return };
    let weights: Vec<f64> =
        sorted.iter().map(|candidate| f64::from(scalar::exp(candidate.value - best.value))).collect();
    let total = weights.iter().fold(0.0, |sum, weight| sum + weight);
    let limit = f64::from(top_p) * total;
    let mut before = 0.0;
    let kept = weights.iter().take_while(|weight| {
        let keep = before < limit;
        before += **weight;
        keep
    });
    let kept = kept.count();
    sorted.truncate(kept);
}

/// Value descending, id ascending.
pub(super) fn in_order(a: &Candidate, b: &Candidate) -> Ordering {
    b.value.partial_cmp(&a.value).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}

/// The greater value; of equal ones the lower id.
fn better(a: (f64, u32), b: (f64, u32)) -> (f64, u32) {
    match a.0.partial_cmp(&b.0) {
        Some(Ordering::Greater) => a,
        Some(Ordering::Less) => b,
        _ if a.1 < b.1 => a,
        _ => b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Greedy, with nothing that moves a value.
    fn plain() -> Rules {
        Rules {
            temperature: 0.0,
            top_p: 1.0,
            min_p: 0.0,
            top_k: None,
            seed: Some(7),
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            min_tokens: 0,
            max_tokens: None,
            stop: Vec::new(),
            stop_token_ids: Vec::new(),
            ignore_eos: false,
            logprobs: None,
            takes_tokens_away: false,
        }
    }

    fn situation<'a>(rules: &'a Rules, prompt: &'a [u32], output: &'a [u32]) -> Situation<'a> {
        let position = (prompt.len() + output.len()) as u32;
        Situation { rules, prompt, output, end_tokens: &[3], mask: None, position, choice: 0 }
    }

    fn ids(row: &[f32], rules: &Rules) -> Vec<u32> {
        let mut candidates = candidates(row, &situation(rules, &[], &[])).unwrap();
        candidates.sort_by(in_order);
        candidates.iter().map(|candidate| candidate.id).collect()
    }

    #[test]
    fn an_invalid_row_gives_no_token_at_any_temperature() {
        let cases = [
            (vec![1.0, f32::NAN, 0.0, 2.0], NoToken::NotANumber),
            (vec![1.0, f32::INFINITY, 0.0, 2.0], NoToken::PositiveInfinity),
            (vec![f32::NEG_INFINITY; 64], NoToken::NothingFinite),
        ];
        for (row, expected) in cases {
            for temperature in [0.0, 0.6, 1.0] {
                let rules = Rules { temperature, ..plain() };
                assert_eq!(token(&row, &situation(&rules, &[], &[])), Err(expected));
            }
        }
    }

    #[test]
    fn a_masked_row_with_a_finite_value_is_legal() {
        const NOT: f32 = f32::NEG_INFINITY;
        for seed in 0..50 {
            let rules = Rules { temperature: 1.0, seed: Some(seed), ..plain() };
            let token = token(&[NOT, 2.0, NOT, 1.0, NOT], &situation(&rules, &[], &[])).unwrap();
            assert!(token == 1 || token == 3, "{token}");
        }
    }

    #[test]
    fn the_lowest_of_equal_ids_is_best_and_zeros_are_equal() {
        assert_eq!(ids(&[-1.0, -0.0, 0.0, -2.0], &plain()), [1]);
        assert_eq!(ids(&[1.0, 5.0, 5.0, 0.0], &Rules { temperature: 1.0, ..plain() }), [1, 2, 0, 3]);
    }

    #[test]
    fn ends_are_impossible_before_min_tokens() {
        let rules = Rules { min_tokens: 2, stop_token_ids: vec![1], ..plain() };
        let row = [0.0, 2.0, 1.0, 3.0];
        assert_eq!(token(&row, &situation(&rules, &[], &[0])), Ok(2));
        assert_eq!(token(&row, &situation(&rules, &[], &[0, 0])), Ok(3));
    }

    #[test]
    fn penalties_read_prompt_and_output() {
        // Repetition: 4 / 2 for the prompt's token, -1 * 2 for the output's; frequency 0.5 * 2 and presence 0.25 after.
        let rules = Rules { repetition_penalty: 2.0, frequency_penalty: 0.5, presence_penalty: 0.25, ..plain() };
        let rules = Rules { temperature: 1.0, ..rules };
        let candidates = candidates(&[4.0, -1.0, 1.0, 0.0], &situation(&rules, &[0], &[1, 1])).unwrap();
        let value = |id| candidates.iter().find(|candidate| candidate.id == id).unwrap().value;
        assert_eq!([value(0), value(1), value(2)], [2.0, -3.25, 1.0]);
    }

    #[test]
    fn bias_can_leave_nothing() {
        let rules = Rules { min_tokens: 1, ..plain() };
        let row = [f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, 1.0];
        assert_eq!(token(&row, &situation(&rules, &[], &[])), Err(NoToken::NothingLeft));
    }

    #[test]
    fn filters_keep_what_their_definitions_keep() {
        // Probabilities 8/15, 4/15, 2/15, 1/15 in order of ids 2, 0, 3, 1.
        let ln = |x: f32| x.ln();
        let row = [ln(4.0), ln(1.0), ln(8.0), ln(2.0)];
        let sampled = Rules { temperature: 1.0, ..plain() };
        assert_eq!(ids(&row, &Rules { top_k: Some(3), ..sampled.clone() }), [2, 0, 3]);
        assert_eq!(ids(&row, &Rules { min_p: 0.2, ..sampled.clone() }), [2, 0, 3]);
        // 8/15 is less than 0.6, so that the second is kept, and the sum before the third is not.
        assert_eq!(ids(&row, &Rules { top_p: 0.6, ..sampled.clone() }), [2, 0]);
        assert_eq!(ids(&row, &Rules { top_p: 0.5, ..sampled.clone() }), [2]);
        // Top-p is of what top-k leaves: 8/12 is past 0.6.
        assert_eq!(ids(&row, &Rules { top_k: Some(2), top_p: 0.6, ..sampled }), [2]);
    }

    /// Weights that are rounded away or are 0 stay possible at top-p 1; with any less they do not.
    #[test]
    fn top_p_1_keeps_what_weighs_nothing() {
        let row = [0.0, -200.0, f32::NEG_INFINITY, -1.0];
        let sampled = Rules { temperature: 1.0, ..plain() };
        assert_eq!(ids(&row, &sampled), [0, 3, 1, 2]);
        assert_eq!(ids(&row, &Rules { top_p: 0.999_999_94, ..sampled }), [0, 3]);
    }

    #[test]
    fn a_value_out_of_range_gives_no_token() {
        let rules = Rules { temperature: 1e-38, ..plain() };
        assert_eq!(token(&[1e3, 0.0, 1.0, 2.0], &situation(&rules, &[], &[])), Err(NoToken::Overflow));
        let rules = Rules { frequency_penalty: f32::MIN, ..plain() };
        assert_eq!(token(&[1e3, 0.0, 1.0, 2.0], &situation(&rules, &[], &[0, 0])), Err(NoToken::Overflow));
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let rules = Rules { temperature: 1.0, ..plain() };
        let row = [0.0, 1.0, 2.0, 0.5];
        let total: f64 = row.iter().map(|value| f64::from(*value).exp()).sum();
        let draws = 20_000;
        let mut counts = [0u32; 4];
        for position in 0..draws {
            let situation = Situation { position, ..situation(&rules, &[], &[]) };
            counts[token(&row, &situation).unwrap() as usize] += 1;
        }
        for (value, count) in row.iter().zip(counts) {
            let p = f64::from(*value).exp() / total;
            let deviation = (p * (1.0 - p) / f64::from(draws)).sqrt();
            let found = f64::from(count) / f64::from(draws);
            assert!((found - p).abs() < 4.0 * deviation, "expected {p}, found {found}");
        }
    }

    #[test]
    fn choices_of_one_seed_draw_apart() {
        let rules = Rules { temperature: 1.0, ..plain() };
        let row = [0.0; 64];
        let of_choice = |choice| -> Vec<u32> {
            (0..32)
                .map(|position| Situation { position, choice, ..situation(&rules, &[], &[]) })
                .map(|situation| token(&row, &situation).unwrap())
                .collect()
        };
        assert_ne!(of_choice(0), of_choice(1));
        assert_eq!(of_choice(1), of_choice(1));
    }
}
