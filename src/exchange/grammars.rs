//! The constraints of requests, compiled.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use super::ExchangeError;
use crate::engine::constraint::OutputGrammar;
use crate::grammar::{Grammar, GrammarError, GrammarFactory, GrammarSettings};
use crate::model::Model;
use crate::params::{OutputConstraint, RequestFault};
use crate::types::TokenId;

/// Compiles what requests demand of their outputs; equal constraints once.
pub struct Grammars<'a> {
    model: &'a Model,
    settings: GrammarSettings,
    reasoning_end: Option<TokenId>,
    factory: OnceCell<Result<GrammarFactory, GrammarError>>,
    compiled: RefCell<HashMap<(&'static str, String), Grammar>>,
}

impl<'a> Grammars<'a> {
    /// `reasoning_end` is the text of the token that ends a reasoning section.
    ///
    /// # Errors
    /// If the tokenizer has no such token.
    pub fn new(
        model: &'a Model,
        settings: GrammarSettings,
        reasoning_end: Option<&str>,
    ) -> Result<Self, ExchangeError> {
        let token = |text: &str| {
            let token = model.tokenizer.token_id(text);
            token.ok_or_else(|| ExchangeError::NoSuchToken { text: text.to_owned() })
        };
        let reasoning_end = reasoning_end.map(token).transpose()?;
        Ok(Self { model, settings, reasoning_end, factory: OnceCell::new(), compiled: RefCell::default() })
    }

    /// What the output after `prompt` has to follow.
    ///
    /// # Errors
    /// If the grammar library has no such grammar.
    pub fn compile(&self, output: &OutputConstraint, prompt: &[TokenId]) -> Result<OutputGrammar, RequestFault> {
        let OutputConstraint { field, constraint } = output;
        let fault =
            |error: GrammarError| RequestFault::Constraint { field: field.to_string(), message: error.to_string() };
        let key = (constraint.kind(), constraint.source());
        let known = self.compiled.borrow().get(&key).cloned();
        let grammar = match known {
            Some(grammar) => grammar,
            None => {
                let grammar = self.factory().and_then(|factory| factory.compile(constraint)).map_err(fault)?;
                self.compiled.borrow_mut().insert(key, grammar.clone());
                grammar
            }
        };
        let begins_after = self.reasoning_end.filter(|end| !self.has_reasoned(prompt, *end));
        Ok(OutputGrammar { constraint: constraint.clone(), grammar, begins_after })
    }

    fn factory(&self) -> Result<&GrammarFactory, GrammarError> {
        let Model { tokenizer, config, .. } = self.model;
        let make = || GrammarFactory::new(tokenizer, config.vocabulary_size, self.settings);
        self.factory.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// Whether the prompt itself ends the reasoning section: in what stands after its last end token, which ends the
    /// message before the answer.
    fn has_reasoned(&self, prompt: &[TokenId], end: TokenId) -> bool {
        let end_tokens = self.model.tokenizer.end_tokens();
        prompt.iter().rev().take_while(|token| !end_tokens.contains(token)).any(|token| *token == end)
    }
}
