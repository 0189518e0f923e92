//! The tokenizer as the grammar library sees it.

use toktrie::{TokRxInfo, TokTrie, TokenizerEnv};

use crate::grammar::GrammarError;
use crate::model::Tokenizer;

/// The bytes of every token, and how a text that the grammar forces is tokenized.
pub(super) struct Vocabulary {
    trie: TokTrie,
    tokenizer: Tokenizer,
    canonical: bool,
}

impl Vocabulary {
    /// Builds the trie of all tokens. Special tokens and end tokens stand in it under names that no text has.
    pub(super) fn new(tokenizer: &Tokenizer, vocabulary_size: usize, canonical: bool) -> Result<Self, GrammarError> {
        let known = tokenizer.vocabulary_size();
        if vocabulary_size < known {
            return Err(GrammarError::Tokenizer {
                expected: format!("at most {vocabulary_size} tokens, the length of the model's rows"),
                found: known.to_string(),
            });
        }
        let end_tokens = tokenizer.end_tokens().iter().map(|token| token.0).collect::<Vec<_>>();
        let Some(first_end_token) = end_tokens.first() else {
            return Err(GrammarError::Tokenizer {
                expected: "an end token, without which no constrained output can end".to_owned(),
                found: "none".to_owned(),
            });
        };
        let size = u32::try_from(vocabulary_size).map_err(|_| GrammarError::Tokenizer {
            expected: format!("at most {} tokens", u32::MAX),
            found: vocabulary_size.to_string(),
        })?;
        let words = (0..size).map(|id| word(tokenizer, id)).collect::<Vec<_>>();
        let trie = TokTrie::from(&TokRxInfo::new(size, *first_end_token), &words).with_eos_tokens(&end_tokens);
        Ok(Self { trie, tokenizer: tokenizer.without_special_tokens(), canonical })
    }
}

/// What stands for a token in the trie: its bytes, or a name behind a byte that no UTF-8 text has.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let token = crate::types::TokenId(id);
    let bytes = tokenizer.token_bytes(token);
    if tokenizer.is_special(token) || tokenizer.end_tokens().contains(&token) {
        [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat()
    } else {
        bytes.to_vec()
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<toktrie::TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| match self.tokenizer.encode(text, false) {
            Ok(tokens) => tokens.iter().map(|token| token.0).collect(),
            Err(_) => self.trie.greedy_tokenize(text.as_bytes()),
        })
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.canonical
    }
}
