//! Text to token ids and back.

mod text_stream;

pub use text_stream::TextStream;

use crate::types::TokenId;

/// A text that could not be tokenized.
#[derive(Debug, thiserror::Error)]
#[error("tokenizer: {0}")]
pub struct TokenizerError(String);

/// A byte-level BPE tokenizer, from GGUF metadata or `tokenizer.json`.
pub struct Tokenizer {}

impl Tokenizer {
    /// Version of the library that does the work: replay compares it.
    pub const COMPONENT: (&'static str, &'static str) = ("tokenizers", "0.23.2");

    /// The ids of `text`. Special tokens that stand in it by name become their ids; with `add_special`, those that
    /// the model wants around every text (begin of sequence) are added.
    ///
    /// # Errors
    /// If the tokenizer fails on this text.
    pub fn encode(&self, _text: &str, _add_special: bool) -> Result<Vec<TokenId>, TokenizerError> {
        todo!("within the hour")
    }

    /// The text of `tokens`, special tokens left out; bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, _tokens: &[TokenId]) -> String {
        todo!("within the hour")
    }

    /// The exact bytes of a token: the text of a special one, nothing for an id beyond the tokenizer's vocabulary.
    pub fn token_bytes(&self, _token: TokenId) -> &[u8] {
        todo!("within the hour")
    }

    /// Whether the token is a control token, which is no part of the text.
    pub fn is_special(&self, _token: TokenId) -> bool {
        todo!("within the hour")
    }

    /// Tokens that end generation, ascending.
    pub fn end_tokens(&self) -> &[TokenId] {
        todo!("within the hour")
    }

    /// One more than the greatest id the tokenizer knows; the model's rows may be longer.
    pub fn vocabulary_size(&self) -> usize {
        todo!("within the hour")
    }
}
