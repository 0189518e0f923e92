//! Why a grammar could not be compiled or used.

use crate::types::TokenId;

/// A constraint that cannot be compiled, or a matcher that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The tokenizer cannot serve constrained output.
    #[error("tokenizer: expected {expected}, found {found}")]
    Tokenizer {
        /// What grammars need of it.
        expected: String,
        /// What it is like.
        found: String,
    },
    /// The grammar library is not in this build, or cannot work so.
    #[error("grammar backend: expected {expected}, found {found}")]
    Backend {
        /// What would do.
        expected: String,
        /// What there is, or was asked for.
        found: String,
    },
    /// The constraint cannot be enforced as a whole.
    #[error(
        "{place}: expected {expected}, found {found}; the request is refused, because output under a part of its constraint would not be what it asks for"
    )]
    Refused {
        /// Where in the constraint: a JSON pointer, or a line and a column.
        place: String,
        /// What could be enforced.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A token that the grammar does not allow here.
    #[error("after {consumed} tokens: expected a token that the grammar allows, found {token}")]
    NotAllowed {
        /// The tokens consumed before it.
        consumed: u64,
        /// The token.
        token: TokenId,
    },
    /// A rollback past the beginning.
    #[error("rollback: expected at most the {consumed} tokens consumed, found {count}")]
    Rollback {
        /// The tokens consumed.
        consumed: u64,
        /// The tokens to take back.
        count: usize,
    },
    /// The grammar library gave up, for example at one of its limits; the matcher is of no use any more.
    #[error("after {consumed} tokens: the grammar library failed: {message}; the matcher is spent")]
    Library {
        /// The tokens consumed.
        consumed: u64,
        /// What it said.
        message: String,
    },
}
