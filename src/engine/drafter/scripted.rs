//! Drafts that are known beforehand: for tests, and to re-enact what another engine drafted.

use std::collections::BTreeMap;

use super::{DraftContext, Drafter};
use crate::backend::BackendError;
use crate::engine::sampler::Draft;
use crate::types::TokenId;

/// The tokens that requests are expected to emit, by the client's id and the choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    lines: BTreeMap<String, BTreeMap<u32, Vec<TokenId>>>,
}

impl Script {
    /// Expects `tokens` of a choice of a request; whether nothing was expected of it before.
    pub fn insert(&mut self, client_id: &str, choice: u32, tokens: Vec<TokenId>) -> bool {
        self.lines.entry(client_id.to_owned()).or_default().insert(choice, tokens).is_none()
    }
}

/// Proposes what its script has after as many tokens as were emitted, whatever these were.
#[derive(Clone, Debug)]
pub struct ScriptedDrafter {
    script: Script,
    count: usize,
}

impl ScriptedDrafter {
    /// A drafter that proposes up to `count` tokens of `script`.
    pub fn new(script: Script, count: usize) -> Self {
        Self { script, count }
    }

    fn look_up(&self, context: &DraftContext<'_>) -> &[TokenId] {
        let choices = context.client_id.and_then(|id| self.script.lines.get(id));
        let line = choices.and_then(|choices| choices.get(&context.sequence.choice.0));
        let emitted = context.tokens.len() - context.prompt;
        let rest = line.and_then(|line| line.get(emitted..)).unwrap_or(&[]);
        &rest[..rest.len().min(self.count)]
    }
}

impl Drafter for ScriptedDrafter {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        let drafts = |tokens: &[TokenId]| tokens.iter().map(|&token| Draft::certain(token)).collect();
        Ok(sequences.iter().map(|sequence| drafts(self.look_up(sequence))).collect())
    }
}
