//! Models: weights, tokenizer, chat template and generation defaults, loaded from GGUF or safetensors.
//!
//! A model file is untrusted input: every size is checked before use, and errors carry the byte offset.

mod chat_template;
mod config;
mod dequantize;
mod error;
mod first_blocks;
mod generation_config;
mod gguf;
mod gguf_model;
mod hugging_face;
mod identity;
#[doc(hidden)]
pub mod synthetic;
mod tensor_names;
mod tensor_set;
mod tokenizer;
mod weights;

use std::path::Path;
use std::sync::Arc;

pub use chat_template::{ChatPrompt, ChatTemplate, TemplateError};
pub use config::{Architecture, LayerKind, ModelConfig, Rope};
pub use dequantize::write_dequantized;
pub use error::{ModelError, Problem};
pub use first_blocks::write_first_blocks;
pub use generation_config::GenerationConfig;
pub use identity::ModelIdentity;
pub(crate) use tokenizer::incomplete_suffix;
pub use tokenizer::{TextStream, Tokenizer, TokenizerError};
pub use weights::{AttentionWeights, ConvolutionWeights, LayerWeights, OperatorWeights, Tensor, Weights};

/// Everything that is known about a model once it is loaded.
pub struct Model {
    /// Where it came from and what identifies it.
    pub identity: ModelIdentity,
    /// Its shape.
    pub config: ModelConfig,
    /// Its weights, as they stand in the file.
    pub weights: Weights,
    /// Text to ids and back.
    pub tokenizer: Arc<Tokenizer>,
    /// Messages to text; `None` when the model has no template.
    pub chat_template: Option<ChatTemplate>,
    /// Sampling defaults that the model's authors recommend.
    pub generation_config: GenerationConfig,
}

impl Model {
    /// Loads a GGUF file, or a folder with `config.json`, safetensors files and `tokenizer.json`.
    ///
    /// # Errors
    /// If a file cannot be read, is damaged, or asks for something this build does not know.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        if path.is_dir() { hugging_face::load(path) } else { gguf_model::load(path) }
    }
}

#[cfg(test)]
mod tests;
