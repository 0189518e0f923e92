//! What identifies a model.

use std::path::PathBuf;

use crate::model::Architecture;

/// A hash with how it was computed: unlike algorithms are never compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash {
    /// E.g. `sha256`, `git-blob-sha1`.
    pub algorithm: &'static str,
    /// Lower-case hexadecimal digits.
    pub hex: String,
}

/// Where a model came from and what identifies it.
#[derive(Debug)]
pub struct ModelIdentity {
    /// A name for people: from the metadata, or else the name of the file or folder.
    pub name: String,
    /// What was loaded.
    pub path: PathBuf,
    /// Which forward pass it has.
    pub architecture: Architecture,
    /// Length in bytes of all weights files.
    pub file_bytes: u64,
}

impl ModelIdentity {
    /// Hashes of the weights files; computed on the first call.
    pub fn file_hashes(&self) -> &[Hash] {
        todo!("within the hour")
    }

    /// Hashes of the tokenizer as it is used.
    pub fn tokenizer_hashes(&self) -> &[Hash] {
        todo!("within the hour")
    }

    /// Hashes of the chat template's text; none without a template.
    pub fn chat_template_hashes(&self) -> &[Hash] {
        todo!("within the hour")
    }
}
