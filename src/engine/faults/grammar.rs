//! Faults of masks and of the grammar's place.

use super::{Fault, Faults, Filled};
use crate::engine::constraint::SequenceGrammar;
use crate::engine::scheduler::Plan;
use crate::grammar::{GrammarError, MaskRow};
use crate::types::{SequenceId, TokenId};

/// What a fault has led a sequence's grammar to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Astray {
    /// It has still to take this token.
    Behind(TokenId),
    /// It takes itself for complete.
    Ended,
}

impl Faults {
    /// The mask rows of a query whose places are `drafts`.
    pub fn fill(
        &mut self,
        id: SequenceId,
        grammar: &mut SequenceGrammar,
        drafts: &[Option<TokenId>],
        end_tokens: &[TokenId],
    ) -> Filled {
        let Some(fault) = self.active else { return grammar.fill(drafts) };
        let mut rows = grammar.fill(drafts)?;
        let everything =
            |row: &mut Option<MaskRow>| *row = row.as_ref().map(|mask| MaskRow::all(mask.vocabulary_size()));
        match fault {
            Fault::PADDED_ROWS_PERMISSIVE => {
                let withheld = drafts.iter().position(Option::is_none).unwrap_or(rows.len());
                rows.iter_mut().skip(withheld).for_each(everything);
            }
            Fault::REASONING_END_LATE if grammar.position().reasoning => rows.fill(None),
            Fault::ROLLBACK_SHORT => {
                let first = drafts.first().copied().flatten().filter(|_| !grammar.position().reasoning);
                if let Some(first) = first.filter(|first| rows[0].as_ref().is_some_and(|row| row.allows(*first))) {
                    grammar.commit(&[first])?;
                }
            }
            Fault::END_ROLLBACK_LAG => {
                if self.astray.get(&id) == Some(&Astray::Ended) {
                    rows.iter_mut().for_each(everything);
                }
                let allowed = |(draft, row): (&Option<TokenId>, &Option<MaskRow>)| {
                    draft.is_some_and(|draft| {
                        end_tokens.contains(&draft) && row.as_ref().is_some_and(|row| row.allows(draft))
                    })
                };
                if drafts.iter().zip(&rows).any(allowed) {
                    self.astray.insert(id, Astray::Ended);
                }
            }
            _ => {}
        }
        Ok(rows)
    }

    /// Commits what a step emitted.
    pub fn commit(
        &mut self,
        id: SequenceId,
        grammar: &mut SequenceGrammar,
        tokens: &[TokenId],
    ) -> Result<(), GrammarError> {
        match self.active {
            Some(Fault::GRAMMAR_ONE_LATE) => {
                let late = match self.astray.remove(&id) {
                    Some(Astray::Behind(token)) => Some(token),
                    _ => None,
                };
                let mut tokens: Vec<TokenId> = late.into_iter().chain(tokens.iter().copied()).collect();
                if let Some(last) = tokens.pop() {
                    self.astray.insert(id, Astray::Behind(last));
                }
                grammar.commit(&tokens)
            }
            Some(Fault::DOUBLE_ACCEPT) => {
                grammar.commit(tokens)?;
                grammar.commit(&tokens[tokens.len().saturating_sub(1)..])
            }
            Some(Fault::END_ROLLBACK_LAG) if self.astray.contains_key(&id) => Ok(()),
            Some(Fault::REASONING_END_LATE) if grammar.position().reasoning => {
                // What stands after the end of reasoning in this step, the grammar never sees.
                let end = grammar.begins_after();
                let seen = tokens.iter().position(|token| Some(*token) == end).map_or(tokens.len(), |index| index + 1);
                grammar.commit(&tokens[..seen])
            }
            _ => grammar.commit(tokens),
        }
    }
}

/// What the sampler is told instead of what was filled.
pub fn misapplied<'a>(
    fault: Fault,
    plan: &Plan,
    mut applied: Vec<Vec<Option<&'a MaskRow>>>,
) -> Vec<Vec<Option<&'a MaskRow>>> {
    let verifies = |share: usize| !plan.shares[share].drafts.places.is_empty();
    match fault {
        Fault::MASKS_FROM_NEIGHBOUR => {
            let masked: Vec<usize> =
                (0..applied.len()).filter(|share| applied[*share].iter().any(Option::is_some)).collect();
            let own = applied.clone();
            for (place, &share) in masked.iter().enumerate() {
                let neighbour = &own[masked[(place + 1) % masked.len()]];
                for (row, mask) in applied[share].iter_mut().enumerate() {
                    *mask = neighbour.get(row).or(neighbour.last()).copied().flatten();
                }
            }
        }
        Fault::MASKS_SHIFTED => {
            for rows in applied.iter_mut().filter(|rows| rows.len() > 1) {
                let last = rows.len() - 1;
                rows.copy_within(..last, 1);
            }
        }
        Fault::MASK_NOT_ON_BONUS => {
            for (_, rows) in applied.iter_mut().enumerate().filter(|(share, _)| verifies(*share)) {
                rows.last_mut().into_iter().for_each(|row| *row = None);
            }
        }
        Fault::MASKS_DROPPED => {
            for (_, rows) in applied.iter_mut().enumerate().filter(|(share, _)| verifies(*share)) {
                rows.fill(None);
            }
        }
        _ => {}
    }
    applied
}
