//! The sampler gives the recorded token from the row, and the client was told its log-probability.

use crate::capture::records::MaskRecord;
use crate::forensics::signs::TOKEN_LISTS;
use crate::replay::checks::applied_mask::allows;
use crate::replay::context::Row;
use crate::replay::recover::{Recovered, WholeRow};
use crate::replay::rejection;
use crate::replay::rules::Rules;
use crate::replay::sampler::{self, Situation};
use crate::replay::verdict::{Skip, Verdict};

/// Draws again from the row.
pub(in crate::replay) fn check(row: &Row<'_>, recovered: &Recovered) -> Verdict {
    let mut verdict = Verdict::new();
    let sequence = row.sequence;
    let situation = match row.situation() {
        Ok(situation) => situation,
        Err(skip) => return Verdict::skipped(skip),
    };
    if let Some(skip) = unknown_values(row, &situation) {
        whatever_the_values(&mut verdict, row, &situation, skip);
        if let Recovered::Whole(whole) = recovered {
            told(&mut verdict, row, situation.rules, whole);
        }
        return verdict;
    }
    let argmax = row.record.statistics.and_then(|statistics| statistics.argmax);
    match recovered {
        Recovered::Whole(whole) => {
            match row.emitted() {
                Some(emitted) if row.tested_draft().is_some() => {
                    by_chance(&mut verdict, row, whole, &situation, emitted)
                }
                Some(emitted) if sequence.context.is_own() => exact(&mut verdict, whole, &situation, emitted),
                Some(emitted) => possible(&mut verdict, whole, &situation, emitted),
                None => no_token(&mut verdict, whole, &situation),
            }
            told(&mut verdict, row, situation.rules, whole);
        }
        Recovered::Best { ids, values } => among(&mut verdict, row, &situation, ids, values),
        Recovered::Absent(skip) | Recovered::Lost(skip) => {
            greedy(&mut verdict, row, &situation, argmax);
            if skip.missing {
                verdict.skip(skip.clone());
            }
        }
        Recovered::Wrong { .. } => greedy(&mut verdict, row, &situation, argmax),
    }
    verdict
}

/// Why it cannot be known what was sampled from, if it cannot.
fn unknown_values(row: &Row<'_>, situation: &Situation<'_>) -> Option<Skip> {
    let context = row.sequence.context;
    if situation.rules.takes_tokens_away && !context.is_own() {
        let names = TOKEN_LISTS.map(|name| format!("`{name}`")).join(" and ");
        return Some(Skip::not_recorded(format!("the lists of tokens that {names} name are not repeated here")));
    }
    let needs_prompt = situation.rules.repetition_penalty != 1.0;
    (needs_prompt && context.is_redacted("prompt_tokens"))
        .then(|| Skip::not_recorded("`repetition_penalty` is of prompts, too, which were left out of the capture"))
}

/// What holds of a token whatever was sampled from: it is one that the mask allows.
fn whatever_the_values(verdict: &mut Verdict, row: &Row<'_>, situation: &Situation<'_>, skip: Skip) {
    if let (Some(mask), Some(emitted)) = (situation.mask, row.emitted()) {
        if let Some(only) = only(mask) {
            return verdict.equal("token", only, emitted);
        }
        verdict.holds(allows(mask, emitted), "token", "one that the mask allows", emitted);
    }
    verdict.skip(skip);
}

/// The draw is the token.
fn exact(verdict: &mut Verdict, whole: &WholeRow, situation: &Situation<'_>, emitted: u32) {
    match sampler::token(&whole.values, situation) {
        Ok(token) => verdict.equal("token", token, emitted),
        Err(error) => verdict.mismatch("token", format!("none: {error}"), emitted.to_string()),
    }
}

/// The draft passed its test, or the token is the draw from what it left.
fn by_chance(verdict: &mut Verdict, row: &Row<'_>, whole: &WholeRow, situation: &Situation<'_>, emitted: u32) {
    let Some(draft) = row.tested_draft() else { return possible(verdict, whole, situation, emitted) };
    let proposal = match row.proposal() {
        Ok(proposal) => proposal,
        Err(skip) => {
            verdict.skip(skip);
            return possible(verdict, whole, situation, emitted);
        }
    };
    match rejection::decide(&whole.values, situation, draft, &proposal) {
        Ok(decision) => verdict.equal("token", decision.token, emitted),
        Err(error) => verdict.mismatch("token", format!("none: {error}"), emitted.to_string()),
    }
}

/// The random source is not known: the token could have been drawn, and is the best one if nothing is drawn.
fn possible(verdict: &mut Verdict, whole: &WholeRow, situation: &Situation<'_>, emitted: u32) {
    match sampler::candidates(&whole.values, situation) {
        Ok(candidates) => {
            let is_candidate = candidates.iter().any(|candidate| candidate.id == emitted);
            let expected = match candidates.as_slice() {
                [only] => format!("{}", only.id),
                _ => format!("one of {} candidates", candidates.len()),
            };
            verdict.holds(is_candidate, "token", expected, emitted);
        }
        Err(error) => verdict.mismatch("token", format!("none: {error}"), emitted.to_string()),
    }
}

