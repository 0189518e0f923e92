//! Why a model could not be loaded.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::chat_template::TemplateError;

/// A model that could not be loaded: which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ModelError {
    /// The file or folder concerned.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a model file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Its bytes do not follow the format.
    #[error("byte {offset}: {field}: expected {expected}, found {found}")]
    Malformed {
        /// Where in the file.
        offset: u64,
        /// What stands there.
        field: String,
        /// What the format demands.
        expected: String,
        /// What was read.
        found: String,
    },
    /// It is no JSON, or not of the expected shape.
    #[error("invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A metadata key (GGUF) or configuration field (Hugging Face) is missing or has an unusable value.
    #[error("{key}: expected {expected}, found {found}")]
    Setting {
        /// Its name.
        key: String,
        /// What would be accepted.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A tensor is missing, unexpected, or of another shape or type than the configuration demands.
    #[error("tensor {name}: expected {expected}, found {found}")]
    Tensor {
        /// Its name in the file.
        name: String,
        /// What the configuration demands.
        expected: String,
        /// What was found.
        found: String,
    },
    /// It asks for something that this build does not know.
    #[error("{what} {found} is not supported; supported: {supported}")]
    Unsupported {
        /// What kind of thing.
        what: &'static str,
        /// Which one the model asks for.
        found: String,
        /// Which ones exist.
        supported: String,
    },
    /// The tokenizer is missing or unusable.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// The chat template does not parse.
    #[error(transparent)]
    ChatTemplate(#[from] TemplateError),
}

impl Problem {
    /// Says which file has the problem.
    pub(crate) fn at(self, path: &Path) -> ModelError {
        ModelError { path: path.to_owned(), problem: self }
    }

    pub(crate) fn setting(key: &str, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Setting { key: key.to_owned(), expected: expected.into(), found: found.into() }
    }

    pub(crate) fn tensor(name: &str, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Tensor { name: name.to_owned(), expected: expected.into(), found: found.into() }
    }
}
