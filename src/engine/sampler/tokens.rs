//! The tokens of a sequence, counted for the penalties.

use std::collections::BTreeMap;

use crate::types::TokenId;

/// Which tokens a sequence holds: prompt tokens, and how often each was emitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    entries: BTreeMap<TokenId, TokenCount>,
}

/// What the penalties know of one token of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCount {
    /// Whether it is in the prompt.
    pub in_prompt: bool,
    /// How often it was emitted.
    pub emitted: u32,
}

impl TokenCounts {
    /// Counts of a sequence that has only its prompt.
    pub fn of_prompt(prompt: &[TokenId]) -> Self {
        let entry = |&token| (token, TokenCount { in_prompt: true, emitted: 0 });
        Self { entries: prompt.iter().map(entry).collect() }
    }

    /// Counts an emitted token.
    pub fn push(&mut self, token: TokenId) {
        self.entries.entry(token).or_default().emitted += 1;
    }

    /// Takes back one emission of a token, as for a draft that was not accepted.
    pub fn take_back(&mut self, token: TokenId) {
        let Some(count) = self.entries.get_mut(&token) else { return };
        count.emitted = count.emitted.saturating_sub(1);
        if !count.in_prompt && count.emitted == 0 {
            self.entries.remove(&token);
        }
    }

    /// Every token of the sequence, by id.
    pub fn iter(&self) -> impl Iterator<Item = (TokenId, TokenCount)> + '_ {
        self.entries.iter().map(|(&token, &count)| (token, count))
    }
}