/// A row that was judged and gave no token must be one that gives none.
fn no_token(verdict: &mut Verdict, whole: &WholeRow, situation: &Situation<'_>) {
    match sampler::token(&whole.values, situation) {
        Ok(token) => verdict.mismatch("token", token.to_string(), "none".to_owned()),
        Err(_) => verdict.agrees(),
    }
}

/// Without the row, a greedy choice can be checked where nothing moves the values.
fn greedy(verdict: &mut Verdict, row: &Row<'_>, situation: &Situation<'_>, argmax: Option<u32>) {
    let Some(argmax) = argmax else {
        verdict.skip(Skip::not_recorded("neither the row nor its argmax is recorded"));
        return;
    };
    let Some(emitted) = row.emitted() else {
        verdict.skip(Skip::not_recorded("no token was emitted from the row, and its values are not recorded"));
        return;
    };
    if is_argmax(situation) {
        verdict.equal("token", argmax, emitted);
    } else {
        verdict.skip(Skip::not_recorded(
            "the row is not recorded: only greedy tokens without bias and penalties are checked",
        ));
    }
}

/// The best of a row are known: a greedy token is the first of them that the mask allows, and one that was drawn is not among
/// those that the filters cut.
fn among(verdict: &mut Verdict, row: &Row<'_>, situation: &Situation<'_>, ids: &[u32], values: &[f32]) {
    let Some(emitted) = row.emitted() else {
        verdict.skip(Skip::not_recorded("no token was emitted from the row, and its values are not recorded"));
        return;
    };
    if let Some(only) = situation.mask.and_then(only) {
        return verdict.equal("token", only, emitted);
    }
    if moves_values(situation) {
        verdict.skip(Skip::not_recorded("the whole row is not recorded, and bias or penalties move its values"));
        return;
    }
    let is_allowed = |id: u32| situation.mask.is_none_or(|mask| allows(mask, id));
    let known: Vec<(u32, f32)> =
        ids.iter().copied().zip(values.iter().copied()).filter(|&(id, _)| is_allowed(id)).collect();
    let Some(&(best, greatest)) = known.first() else {
        verdict.skip(Skip::not_recorded("the mask allows none of the values that are recorded"));
        return;
    };
    if situation.rules.temperature == 0.0 {
        return verdict.equal("token", best, emitted);
    }
    let Rules { temperature, min_p, top_k, .. } = situation.rules;
    match known.iter().position(|&(id, _)| id == emitted) {
        Some(rank) => {
            let weight = ((value_of(&known, rank) - greatest) / temperature).exp();
            // An engine with other arithmetic may round the weight otherwise.
            let passes = weight * 1.001 >= *min_p && top_k.is_none_or(|count| rank < count as usize);
            verdict.holds(passes, "token", "one that min-p and top-k keep", format!("{emitted}, at place {rank}"));
        }
        None => {
            let cuts = top_k.is_some_and(|count| count as usize <= known.len());
            let expected = format!("one of the best {}, which top-k keeps", known.len());
            verdict.holds(!cuts, "token", expected, emitted);
        }
    }
}

fn value_of(known: &[(u32, f32)], rank: usize) -> f32 {
    known.get(rank).map_or(f32::NEG_INFINITY, |&(_, value)| value)
}

/// The one token that a mask allows, if it is one.
fn only(mask: &MaskRecord) -> Option<u32> {
    let population: u32 = mask.bits.iter().map(|byte| byte.count_ones()).sum();
    let byte = mask.bits.iter().position(|byte| *byte != 0).filter(|_| population == 1)?;
    Some(byte as u32 * 8 + mask.bits[byte].trailing_zeros())
}

/// Whether bias, penalties or withheld ends move values of the row.
fn moves_values(situation: &Situation<'_>) -> bool {
    let Rules { repetition_penalty, presence_penalty, frequency_penalty, logit_bias, min_tokens, .. } = situation.rules;
    *repetition_penalty != 1.0
        || *presence_penalty != 0.0
        || *frequency_penalty != 0.0
        || !logit_bias.is_empty()
        || situation.output.len() < *min_tokens as usize
}

/// Whether the sampler gives the argmax of the raw row, whatever its values.
fn is_argmax(situation: &Situation<'_>) -> bool {
    situation.mask.is_none() && situation.rules.temperature == 0.0 && !moves_values(situation)
}

/// The log-probability that the client was told.
fn told(verdict: &mut Verdict, row: &Row<'_>, rules: &Rules, whole: &WholeRow) {
    let value = row.emitted().and_then(|token| whole.values.get(token as usize));
    match (rules.logprobs, row.record.logprob, value) {
        (_, Some(logprob), Some(value)) => {
            verdict.same_bits("logprob", value - whole.statistics.log_sum_exp, logprob);
        }
        (_, Some(logprob), None) => {
            verdict.mismatch("logprob", "none: no token was emitted".to_owned(), logprob.to_string());
        }
        (Some(_), None, Some(_)) if row.sequence.context.is_own() => {
            verdict.mismatch("logprob", "the request asked for it".to_owned(), "none".to_owned());
        }
        (_, None, _) => {}
    }
}
