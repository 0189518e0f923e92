//! Compiling constraints for one tokenizer.

use std::fmt;
use std::sync::Arc;

use crate::grammar::library::{Compiled, Library};
use crate::grammar::llguidance::Llguidance;
use crate::grammar::{Backend, Constraint, GrammarError, Matcher};
use crate::model::Tokenizer;
use crate::types::TokenId;

/// White space between the parts of a JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whitespace {
    /// Any amount, between any two parts.
    Any,
    /// One space after each comma and each colon, as chat templates write JSON (Python's `json.dumps`).
    Single,
    /// None.
    None,
}

impl Whitespace {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Any, Self::Single, Self::None];

    /// Its name in captures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Single => "single",
            Self::None => "none",
        }
    }
}

/// What masks depend on beside the constraint and the tokenizer; a capture has to record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrammarSettings {
    /// The library that does the work.
    pub backend: Backend,
    /// Whether a text that the grammar forces has to be tokenized as the tokenizer would.
    pub canonical_tokens: bool,
    /// White space in JSON.
    pub whitespace: Whitespace,
    /// Whether the library gets constraints and tokens as vLLM hands them over: the constraint unchecked, and special
    /// tokens as the text of their names. For replaying its captures alone, and with XGrammar alone.
    pub as_vllm: bool,
}

impl Default for GrammarSettings {
    fn default() -> Self {
        Self { backend: Backend::Llguidance, canonical_tokens: true, whitespace: Whitespace::Any, as_vllm: false }
    }
}

/// Compiles constraints for one tokenizer; a clone shares everything.
#[derive(Clone)]
pub struct GrammarFactory {
    inner: Arc<Inner>,
}

struct Inner {
    library: Box<dyn Library>,
    settings: GrammarSettings,
    vocabulary_size: usize,
    end_tokens: Vec<TokenId>,
}

impl GrammarFactory {
    /// Prepares for a tokenizer and the length of the model's rows, in tokens.
    ///
    /// # Errors
    /// If the tokenizer has tokens beyond the rows, or no end token, or the library cannot work under the settings.
    pub fn new(tokenizer: &Tokenizer, vocabulary_size: usize, settings: GrammarSettings) -> Result<Self, GrammarError> {
        let library = library(tokenizer, vocabulary_size, settings)?;
        let end_tokens = tokenizer.end_tokens().to_vec();
        Ok(Self { inner: Arc::new(Inner { library, settings, vocabulary_size, end_tokens }) })
    }

    /// The settings it was made with.
    pub fn settings(&self) -> GrammarSettings {
        self.inner.settings
    }

    /// Tokens in a mask row.
    pub fn vocabulary_size(&self) -> usize {
        self.inner.vocabulary_size
    }

    /// Compiles a constraint.
    ///
    /// # Errors
    /// If any part of it cannot be enforced, or it is too large to compile.
    pub fn compile(&self, constraint: &Constraint) -> Result<Grammar, GrammarError> {
        let compiled = self.inner.library.compile(constraint)?;
        Ok(Grammar { factory: self.clone(), compiled: compiled.into() })
    }
}

fn library(
    tokenizer: &Tokenizer,
    vocabulary_size: usize,
    settings: GrammarSettings,
) -> Result<Box<dyn Library>, GrammarError> {
    if settings.canonical_tokens && !settings.backend.has_canonical_tokens() {
        return Err(GrammarError::Backend {
            expected: format!("masks of any tokens that spell a text, the only ones of {}", settings.backend.name()),
            found: "canonical tokens".to_owned(),
        });
    }
    match settings.backend {
        Backend::Llguidance => Ok(Box::new(Llguidance::new(tokenizer, vocabulary_size, settings)?)),
        #[cfg(feature = "xgrammar")]
        Backend::Xgrammar => {
            Ok(Box::new(crate::grammar::xgrammar::Xgrammar::new(tokenizer, vocabulary_size, settings)?))
        }
        #[cfg(not(feature = "xgrammar"))]
        Backend::Xgrammar => Err(GrammarError::Backend {
            expected: "a build with the feature `xgrammar`".to_owned(),
            found: format!("one without; {}", crate::grammar::HOW_TO_BUILD),
        }),
    }
}

impl fmt::Debug for GrammarFactory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { settings, vocabulary_size, end_tokens, library: _ } = &*self.inner;
        formatter
            .debug_struct("GrammarFactory")
            .field("settings", settings)
            .field("vocabulary_size", vocabulary_size)
            .field("end_tokens", end_tokens)
            .finish()
    }
}

/// The library cannot compile, or cannot enforce.
pub(super) fn refused(constraint: &Constraint, found: String) -> GrammarError {
    let place = match constraint {
        Constraint::JsonObject | Constraint::JsonSchema(_) => "schema",
        Constraint::Regex(_) => "regular expression",
        Constraint::Choice(_) => "choice",
        Constraint::Lark(_) | Constraint::Ebnf(_) => "grammar",
    };
    let expected = "what can be enforced token by token".to_owned();
    GrammarError::Refused { place: place.to_owned(), expected, found }
}

/// A compiled constraint; a clone shares everything.
#[derive(Clone)]
pub struct Grammar {
    factory: GrammarFactory,
    compiled: Arc<dyn Compiled>,
}

impl Grammar {
    /// A matcher at the beginning of the output.
    pub fn matcher(&self) -> Matcher {
        let Inner { vocabulary_size, end_tokens, .. } = &*self.factory.inner;
        Matcher::new(self.compiled.start(), *vocabulary_size, end_tokens.clone())
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Grammar").field("factory", &self.factory).finish_non_exhaustive()
    }
}
