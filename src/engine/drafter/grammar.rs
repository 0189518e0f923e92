//! The tokens that have to come.

use super::{DraftContext, Drafter};
use crate::backend::BackendError;
use crate::engine::sampler::Draft;

/// Proposes what the sequence's grammar forces: as long as exactly one token may come, that one.
#[derive(Clone, Copy, Debug)]
pub struct GrammarDrafter {
    count: usize,
}

impl GrammarDrafter {
    /// A drafter that proposes up to `count` tokens.
    pub fn new(count: usize) -> Self {
        Self { count }
    }
}

impl Drafter for GrammarDrafter {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        let drafts = |sequence: &DraftContext<'_>| sequence.forced.iter().map(|token| Draft::certain(*token)).collect();
        Ok(sequences.iter().map(drafts).collect())
    }

    fn forced_tokens(&self) -> usize {
        self.count
    }
}
