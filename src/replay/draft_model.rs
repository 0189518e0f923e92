//! The draft model, run again in plain: what it proposes after each step's committed tokens, with its probabilities.

use std::collections::HashMap;

use super::context::Sequence;
use super::forward::{FeedError, Memory, PlainModel};
use super::rejection::Proposal;
use super::rules::Rules;
use crate::arith::scalar;

/// Tokens of a row that a draft with probabilities is drawn from.
const KEPT: usize = 64;

/// A draft and how it was come to.
pub(super) type Proposed = (u32, Proposal);

/// What the draft model proposes in each step that decodes, by the step's number.
///
/// # Errors
/// If the draft model cannot read a token.
pub(super) fn proposals(
    plain: &PlainModel<'_>,
    sequence: &Sequence<'_>,
    rules: &Rules,
    count: usize,
    by_chance: bool,
) -> Result<HashMap<u64, Vec<Proposed>>, FeedError> {
    let prompt = &sequence.admission.prompt_tokens;
    let choice = sequence.recorded.choice;
    let mut tokens = prompt.clone();
    let mut memory = plain.start();
    let mut proposals = HashMap::new();
    for step in sequence.recorded.steps.iter().take(sequence.joined) {
        if step.first_position as usize >= prompt.len() {
            let draw = Draw { rules, choice, by_chance };
            proposals.insert(step.step, propose(plain, &mut memory, &tokens, count, &draw)?);
        }
        tokens.extend(&step.emitted);
    }
    Ok(proposals)
}

/// What drafts are drawn with.
struct Draw<'a> {
    rules: &'a Rules,
    choice: u32,
    by_chance: bool,
}

/// Reads what was committed since, then each draft but the last; leaves the memory as it is after the committed tokens.
fn propose(
    plain: &PlainModel<'_>,
    memory: &mut Memory,
    tokens: &[u32],
    count: usize,
    draw: &Draw<'_>,
) -> Result<Vec<Proposed>, FeedError> {
    let mut hidden = Vec::new();
    for &token in tokens.iter().skip(memory.length() as usize) {
        hidden = plain.feed(memory, token)?;
    }
    if hidden.is_empty() {
        // No step follows another without a token between them; what is wrong with this one is for the check `commit`.
        return Ok(Vec::new());
    }
    let committed = memory.length();
    let mut proposed: Vec<Proposed> = Vec::new();
    while proposed.len() < count {
        let row = plain.logits(&plain.head_input(&hidden));
        let Some(draft) = draw.draft(&row, (tokens.len() + proposed.len()) as u32) else { break };
        proposed.push(draft.clone());
        if proposed.len() < count {
            hidden = match plain.feed(memory, draft.0) {
                Ok(hidden) => hidden,
                // Past the end of its context the draft model proposes nothing.
                Err(FeedError::ContextFull { .. }) => break,
                Err(error) => return Err(error),
            };
        }
    }
    memory.truncate(committed);
    Ok(proposed)
}

impl Draw<'_> {
    /// The draft for `position`; none from a row that must not become a token.
    fn draft(&self, row: &[f32], position: u32) -> Option<Proposed> {
        if row.iter().any(|value| value.is_nan() || *value == f32::INFINITY) {
            return None;
        }
        let mut best: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
        best.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(std::cmp::Ordering::Equal).then(a.0.cmp(&b.0)));
        best.truncate(KEPT);
        let &(first, maximum) = best.first().filter(|(_, value)| value.is_finite())?;
        let temperature = self.rules.temperature;
        if temperature == 0.0 {
            return Some((first, Proposal::Certain));
        }
        let purpose = if self.by_chance { scalar::PURPOSE_DRAFT } else { scalar::PURPOSE_TOKEN };
        let mut drawn = (f64::NEG_INFINITY, first);
        for &(id, value) in &best {
            let score = f64::from(value / temperature)
                + scalar::gumbel_for(purpose, self.rules.seed?, position, self.choice, id);
            if score > drawn.0 || (score == drawn.0 && id < drawn.1) {
                drawn = (score, id);
            }
        }
        if !self.by_chance {
            return Some((drawn.1, Proposal::Certain));
        }
        let maximum = maximum / temperature;
        let weights: Vec<f64> =
            best.iter().map(|&(_, value)| f64::from(scalar::exp(value / temperature - maximum))).collect();
        let total = weights.iter().fold(0.0, |sum, weight| sum + weight);
        let distribution = best.iter().zip(weights).map(|(&(id, _), weight)| (id, weight / total)).collect();
        Some((drawn.1, Proposal::Drawn(distribution)))
    }
}
