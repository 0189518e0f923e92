//! Steps 1 and 2 of the definition: mask, bias, withheld end, penalties.

use super::SampleContext;
use super::select::maximum;
use crate::grammar::MaskRow;
use crate::types::TokenId;

/// Whether steps 1 and 2 change any value.
pub(super) fn changes_the_row(context: &SampleContext<'_>) -> bool {
    let params = context.params;
    context.mask.is_some() || !params.logit_bias.is_empty() || withholds_the_end(context) || params.has_penalties()
}

fn withholds_the_end(context: &SampleContext<'_>) -> bool {
    context.emitted < context.params.min_tokens
}

/// Applies steps 1 and 2 to a row.
pub(super) fn apply(row: &mut [f32], context: &SampleContext<'_>) {
    let params = context.params;
    if let Some(mask) = context.mask {
        apply_mask(row, mask);
    }
    for &(token, bias) in &params.logit_bias {
        change(row, token, |value| value + bias);
    }
    if withholds_the_end(context) {
        for &token in context.end_tokens.iter().chain(&params.stop_token_ids) {
            change(row, token, |_| f32::NEG_INFINITY);
        }
    }
    if params.has_penalties() {
        for (token, count) in context.counts.iter() {
            change(row, token, |value| penalized(value, count.emitted, context));
        }
    }
}

/// Makes every token impossible that the mask does not allow.
fn apply_mask(row: &mut [f32], mask: &MaskRow) {
    for (values, &word) in row.chunks_mut(u32::BITS as usize).zip(mask.words()) {
        match word {
            u32::MAX => {}
            0 => values.fill(f32::NEG_INFINITY),
            word => {
                let masked = values.iter_mut().enumerate().filter(|(bit, _)| word >> bit & 1 == 0);
                masked.for_each(|(_, value)| *value = f32::NEG_INFINITY);
            }
        }
    }
}

/// A value under the penalties; every token of the counts is in the prompt or the output.
fn penalized(value: f32, emitted: u32, context: &SampleContext<'_>) -> f32 {
    let params = context.params;
    let repetition = params.repetition_penalty;
    let value = if value > 0.0 { value / repetition } else { value * repetition };
    if emitted == 0 {
        return value;
    }
    (-params.frequency_penalty).mul_add(emitted as f32, value) - params.presence_penalty
}

/// Changes one value; an id that the row does not have is none of its tokens.
fn change(row: &mut [f32], token: TokenId, change: impl FnOnce(f32) -> f32) {
    if let Some(value) = row.get_mut(token.index()) {
        *value = change(*value);
    }
}

/// The lowest id of the greatest value, and that value; `None` if nothing is above -infinity.
pub(super) fn argmax(row: &[f32]) -> Option<(TokenId, f32)> {
    let greatest = maximum(row);
    if greatest == f32::NEG_INFINITY {
        return None;
    }
    row.iter().zip(0..).find(|&(&value, _)| value == greatest).map(|(_, id)| (TokenId(id), greatest))
}
