//! Compiling constraints for one tokenizer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::TokEnv;
use llguidance::{ParserFactory, TokenParser};
use serde_json::{Value as Json, json};

use crate::grammar::vocabulary::Vocabulary;
use crate::grammar::{Constraint, GrammarError, Matcher, lark, regex, schema};
use crate::model::Tokenizer;
use crate::types::TokenId;

/// Stack of a compilation: the library goes through nested schemas and regular expressions by recursion.
const STACK_BYTES: usize = 64 << 20;
/// What the library ends an error with where it has been told to keep its state to itself.
pub(super) const NO_STATE: &str = "\n<non-verbose/>";
/// States of one matcher's lexer, of one to two kilobytes each.
const MAX_LEXER_STATES: usize = 50_000;

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
    /// Whether a text that the grammar forces has to be tokenized as the tokenizer would.
    pub canonical_tokens: bool,
    /// White space in JSON.
    pub whitespace: Whitespace,
}

impl Default for GrammarSettings {
    fn default() -> Self {
        Self { canonical_tokens: true, whitespace: Whitespace::Any }
    }
}

/// Compiles constraints for one tokenizer; a clone shares everything.
#[derive(Clone)]
pub struct GrammarFactory {
    inner: Arc<Inner>,
}

struct Inner {
    library: ParserFactory,
    settings: GrammarSettings,
    vocabulary_size: usize,
    end_tokens: Vec<TokenId>,
}

impl GrammarFactory {
    /// Name and version of the library that does the work: replay compares them.
    pub const COMPONENT: (&'static str, &'static str) = ("llguidance", "1.9.1");

    /// Prepares for a tokenizer and the length of the model's rows, in tokens.
    ///
    /// # Errors
    /// If the tokenizer has tokens beyond the rows, or no end token.
    pub fn new(tokenizer: &Tokenizer, vocabulary_size: usize, settings: GrammarSettings) -> Result<Self, GrammarError> {
        let vocabulary = Vocabulary::new(tokenizer, vocabulary_size, settings.canonical_tokens)?;
        let environment: TokEnv = Arc::new(vocabulary);
        let mut library = ParserFactory::new_simple(&environment).map_err(|error| GrammarError::Tokenizer {
            expected: "a vocabulary that the grammar library can work with".to_owned(),
            found: error.to_string(),
        })?;
        let limits = library.quiet().limits_mut();
        limits.verbose_errors = false;
        limits.max_lexer_states = MAX_LEXER_STATES;
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
        let whitespace = self.inner.settings.whitespace;
        let schema = |schema: &Json| Ok(TopLevelGrammar::from_json_schema(schema::prepare(schema, whitespace)?));
        let source = match constraint {
            Constraint::JsonObject => schema(&json!({"type": "object"}))?,
            Constraint::JsonSchema(source) => schema(source)?,
            Constraint::Regex(source) => TopLevelGrammar::from_regex(regex::checked(source)?),
            Constraint::Choice(texts) => TopLevelGrammar::from_regex(&regex::any_of(texts)?),
            Constraint::Lark(source) => TopLevelGrammar::from_lark(lark::prepare(source, whitespace)?),
        };
        let parser = self.parser(source).map_err(|message| refused(constraint, message))?;
        self.check(&parser).map_err(|found| refused(constraint, found))?;
        let mut start = llguidance::Matcher::new(Ok(parser));
        // The first row finds out a grammar that nothing satisfies, and its work serves every matcher.
        start.compute_mask().map_err(|error| refused(constraint, error.to_string()))?;
        Ok(Grammar { factory: self.clone(), start: Arc::new(Mutex::new(start)) })
    }

    /// Has the library compile, on a stack of known size.
    fn parser(&self, source: TopLevelGrammar) -> Result<TokenParser, String> {
        let library = &self.inner.library;
        let compile = || library.create_parser(source).map_err(|error| format!("{error:#}"));
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("grammar".to_owned()).stack_size(STACK_BYTES);
            let thread = builder.spawn_scoped(scope, compile).map_err(|error| error.to_string())?;
            thread.join().unwrap_or_else(|_| Err("the grammar library panicked".to_owned()))
        })
    }

    /// What compiles, and cannot be rolled back, enforced or ended as other grammars are.
    fn check(&self, parser: &TokenParser) -> Result<(), String> {
        let lexer = parser.parser.grammar().lexer_spec();
        if let Some(warning) = lexer.render_warnings().first() {
            return Err(warning.clone());
        }
        for lexeme in &lexer.lexemes {
            if let Some(token) = self.inner.end_tokens.iter().find(|token| lexeme.contains_token(token.0)) {
                return Err(format!("the end token {token}, which comes by itself where the grammar is complete"));
            }
        }
        if !lexer.eos_ending_lexemes().is_empty() {
            return Err("a text that only an end token ends".to_owned());
        }
        lexer.check_rollback().map_err(|error| error.to_string())
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

fn refused(constraint: &Constraint, found: String) -> GrammarError {
    let place = match constraint {
        Constraint::JsonObject | Constraint::JsonSchema(_) => "schema",
        Constraint::Regex(_) => "regular expression",
        Constraint::Choice(_) => "choice",
        Constraint::Lark(_) => "grammar",
    };
    let expected = "what can be enforced token by token".to_owned();
    GrammarError::Refused { place: place.to_owned(), expected, found: found.replace(NO_STATE, "") }
}

/// A compiled constraint; a clone shares everything.
#[derive(Clone)]
pub struct Grammar {
    factory: GrammarFactory,
    start: Arc<Mutex<llguidance::Matcher>>,
}

impl Grammar {
    /// A matcher at the beginning of the output. It shares nothing with other matchers, not even caches: whether a
    /// limit is met must not depend on other sequences.
    pub fn matcher(&self) -> Matcher {
        let library = self.start.lock().unwrap_or_else(PoisonError::into_inner).deep_clone();
        Matcher::new(library, self.factory.inner.vocabulary_size, self.factory.inner.end_tokens.clone())
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Grammar").field("factory", &self.factory).finish_non_exhaustive()
    }
}
