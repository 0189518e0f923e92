//! The library's matcher, and what it is made of.

use dlpark::prelude::{SafeManagedTensorVersioned, TensorView};
use std::sync::Arc;

use xgrammar::{CompiledGrammar, GrammarMatcher, get_bitmask_size};

use super::vocabulary::Surrogates;
use crate::grammar::library::{Compiled, Path};
use crate::types::TokenId;

/// A compiled grammar, and the tokens in a row.
pub(super) struct Start {
    grammar: CompiledGrammar,
    tokens: i32,
    surrogates: Option<Arc<Surrogates>>,
}

impl Start {
    /// `surrogates` keeps what is no UTF-8 out of the rows.
    pub(super) fn new(grammar: CompiledGrammar, tokens: i32, surrogates: Option<Arc<Surrogates>>) -> Self {
        Self { grammar, tokens, surrogates }
    }
}

impl Compiled for Start {
    fn start(&self) -> Box<dyn Path> {
        let matcher = GrammarMatcher::with(&self.grammar, None, Some(false), None);
        Box::new(Way { matcher, tokens: self.tokens, surrogates: self.surrogates.clone(), taken: Vec::new() })
    }
}

struct Way {
    matcher: GrammarMatcher,
    tokens: i32,
    surrogates: Option<Arc<Surrogates>>,
    taken: Vec<TokenId>,
}

impl Path for Way {
    fn mask(&mut self) -> Result<Vec<u32>, String> {
        let words = usize::try_from(get_bitmask_size(self.tokens)).map_err(|error| error.to_string())?;
        let mut row = SafeManagedTensorVersioned::new(vec![0_i32; words]).map_err(|error| error.to_string())?;
        self.matcher.fill_next_token_bitmask(&mut row, None, None).map_err(|error| error.to_string())?;
        let bits = row.as_slice_contiguous::<i32>().map_err(|error| error.to_string())?;
        let mut words: Vec<u32> = bits.iter().map(|word| word.cast_unsigned()).collect();
        if let Some(surrogates) = &self.surrogates {
            surrogates.remove(&mut words, self.taken.last().copied());
        }
        Ok(words)
    }

    /// The library's rows are the only rule: it writes on stderr what it refuses to go on by.
    fn allows(&mut self, _: TokenId) -> Result<Option<bool>, String> {
        Ok(None)
    }

    fn take(&mut self, token: TokenId) -> Result<(), String> {
        let accepted = self.matcher.accept_token(token.0.cast_signed(), None);
        self.taken.push(token);
        accepted.then_some(()).ok_or_else(|| format!("it refuses token {token}, which its row allows"))
    }

    fn rollback(&mut self, count: usize) -> Result<(), String> {
        self.taken.truncate(self.taken.len().saturating_sub(count));
        let count = i32::try_from(count).map_err(|error| error.to_string())?;
        self.matcher.rollback(Some(count)).map_err(|error| error.to_string())
    }

    fn is_accepting(&mut self) -> Result<bool, String> {
        Ok(self.matcher.is_completed())
    }

    /// Its rows have the end tokens too, and nothing else where nothing else may come.
    fn is_complete(&self) -> bool {
        false
    }
}
