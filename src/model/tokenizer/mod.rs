//! Text to token ids and back.

mod byte_level;
mod gguf;
mod json;
mod text_stream;

use std::collections::HashSet;
use std::fmt;

pub use text_stream::TextStream;
pub(crate) use text_stream::incomplete_suffix;

pub(crate) use byte_level::character_of;
pub(crate) use gguf::from_gguf;
pub(crate) use json::from_json;

use crate::hash::{Hash, sha256};
use crate::model::error::Problem;
use crate::types::TokenId;

/// A text that could not be tokenized.
#[derive(Debug, thiserror::Error)]
#[error("tokenizer: {0}")]
pub struct TokenizerError(String);

/// A byte-level BPE tokenizer, from GGUF metadata or `tokenizer.json`.
pub struct Tokenizer {
    library: tokenizers::Tokenizer,
    tokens: Vec<TokenText>,
    end_tokens: Vec<TokenId>,
    hash: Hash,
}

/// What a token stands for.
#[derive(Clone, Debug, Default)]
struct TokenText {
    bytes: Box<[u8]>,
    special: bool,
}

impl Tokenizer {
    /// Name and version of the library that does the work: replay compares them.
    pub const COMPONENT: (&'static str, &'static str) = ("tokenizers", "0.23.2");

    /// The ids of `text`. Special tokens that stand in it by name become their ids; with `add_special`, those that
    /// the model wants around every text (begin of sequence) are added.
    ///
    /// # Errors
    /// If the tokenizer fails on this text.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<TokenId>, TokenizerError> {
        let encoding =
            self.library.encode_fast(text, add_special).map_err(|error| TokenizerError(error.to_string()))?;
        Ok(encoding.get_ids().iter().copied().map(TokenId).collect())
    }

    /// A copy that reads the names of special tokens as the ordinary text they also are.
    pub(crate) fn without_special_tokens(&self) -> Self {
        let Self { library, tokens, end_tokens, hash } = self;
        let mut library = library.clone();
        library.set_encode_special_tokens(true);
        Self { library, tokens: tokens.clone(), end_tokens: end_tokens.clone(), hash: hash.clone() }
    }

    /// The text of `tokens`, special tokens left out; bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        let ordinary = tokens.iter().copied().filter(|token| !self.is_special(*token));
        let bytes = ordinary.flat_map(|token| self.token_bytes(token)).copied().collect::<Vec<_>>();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The text of `tokens`, special tokens among it by name; bytes that are no UTF-8 become U+FFFD.
    pub fn decode_with_special_tokens(&self, tokens: &[TokenId]) -> String {
        let bytes = tokens.iter().flat_map(|token| self.token_bytes(*token)).copied().collect::<Vec<_>>();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The exact bytes of a token: the text of a special one, nothing for an id beyond the tokenizer's vocabulary.
    pub fn token_bytes(&self, token: TokenId) -> &[u8] {
        self.tokens.get(token.index()).map_or(&[], |text| &text.bytes)
    }

    /// Whether the token is a control token, which is no part of the text.
    pub fn is_special(&self, token: TokenId) -> bool {
        self.tokens.get(token.index()).is_some_and(|text| text.special)
    }

    /// The id of a token by its text, special tokens included.
    pub fn token_id(&self, text: &str) -> Option<TokenId> {
        self.library.token_to_id(text).map(TokenId)
    }

    /// Tokens that end generation, ascending.
    pub fn end_tokens(&self) -> &[TokenId] {
        &self.end_tokens
    }

    /// One more than the greatest id the tokenizer knows; the model's rows may be longer.
    pub fn vocabulary_size(&self) -> usize {
        self.tokens.len()
    }

    /// Hash of the tokenizer as it is used: of its form as a `tokenizer.json`, as the library writes it.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The tokenizer as a `tokenizer.json`.
    pub(crate) fn to_json(&self) -> Result<String, TokenizerError> {
        self.library.to_string(false).map_err(|error| TokenizerError(error.to_string()))
    }

    /// Builds on a configured library tokenizer; every id has to lie within the model's vocabulary.
    fn new(library: tokenizers::Tokenizer, vocabulary_size: usize) -> Result<Self, Problem> {
        let tokens = token_texts(&library, vocabulary_size)?;
        let json = library.to_string(false).map_err(|error| Problem::Tokenizer(error.to_string()))?;
        Ok(Self { library, tokens, end_tokens: Vec::new(), hash: sha256(&[json.as_bytes()]) })
    }

    /// Adds tokens that end generation.
    pub(crate) fn with_end_tokens(mut self, tokens: impl IntoIterator<Item = TokenId>) -> Result<Self, Problem> {
        self.end_tokens.extend(tokens);
        self.end_tokens.sort_unstable();
        self.end_tokens.dedup();
        match self.end_tokens.last() {
            Some(greatest) if greatest.index() >= self.tokens.len() => {
                let known = self.tokens.len();
                Err(Problem::Tokenizer(format!("end tokens: expected ids below {known}, found {greatest}")))
            }
            _ => Ok(self),
        }
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tokens, end_tokens, hash, library: _ } = self;
        formatter
            .debug_struct("Tokenizer")
            .field("tokens", &tokens.len())
            .field("end_tokens", end_tokens)
            .field("hash", hash)
            .finish()
    }
}

/// Checks that both parts of every merge are tokens and give one: the library takes that on trust, and panics.
fn check_merges<'a>(
    field: &str,
    vocabulary: &HashSet<&str>,
    merges: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), Problem> {
    for (index, (left, right)) in merges.enumerate() {
        let joined = format!("{left}{right}");
        if let Some(unknown) = [left, right, &joined].into_iter().find(|part| !vocabulary.contains(part)) {
            let found = format!("{unknown:?} (merge {index}, {left:?} with {right:?})");
            return Err(Problem::setting(field, "two tokens that give a token", found));
        }
    }
    Ok(())
}

/// The texts of all ids, from the library's vocabulary.
fn token_texts(library: &tokenizers::Tokenizer, vocabulary_size: usize) -> Result<Vec<TokenText>, Problem> {
    let added = library.get_added_vocabulary().get_added_tokens_decoder();
    let mut tokens = Vec::new();
    for (text, id) in library.get_vocab(true) {
        let index = id as usize;
        if index >= vocabulary_size {
            let problem =
                format!("token {text:?}: expected an id below the vocabulary size {vocabulary_size}, found {id}");
            return Err(Problem::Tokenizer(problem));
        }
        if tokens.len() <= index {
            tokens.resize(index + 1, TokenText::default());
        }
        tokens[index] = match added.get(&id) {
            Some(token) => TokenText { bytes: token.content.as_bytes().into(), special: token.special },
            None => TokenText { bytes: byte_level::bytes_of(&text), special: false },
        };
    }
    if tokens.is_empty() {
        return Err(Problem::Tokenizer("expected tokens, found none".to_owned()));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests;
