//! A tokenizer from `tokenizer.json`.

use std::collections::HashSet;

use serde::Deserialize;
use tokenizers::{DecoderWrapper, ModelWrapper};

use super::{Tokenizer, check_merges};
use crate::model::error::Problem;

/// Builds the tokenizer that the text of a `tokenizer.json` describes.
pub(crate) fn from_json(text: &[u8], vocabulary_size: usize) -> Result<Tokenizer, Problem> {
    check_model(text)?;
    let mut library = tokenizers::Tokenizer::from_bytes(text).map_err(|error| Problem::Tokenizer(error.to_string()))?;
    let byte_level = matches!(library.get_decoder(), Some(DecoderWrapper::ByteLevel(_)));
    if !byte_level || !matches!(library.get_model(), ModelWrapper::BPE(_)) {
        return Err(unsupported("a model other than BPE, or a decoder other than ByteLevel"));
    }
    // A prompt is what the request says; its length is checked against the context, never cut.
    library.with_truncation(None).map_err(|error| Problem::Tokenizer(error.to_string()))?;
    library.with_padding(None);
    Tokenizer::new(library, vocabulary_size)
}

/// What of a `tokenizer.json` is checked before the library sees it, since the library panics on some of it.
#[derive(Deserialize)]
struct Description {
    model: ModelDescription,
}

#[derive(Deserialize)]
struct ModelDescription {
    r#type: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    vocab: Option<serde_json::Value>,
    #[serde(default)]
    merges: Vec<Merge>,
}

/// A merge in the form of either age.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Text(String),
    Pair(String, String),
}

fn check_model(text: &[u8]) -> Result<(), Problem> {
    let Description { model } = serde_json::from_slice(text).map_err(|error| Problem::Tokenizer(error.to_string()))?;
    if let Some(other) = model.r#type.filter(|kind| kind != "BPE") {
        return Err(unsupported(&format!("model type {other:?}")));
    }
    let marks = [
        ("continuing_subword_prefix", model.continuing_subword_prefix),
        ("end_of_word_suffix", model.end_of_word_suffix),
    ];
    for (field, mark) in marks {
        if let Some(mark) = mark.filter(|mark| !mark.is_empty()) {
            return Err(unsupported(&format!("model.{field} {mark:?}")));
        }
    }
    let vocabulary = model
        .vocab
        .as_ref()
        .and_then(|vocab| vocab.as_object())
        .map(|vocab| vocab.keys().map(String::as_str).collect::<HashSet<_>>());
    let merges = model.merges.iter().filter_map(|merge| match merge {
        Merge::Text(text) => text.split_once(' '),
        Merge::Pair(left, right) => Some((left.as_str(), right.as_str())),
    });
    check_merges("model.merges", &vocabulary.unwrap_or_default(), merges)
}

fn unsupported(found: &str) -> Problem {
    Problem::Unsupported {
        what: "tokenizer",
        found: found.to_owned(),
        supported: "byte-level BPE, without marks on parts of words".to_owned(),
    }
}
