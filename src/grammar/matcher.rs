//! One sequence's way through its grammar.

use std::fmt;

use crate::grammar::library::Path;
use crate::grammar::{GrammarError, MaskRow};
use crate::types::TokenId;

/// Where one sequence stands in its grammar.
///
/// A token is legal when the mask row has its bit; [`Matcher::consume`], [`Matcher::validate`] and [`Matcher::forced`]
/// know no other rule. End tokens are kept out of the library: its own rollback over one is wrong for some grammars.
pub struct Matcher {
    path: Box<dyn Path>,
    vocabulary_size: usize,
    end_tokens: Vec<TokenId>,
    consumed: u64,
    terminated: bool,
    /// The row of this position, once it was asked for.
    row: Option<MaskRow>,
}

impl Matcher {
    pub(super) fn new(path: Box<dyn Path>, vocabulary_size: usize, end_tokens: Vec<TokenId>) -> Self {
        Self { path, vocabulary_size, end_tokens, consumed: 0, terminated: false, row: None }
    }

    /// Tokens consumed and not rolled back, an end token included.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Whether an end token was consumed: nothing may follow.
    pub fn is_terminated(&self) -> bool {
        self.terminated
    }

    /// Tokens in a mask row.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    /// Whether the output may end here, so that every end token is allowed.
    ///
    /// # Errors
    /// If the library fails.
    pub fn accepts_end(&mut self) -> Result<bool, GrammarError> {
        if self.terminated {
            return Ok(false);
        }
        let accepting = self.path.is_accepting();
        accepting.map_err(|message| self.spent(message))
    }

    /// Which tokens may come next. After an end token the row allows everything, as nothing that is drawn from it can
    /// be emitted.
    ///
    /// # Errors
    /// If the library fails, or no token may come: the grammar has led to where no token of this tokenizer goes on.
    pub fn mask(&mut self) -> Result<MaskRow, GrammarError> {
        if self.terminated {
            return Ok(MaskRow::all(self.vocabulary_size));
        }
        if let Some(row) = &self.row {
            return Ok(row.clone());
        }
        let row = if self.path.is_complete() {
            MaskRow::of(&self.end_tokens, self.vocabulary_size)
        } else {
            let words = self.path.mask().map_err(|message| self.spent(message))?;
            MaskRow::from_words(words, self.vocabulary_size)
        };
        self.row = Some(row.clone());
        Ok(row)
    }

    /// Goes on by a token.
    ///
    /// # Errors
    /// If the grammar does not allow it, in which case nothing has changed, or the library fails.
    pub fn consume(&mut self, token: TokenId) -> Result<(), GrammarError> {
        let consumed = self.consumed;
        if !self.allows(token)? {
            return Err(GrammarError::NotAllowed { consumed, token });
        }
        if self.end_tokens.contains(&token) {
            self.terminated = true;
        } else {
            self.path.take(token).map_err(|message| self.spent(message))?;
            self.row = None;
        }
        self.consumed += 1;
        Ok(())
    }

    /// Takes back the last `count` tokens.
    ///
    /// # Errors
    /// If fewer were consumed, in which case nothing has changed, or the library fails.
    pub fn rollback(&mut self, count: usize) -> Result<(), GrammarError> {
        let consumed = self.consumed;
        if count as u64 > consumed {
            return Err(GrammarError::Rollback { consumed, count });
        }
        let of_library = count - usize::from(self.terminated && count > 0);
        if of_library > 0 {
            self.path.rollback(of_library).map_err(|message| self.spent(message))?;
            self.row = None;
        }
        self.terminated &= count == 0;
        self.consumed -= count as u64;
        Ok(())
    }

    /// The length of the longest prefix of `tokens` that may come next, one after the other. Nothing has changed
    /// afterwards.
    ///
    /// # Errors
    /// If the library fails.
    pub fn validate(&mut self, tokens: &[TokenId]) -> Result<usize, GrammarError> {
        let mut valid = 0;
        for token in tokens {
            if !self.allows(*token)? {
                break;
            }
            self.consume(*token)?;
            valid += 1;
        }
        self.rollback(valid)?;
        Ok(valid)
    }

    /// The tokens that have to come next: as long as there is exactly one that may, and at most `limit`. Nothing has
    /// changed afterwards.
    ///
    /// # Errors
    /// If the library fails.
    pub fn forced(&mut self, limit: usize) -> Result<Vec<TokenId>, GrammarError> {
        let mut forced = Vec::new();
        while forced.len() < limit && !self.terminated {
            let Some(token) = self.mask()?.only() else {
                break;
            };
            self.consume(token)?;
            forced.push(token);
        }
        self.rollback(forced.len())?;
        Ok(forced)
    }

    /// Whether the row of this position has the token's bit, without its other bits where they were not asked for.
    fn allows(&mut self, token: TokenId) -> Result<bool, GrammarError> {
        if self.terminated || token.index() >= self.vocabulary_size {
            return Ok(false);
        }
        if let Some(row) = &self.row {
            return Ok(row.allows(token));
        }
        if self.end_tokens.contains(&token) {
            return self.accepts_end();
        }
        if self.path.is_complete() {
            return Ok(false);
        }
        match self.path.allows(token).map_err(|message| self.spent(message))? {
            Some(allows) => Ok(allows),
            None => Ok(self.mask()?.allows(token)),
        }
    }

    fn spent(&self, message: String) -> GrammarError {
        GrammarError::Library { consumed: self.consumed, message }
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { consumed, terminated, .. } = self;
        formatter.debug_struct("Matcher").field("consumed", consumed).field("terminated", terminated).finish()
    }
}
