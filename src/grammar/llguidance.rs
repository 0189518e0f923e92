//! llguidance: the library that every build has.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::TokEnv;
use llguidance::{ParserFactory, TokenParser};
use serde_json::{Value as Json, json};

use crate::grammar::factory::{GrammarSettings, Whitespace, refused};
use crate::grammar::library::{Compiled, Library, Path};
use crate::grammar::vocabulary::Vocabulary;
use crate::grammar::{Constraint, GrammarError, lark, regex, schema};
use crate::model::Tokenizer;
use crate::types::TokenId;

/// Stack of a compilation: the library goes through nested schemas and regular expressions by recursion.
const STACK_BYTES: usize = 64 << 20;
/// What the library ends an error with where it has been told to keep its state to itself.
const NO_STATE: &str = "\n<non-verbose/>";
/// States of one matcher's lexer, of one to two kilobytes each.
const MAX_LEXER_STATES: usize = 50_000;

pub(super) struct Llguidance {
    library: ParserFactory,
    whitespace: Whitespace,
    end_tokens: Vec<TokenId>,
}

impl Llguidance {
    pub(super) fn new(
        tokenizer: &Tokenizer,
        vocabulary_size: usize,
        settings: GrammarSettings,
    ) -> Result<Self, GrammarError> {
        let vocabulary = Vocabulary::new(tokenizer, vocabulary_size, settings.canonical_tokens)?;
        let environment: TokEnv = Arc::new(vocabulary);
        let mut library = ParserFactory::new_simple(&environment).map_err(|error| GrammarError::Tokenizer {
            expected: "a vocabulary that the grammar library can work with".to_owned(),
            found: error.to_string(),
        })?;
        let limits = library.quiet().limits_mut();
        limits.verbose_errors = false;
        limits.max_lexer_states = MAX_LEXER_STATES;
        Ok(Self { library, whitespace: settings.whitespace, end_tokens: tokenizer.end_tokens().to_vec() })
    }

    /// Has the library compile, on a stack of known size.
    fn parser(&self, source: TopLevelGrammar) -> Result<TokenParser, String> {
        let library = &self.library;
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
            if let Some(token) = self.end_tokens.iter().find(|token| lexeme.contains_token(token.0)) {
                return Err(format!("the end token {token}, which comes by itself where the grammar is complete"));
            }
        }
        if !lexer.eos_ending_lexemes().is_empty() {
            return Err("a text that only an end token ends".to_owned());
        }
        lexer.check_rollback().map_err(|error| error.to_string())
    }
}

impl Library for Llguidance {
    fn compile(&self, constraint: &Constraint) -> Result<Box<dyn Compiled>, GrammarError> {
        let whitespace = self.whitespace;
        let schema = |schema: &Json| Ok(TopLevelGrammar::from_json_schema(schema::prepare(schema, whitespace)?));
        let source = match constraint {
            Constraint::JsonObject => schema(&json!({"type": "object"}))?,
            Constraint::JsonSchema(source) => schema(source)?,
            Constraint::Regex(source) => TopLevelGrammar::from_regex(regex::checked(source)?),
            Constraint::Choice(texts) => TopLevelGrammar::from_regex(&regex::any_of(texts)?),
            Constraint::Lark(source) => TopLevelGrammar::from_lark(lark::prepare(source, whitespace)?),
            Constraint::Ebnf(_) => return Err(lark::not_ebnf()),
        };
        let refused = |found: String| refused(constraint, found.replace(NO_STATE, ""));
        let parser = self.parser(source).map_err(refused)?;
        self.check(&parser).map_err(refused)?;
        let mut start = llguidance::Matcher::new(Ok(parser));
        // The first row finds out a grammar that nothing satisfies, and its work serves every matcher.
        start.compute_mask().map_err(|error| refused(error.to_string()))?;
        Ok(Box::new(Start(Mutex::new(start))))
    }
}

struct Start(Mutex<llguidance::Matcher>);

impl Compiled for Start {
    /// It shares nothing with other ways, not even caches: whether a limit is met must not depend on other sequences.
    fn start(&self) -> Box<dyn Path> {
        Box::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).deep_clone())
    }
}

impl Path for llguidance::Matcher {
    fn mask(&mut self) -> Result<Vec<u32>, String> {
        let mask = self.compute_mask().map_err(in_words)?;
        Ok(mask.as_slice().to_vec())
    }

    fn allows(&mut self, token: TokenId) -> Result<Option<bool>, String> {
        // Forced bytes have one tokenization, where the masks are canonical: its first token is the whole row.
        if let Some(forced) = self.compute_ff_tokens().first() {
            return Ok(Some(token.0 == *forced));
        }
        let valid = self.validate_tokens(&[token.0]).map_err(in_words)?;
        Ok(Some(valid == 1))
    }

    fn take(&mut self, token: TokenId) -> Result<(), String> {
        self.consume_token(token.0).map_err(in_words)
    }

    fn rollback(&mut self, count: usize) -> Result<(), String> {
        llguidance::Matcher::rollback(self, count).map_err(in_words)
    }

    fn is_accepting(&mut self) -> Result<bool, String> {
        llguidance::Matcher::is_accepting(self).map_err(in_words)
    }

    fn is_complete(&self) -> bool {
        self.is_stopped() && !self.is_error()
    }
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string().replace(NO_STATE, "")
}
