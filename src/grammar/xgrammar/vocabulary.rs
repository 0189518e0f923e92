//! The tokenizer as XGrammar sees it.

use std::collections::HashMap;

use serde_json::json;
use xgrammar::TokenizerInfo;

use crate::grammar::GrammarError;
use crate::model::Tokenizer;
use crate::types::TokenId;

/// The form of the library's own serialization, the only way to hand it bytes as they are.
const SERIALIZATION: &str = "v16";
/// Before the name of a special token: a byte that no UTF-8 text has.
const SPECIAL_TOKEN_MARKER: u8 = 0xFF;

/// The special tokens by name, and the end tokens.
pub(super) struct SpecialTokens {
    pub(super) ids: HashMap<Vec<u8>, TokenId>,
    pub(super) ends: Vec<TokenId>,
}

impl SpecialTokens {
    pub(super) fn of(tokenizer: &Tokenizer) -> Self {
        let all = (0..tokenizer.vocabulary_size() as u32).map(TokenId);
        let special = all.filter(|token| tokenizer.is_special(*token));
        let ids = special.map(|token| (tokenizer.token_bytes(token).to_vec(), token)).collect();
        Self { ids, ends: tokenizer.end_tokens().to_vec() }
    }
}

/// All tokens, by their bytes.
///
/// Special tokens go by names that no text has; `as_vllm` by their names alone, so that a text can be spelled with them.
pub(super) fn tokenizer_info(
    tokenizer: &Tokenizer,
    vocabulary_size: usize,
    as_vllm: bool,
) -> Result<TokenizerInfo, GrammarError> {
    let end_tokens = tokenizer.end_tokens();
    let fault = |expected: &str, found: String| GrammarError::Tokenizer { expected: expected.to_owned(), found };
    if vocabulary_size < tokenizer.vocabulary_size() {
        let expected = format!("at most {vocabulary_size} tokens, the length of the model's rows");
        return Err(fault(&expected, tokenizer.vocabulary_size().to_string()));
    }
    if end_tokens.is_empty() {
        let expected = "an end token, without which no constrained output can end";
        return Err(fault(expected, "none".to_owned()));
    }
    let ids = i32::try_from(vocabulary_size)
        .map_err(|_| fault(&format!("at most {} tokens", i32::MAX), vocabulary_size.to_string()))?;
    let words: Vec<Vec<u8>> = (0..ids.unsigned_abs()).map(|id| word(tokenizer, TokenId(id), as_vllm)).collect();
    let is_end = |id: i32| end_tokens.contains(&TokenId(id.unsigned_abs()));
    let mut sorted: Vec<(i32, &[u8])> = (0..ids).zip(words.iter().map(Vec::as_slice)).collect();
    sorted.retain(|(id, bytes)| !bytes.is_empty() && !is_end(*id));
    sorted.sort_by_key(|(id, bytes)| (*bytes, *id));
    let nameless: Vec<i32> =
        (0..ids).zip(&words).filter(|(id, word)| word.is_empty() && !is_end(*id)).map(|(id, _)| id).collect();
    let form = json!({
        "__VERSION__": SERIALIZATION,
        "vocab_type": 0,
        "vocab_size": ids,
        "add_prefix_space": false,
        "stop_token_ids": end_tokens.iter().map(|token| token.0).collect::<Vec<_>>(),
        "special_token_ids": nameless,
        "decoded_vocab": words.iter().map(|word| latin_1(word)).collect::<Vec<_>>(),
        "sorted_decoded_vocab": sorted.iter().map(|(id, word)| json!([id, latin_1(word)])).collect::<Vec<_>>(),
        "trie_subtree_nodes_range": subtrees(&sorted, as_vllm),
    });
    TokenizerInfo::deserialize_json(&form.to_string())
        .map_err(|error| fault("a vocabulary that the grammar library can work with", error.to_string()))
}

fn word(tokenizer: &Tokenizer, token: TokenId, as_vllm: bool) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(token);
    if !as_vllm && tokenizer.is_special(token) { [&[SPECIAL_TOKEN_MARKER], bytes].concat() } else { bytes.to_vec() }
}

/// Where in the sorted list the tokens end that begin as each one does: what is refused with a token is refused with them.
///
/// The library's own list, which its Python package works with and so `as_vllm`, goes on to tokens that hold the token
/// anywhere.
fn subtrees(sorted: &[(i32, &[u8])], as_vllm: bool) -> Vec<usize> {
    let mut ends = vec![sorted.len(); sorted.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, (_, word)) in sorted.iter().enumerate() {
        while let Some(last) = open.last().copied() {
            let start = sorted[last].1;
            let goes_on = match as_vllm {
                true => word.windows(start.len()).any(|part| part == start),
                false => word.starts_with(start),
            };
            if goes_on {
                break;
            }
            ends[last] = index;
            open.pop();
        }
        open.push(index);
    }
    ends
}

/// Bytes as characters of the same numbers, which is how the library has them in JSON.
fn latin_1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Tokens that make halves of surrogate pairs, which are no UTF-8, and which the library's classes of characters allow.
///
/// Such a half is the byte 0xED and one from 0xA0 on. 0xED begins a character wherever it stands, so that no more than
/// the token before has to be known.
pub(super) struct Surrogates {
    /// Tokens that hold one.
    within: Vec<u32>,
    /// Tokens that complete one behind 0xED.
    second: Vec<u32>,
    /// Tokens that end with 0xED.
    first: Vec<u32>,
}

impl Surrogates {
    pub(super) fn of(tokenizer: &Tokenizer) -> Self {
        let words = vec![0_u32; tokenizer.vocabulary_size().div_ceil(32)];
        let mut found = [words.clone(), words.clone(), words];
        for id in 0..tokenizer.vocabulary_size() {
            let bytes = tokenizer.token_bytes(TokenId(id as u32));
            let is = [
                bytes.windows(2).any(|pair| pair[0] == 0xED && pair[1] >= 0xA0),
                bytes.first().is_some_and(|first| (0xA0..0xC0).contains(first)),
                bytes.last() == Some(&0xED),
            ];
            for (words, is) in found.iter_mut().zip(is) {
                words[id / 32] |= u32::from(is) << (id % 32);
            }
        }
        let [within, second, first] = found;
        Self { within, second, first }
    }

    /// Takes out of a row what may not come after the token.
    pub(super) fn remove(&self, row: &mut [u32], last: Option<TokenId>) {
        let ends = |token: TokenId| {
            self.first.get(token.index() / 32).is_some_and(|word| word >> (token.index() % 32) & 1 == 1)
        };
        let lists = if last.is_some_and(ends) { &[&self.within, &self.second][..] } else { &[&self.within] };
        for words in lists {
            row.iter_mut().zip(*words).for_each(|(row, word)| *row &= !word);
        }
    }
}
