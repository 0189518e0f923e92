//! A tokenizer from `tokenizer.json`.

use tokenizers::{DecoderWrapper, ModelWrapper};

use super::Tokenizer;
use crate::model::error::Problem;

/// Builds the tokenizer that the text of a `tokenizer.json` describes.
pub(crate) fn from_json(text: &[u8], vocabulary_size: usize) -> Result<Tokenizer, Problem> {
    let mut library = tokenizers::Tokenizer::from_bytes(text).map_err(|error| Problem::Tokenizer(error.to_string()))?;
    let byte_level = matches!(library.get_decoder(), Some(DecoderWrapper::ByteLevel(_)));
    if !byte_level || !matches!(library.get_model(), ModelWrapper::BPE(_)) {
        return Err(Problem::Unsupported {
            what: "tokenizer",
            found: "a model other than BPE, or a decoder other than ByteLevel".to_owned(),
            supported: "byte-level BPE".to_owned(),
        });
    }
    // A prompt is what the request says; its length is checked against the context, never cut.
    library.with_truncation(None).map_err(|error| Problem::Tokenizer(error.to_string()))?;
    library.with_padding(None);
    Tokenizer::new(library, vocabulary_size)
}
