//! The mask that the sampler used is the one that the scheduler filled, and the token is one of those it allows.

use crate::capture::records::MaskRecord;
use crate::replay::context::{Masking, Row};
use crate::replay::verdict::{Skip, Verdict};

/// Checks a row; `None` where no grammar constrains the request and no mask is recorded.
pub(in crate::replay) fn check(row: &Row<'_>) -> Option<Verdict> {
    let record = row.record;
    let is_constrained = row.sequence.admission.constraint.is_some();
    if !is_constrained && record.applied_mask.is_none() {
        return None;
    }
    let mut verdict = Verdict::new();
    let applied = record.applied_mask.as_ref().map(hex);
    if row.sequence.context.is_own() {
        let expected = record.scheduler_mask.as_ref().filter(|_| row.is_judged()).map(hex);
        verdict.equal("applied_mask", expected, applied);
    } else {
        match (&record.scheduler_mask, applied) {
            (Some(expected), Some(applied)) => verdict.equal("applied_mask", hex(expected), applied),
            _ => verdict.skip(Skip::not_recorded("both masks of a row are not recorded")),
        }
    }
    match row.masking {
        Masking::None if row.sequence.context.is_own() => {
            verdict.equal("mask_population", None, record.mask_population);
        }
        Masking::None => {}
        Masking::Unknown(skip) => verdict.skip(skip.clone()),
        Masking::Mask(mask) => applied_mask(&mut verdict, row, mask),
    }
    Some(verdict)
}

fn applied_mask(verdict: &mut Verdict, row: &Row<'_>, mask: &MaskRecord) {
    let computed = MaskRecord::new(mask.tokens, mask.bits.clone()).hash;
    verdict.equal("hash of the mask's bits", hex(&computed), hex(&mask.hash));
    if let Some(size) = row.sequence.context.vocabulary_size() {
        verdict.equal("tokens of the mask", size, mask.tokens);
    }
    let population: u32 = mask.bits.iter().map(|byte| byte.count_ones()).sum();
    verdict.equal_if_known("mask_population", population, row.record.mask_population);
    if let Some(token) = row.emitted() {
        verdict.holds(allows(mask, token), "token", format!("one of the {population} that the mask allows"), token);
    }
}

/// Whether a mask has the token's bit.
pub(in crate::replay) fn allows(mask: &MaskRecord, token: u32) -> bool {
    token < mask.tokens && mask.bits.get(token as usize / 8).is_some_and(|byte| byte >> (token % 8) & 1 == 1)
}

fn hex(hash: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}
