//! The grammar side of constrained decoding: what may come next, and what may be taken back.
//!
//! A [`Constraint`] is compiled by a [`GrammarFactory`] into a [`Grammar`]; each sequence has a [`Matcher`] of its own,
//! which says which tokens may come ([`MaskRow`]), consumes tokens and rolls back. [`fill()`] is the engine's way through
//! a window of drafts; replay goes its own way, on the same primitives. `llguidance` does the parsing.
//!
//! # What holds
//!
//! - **All or nothing.** A constraint that cannot be enforced as a whole is an error of [`GrammarFactory::compile`], which
//!   says where, what was expected and what was found; nothing is ignored or loosened in silence. The rules of JSON Schema
//!   are in `schema`, and hold for the schemas inside Lark grammars too. What compiles may allow less than was asked for
//!   (properties come in the order of the schema), never more.
//! - **One rule of legality.** A token is legal where the mask row has its bit: for consuming, validating and forcing.
//! - **End tokens** are allowed, every one of the tokenizer's, exactly where the grammar may stop. Consuming one terminates
//!   the matcher: nothing may follow, and its row allows everything, because nothing that is drawn from it is emitted.
//!   It counts as a consumed token and is taken back like any other. A grammar that names one is refused.
//! - **Special tokens** are never free text: only a Lark grammar that names one allows it. A forced text that spells the
//!   name of a special token is tokenized as text. User-defined tokens (such as `<tool_call>` in some vocabularies) are
//!   ordinary text.
//! - **Canonical tokens** ([`GrammarSettings::canonical_tokens`], on by default): where the grammar forces a text, the row
//!   allows the first token of its tokenization only, and not every token that begins it. Free text may be tokenized in any
//!   way, on or off.
//! - **Rollback is exact.** A matcher that went astray and came back has the rows of one that never left; features under
//!   which the library cannot roll back (`stop`, `max_tokens`) are refused.
//! - **Bounded.** Compiling is bounded by the sizes of source and grammar, a row by the library's limits of lexer and
//!   parser work, a matcher by its lexer's states. To meet one is an error, at a row as well: the request has to fail then.
//!   Matchers share no caches, so that no sequence's limits depend on another's.

mod backend;
mod constraint;
mod error;
mod factory;
mod fill;
mod lark;
mod library;
mod llguidance;
mod mask;
mod matcher;
mod regex;
mod schema;
mod vocabulary;
#[cfg(feature = "xgrammar")]
mod xgrammar;

pub use backend::{Backend, HOW_TO_BUILD};
pub use constraint::Constraint;
pub use error::GrammarError;
pub use factory::{Grammar, GrammarFactory, GrammarSettings, Whitespace};
pub use fill::fill;
pub use mask::MaskRow;
pub use matcher::Matcher;
