//! What the plain forms give for a row of a gate.

use super::driver::{Job, Judged, Sampling};
use crate::capture::records::MaskRecord;
use crate::engine::sampler::{Draft, VerifyRule};
use crate::grammar::MaskRow;
use crate::replay::Rules;
use crate::replay::rejection::{self, Proposal};
use crate::replay::sampler::{self, NoToken, Situation};
use crate::types::TokenId;

impl Sampling {
    /// As replay has it.
    pub fn rules(&self, max_tokens: u32) -> Rules {
        let Self { temperature, top_k, top_p, min_p, seed, min_tokens, stop_token_ids } = self;
        Rules {
            temperature: temperature.unwrap_or(1.0),
            top_p: top_p.unwrap_or(1.0),
            min_p: min_p.unwrap_or(0.0),
            top_k: *top_k,
            seed: Some(*seed),
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            min_tokens: *min_tokens,
            max_tokens: Some(max_tokens),
            stop: Vec::new(),
            stop_token_ids: stop_token_ids.clone(),
            ignore_eos: true,
            logprobs: None,
            takes_tokens_away: false,
        }
    }
}

/// The token that the plain form gives for a row after `output`.
///
/// # Errors
/// If the row gives none.
pub(super) fn token(
    job: &Job,
    output: &[TokenId],
    judged: &Judged<'_>,
    rule: VerifyRule,
    end_tokens: &[TokenId],
) -> Result<TokenId, NoToken> {
    let ids = |tokens: &[TokenId]| tokens.iter().map(|token| token.0).collect::<Vec<_>>();
    let (prompt, output, ends) = (ids(&job.prompt), ids(output), ids(end_tokens));
    let mask = judged.row.filled.as_ref().map(mask_record);
    let rules = job.sampling.rules(job.max_tokens);
    let situation = Situation {
        rules: &rules,
        prompt: &prompt,
        output: &output,
        end_tokens: &ends,
        mask: mask.as_ref(),
        position: (prompt.len() + output.len()) as u32,
        choice: 0,
    };
    let row = &judged.row.logits;
    let token = match judged.draft.filter(|_| rule == VerifyRule::Rejection && rules.temperature != 0.0) {
        Some(draft) => rejection::decide(row, &situation, draft.token.0, &proposal(draft))?.token,
        None => sampler::token(row, &situation)?,
    };
    Ok(TokenId(token))
}

fn mask_record(mask: &MaskRow) -> MaskRecord {
    MaskRecord::new(mask.vocabulary_size() as u32, mask.bytes())
}

fn proposal(draft: &Draft) -> Proposal {
    match &draft.distribution {
        None => Proposal::Certain,
        Some(distribution) => Proposal::Drawn(distribution.iter().map(|&(token, q)| (token.0, q)).collect()),
    }
}

/// What a plain form gives, in words.
pub(super) fn told(expected: Result<TokenId, NoToken>) -> String {
    expected.map_or_else(|why| format!("no token ({why})"), |token| token.to_string())
}

/// Whether two rows are the same bit for bit.
pub(super) fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
