//! What a grammar library has to do; one file per library does it.

use crate::grammar::{Constraint, GrammarError};
use crate::types::TokenId;

/// A library, prepared for one tokenizer.
pub(super) trait Library: Send + Sync {
    /// Compiles a constraint.
    ///
    /// # Errors
    /// If any part of it cannot be enforced.
    fn compile(&self, constraint: &Constraint) -> Result<Box<dyn Compiled>, GrammarError>;
}

/// A compiled constraint.
pub(super) trait Compiled: Send + Sync {
    /// A way through it, at its beginning.
    fn start(&self) -> Box<dyn Path>;
}

/// One way through a grammar, end tokens left out: [`Matcher`](crate::grammar::Matcher) keeps them to itself.
///
/// An error is the library's, in its words; the way is of no use after one.
pub(super) trait Path: Send {
    /// The bits of the tokens that may come, end tokens where the grammar may stop included.
    fn mask(&mut self) -> Result<Vec<u32>, String>;

    /// Whether a token that is no end token may come; `None` if the whole mask has to be asked.
    fn allows(&mut self, token: TokenId) -> Result<Option<bool>, String>;

    /// Goes on by a token that may come and is no end token.
    fn take(&mut self, token: TokenId) -> Result<(), String>;

    /// Takes back the last `count` tokens, 1 or more.
    fn rollback(&mut self, count: usize) -> Result<(), String>;

    /// Whether the grammar may stop here.
    fn is_accepting(&mut self) -> Result<bool, String>;

    /// Whether nothing but the end may come.
    fn is_complete(&self) -> bool;
}
