//! A model from a GGUF file.

use std::path::Path;
use std::sync::Arc;

use crate::arith::RopeLayout;
use crate::model::chat_template::{ChatTemplate, SpecialTokenTexts};
use crate::model::config::{Architecture, LayerKind, ModelConfig, Rope};
use crate::model::error::{ModelError, Problem};
use crate::model::generation_config::GenerationConfig;
use crate::model::gguf::{GgufFile, Metadata, required};
use crate::model::identity::{ModelIdentity, WeightsFiles};
use crate::model::tensor_names::{HeadTying, TensorNames, assemble};
use crate::model::tensor_set::{StoredTensor, TensorSet};
use crate::model::tokenizer::Tokenizer;
use crate::model::{Model, tokenizer};

/// Frequency factors of the rotary embedding, as Llama 3.1 and later have them.
const ROPE_FREQUENCIES: &str = "rope_freqs.weight";

/// Loads a GGUF file.
pub(crate) fn load(path: &Path) -> Result<Model, ModelError> {
    let gguf = GgufFile::open(path)?;
    assemble_model(path, gguf).map_err(|problem| problem.at(path))
}

fn assemble_model(path: &Path, gguf: GgufFile) -> Result<Model, Problem> {
    let metadata = &gguf.contents.metadata;
    refuse_split(metadata)?;
    let mut tensors = tensor_set(&gguf)?;
    let config = model_config(metadata, &mut tensors)?;
    let weights = assemble(&config, &TensorNames::gguf(config.architecture), HeadTying::ByPresence, tensors)?;
    let tokenizer = tokenizer::from_gguf(metadata, config.vocabulary_size)?;
    let generation_config = GenerationConfig::from_gguf(metadata)?;
    let chat_template = chat_template(metadata, &tokenizer)?;
    let identity = ModelIdentity::new(
        metadata.text("general.name")?,
        path,
        config.architecture,
        WeightsFiles::Single(Arc::clone(&gguf.file)),
        &tokenizer,
        chat_template.as_ref(),
    );
    Ok(Model { identity, config, weights, tokenizer: tokenizer.into(), chat_template, generation_config })
}

fn refuse_split(metadata: &Metadata) -> Result<(), Problem> {
    const PARTS: &str = "split.count";
    match metadata.unsigned(PARTS)? {
        Some(parts @ 2..) => Err(Problem::setting(PARTS, "a model in one file", format!("one of {parts} parts"))),
        _ => Ok(()),
    }
}

fn tensor_set(gguf: &GgufFile) -> Result<TensorSet, Problem> {
    let mut set = TensorSet::default();
    for tensor in &gguf.contents.tensors {
        let stored = StoredTensor {
            format: tensor.format,
            shape: tensor.dimensions.iter().rev().copied().collect(),
            file: Arc::clone(&gguf.file),
            range: tensor.range.clone(),
        };
        set.insert(tensor.name.clone(), stored)?;
    }
    Ok(set)
}

fn chat_template(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, Problem> {
    let Some(source) = metadata.text("tokenizer.chat_template")? else { return Ok(None) };
    let text = |key: &str| -> Result<Option<String>, Problem> {
        let Some(token) = metadata.token(key)? else { return Ok(None) };
        Ok(Some(String::from_utf8_lossy(tokenizer.token_bytes(token)).into_owned()))
    };
    let special = SpecialTokenTexts {
        begin_of_sequence: text("tokenizer.ggml.bos_token_id")?,
        end_of_sequence: text("tokenizer.ggml.eos_token_id")?,
    };
    Ok(Some(ChatTemplate::new(source, special)?))
}

/// Reads the shape; takes the frequency factors out of `tensors`, since they are part of it.
fn model_config(metadata: &Metadata, tensors: &mut TensorSet) -> Result<ModelConfig, Problem> {
    const ARCHITECTURE: &str = "general.architecture";
    let name = required(ARCHITECTURE, "the name of an architecture", metadata.text(ARCHITECTURE)?)?;
    let architecture = Architecture::by_name(name)?;
    let keys = Keys { metadata, prefix: architecture.name() };
    keys.check_known()?;

    let layer_count = keys.size("block_count")?;
    let hidden_size = keys.size("embedding_length")?;
    let heads = keys.size("attention.head_count")?;
    let (layers, kv_heads) = keys.layers(architecture, layer_count, heads)?;
    let head_size = keys.head_size(hidden_size, heads)?;
    let frequency_factors = match tensors.get(ROPE_FREQUENCIES) {
        Some(_) => Some(tensors.values(ROPE_FREQUENCIES, &[head_size / 2])?),
        None => None,
    };
    let layout = match architecture {
        Architecture::Llama => RopeLayout::Interleaved,
        Architecture::Lfm2 => RopeLayout::Halves,
    };
    let convolution_width = match architecture {
        Architecture::Llama => None,
        Architecture::Lfm2 => Some(keys.size("shortconv.l_cache")?),
    };
    ModelConfig {
        architecture,
        vocabulary_size: keys.vocabulary_size(tensors, TensorNames::gguf(architecture).embedding)?,
        hidden_size,
        feed_forward_size: keys.size("feed_forward_length")?,
        heads,
        kv_heads,
        head_size,
        layers,
        norm_epsilon: keys.norm_epsilon()?,
        rope: Rope { theta: keys.rope_theta(head_size)?, layout, frequency_factors },
        context_length: keys.size("context_length")?,
        convolution_width,
    }
    .check()
}

/// The keys that stand behind the architecture's name.
struct Keys<'a> {
    metadata: &'a Metadata,
    prefix: &'static str,
}

/// Keys that this loader reads, or that say nothing about the computation.
const KNOWN_KEYS: [&str; 17] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "shortconv.l_cache",
];

impl Keys<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// A key that this build does not know may change what the model computes, so none is passed over.
    fn check_known(&self) -> Result<(), Problem> {
        let own = self.metadata.iter().filter_map(|(key, _)| key.strip_prefix(self.prefix)?.strip_prefix('.'));
        for name in own {
            if !KNOWN_KEYS.contains(&name) {
                let expected = format!("only keys that this build knows: {}", KNOWN_KEYS.join(", "));
                return Err(Problem::setting(&self.key(name), expected, "this one"));
            }
        }
        Ok(())
    }

    fn size(&self, name: &str) -> Result<usize, Problem> {
        let key = self.key(name);
        match required(&key, "a size", self.metadata.size(&key)?)? {
            0 => Err(Problem::setting(&key, "1 or more", "0")),
            size => Ok(size),
        }
    }

    fn optional_size(&self, name: &str) -> Result<Option<usize>, Problem> {
        self.metadata.size(&self.key(name))
    }

    /// Layers and key-value heads: one number for all layers, or one per layer with 0 for a convolution.
    fn layers(
        &self,
        architecture: Architecture,
        layer_count: usize,
        heads: usize,
    ) -> Result<(Vec<LayerKind>, usize), Problem> {
        let key = self.key("attention.head_count_kv");
        let per_layer = match architecture {
            Architecture::Llama => {
                let kv_heads = self.optional_size("attention.head_count_kv")?.unwrap_or(heads);
                return Ok((attention_layers(layer_count)?, kv_heads));
            }
            Architecture::Lfm2 => required(&key, "one number per layer", self.metadata.sizes(&key)?)?,
        };
        if per_layer.len() != layer_count {
            return Err(Problem::setting(&key, format!("{layer_count} numbers"), per_layer.len().to_string()));
        }
        let mut attention = per_layer.iter().copied().filter(|count| *count != 0);
        let kv_heads = required(&key, "an attention layer", attention.next())?;
        if let Some(other) = attention.find(|count| *count != kv_heads) {
            let expected = format!("the same number in every attention layer ({kv_heads})");
            return Err(Problem::setting(&key, expected, other.to_string()));
        }
        let kind = |count: &usize| if *count == 0 { LayerKind::ShortConvolution } else { LayerKind::Attention };
        Ok((per_layer.iter().map(kind).collect(), kv_heads))
    }

    fn head_size(&self, hidden_size: usize, heads: usize) -> Result<usize, Problem> {
        let implied = hidden_size.checked_div(heads).unwrap_or(0);
        let key_size = self.optional_size("attention.key_length")?.unwrap_or(implied);
        let value_size = self.optional_size("attention.value_length")?.unwrap_or(implied);
        if key_size != value_size {
            let key = self.key("attention.value_length");
            return Err(Problem::setting(&key, format!("the key length ({key_size})"), value_size.to_string()));
        }
        Ok(key_size)
    }

    /// Rows of the embedding, which the metadata need not repeat.
    fn vocabulary_size(&self, tensors: &TensorSet, embedding: &str) -> Result<usize, Problem> {
        let rows = tensors.get(embedding).and_then(|tensor| match tensor.shape.as_slice() {
            [rows, _] => Some(*rows),
            _ => None,
        });
        let rows = rows.ok_or_else(|| Problem::tensor(embedding, "a matrix", "none"))?;
        match self.optional_size("vocab_size")? {
            Some(size) if size != rows => {
                let expected = format!("the rows of {embedding} ({rows})");
                Err(Problem::setting(&self.key("vocab_size"), expected, size.to_string()))
            }
            _ => Ok(rows),
        }
    }

    fn norm_epsilon(&self) -> Result<f32, Problem> {
        let key = self.key("attention.layer_norm_rms_epsilon");
        Ok(required(&key, "a number", self.metadata.float(&key)?)? as f32)
    }

    /// The base of the rotary embedding. Only whole heads rotate, and scaling comes as frequency factors alone.
    fn rope_theta(&self, head_size: usize) -> Result<f64, Problem> {
        const UNSET: f64 = 10_000.0;
        let rotated = self.optional_size("rope.dimension_count")?.unwrap_or(head_size);
        if rotated != head_size {
            let expected = format!("the head size ({head_size})");
            return Err(Problem::setting(&self.key("rope.dimension_count"), expected, rotated.to_string()));
        }
        let kind = self.metadata.text(&self.key("rope.scaling.type"))?;
        let factor = self.metadata.float(&self.key("rope.scaling.factor"))?;
        // Without a type a factor means linear scaling, and 0 and 1 mean none.
        let scaled = match kind {
            Some("none") => false,
            Some("linear") | None => factor.is_some_and(|factor| factor != 0.0 && factor != 1.0),
            Some(_) => true,
        };
        if scaled {
            return Err(Problem::Unsupported {
                what: "rope scaling",
                found: format!("{} with factor {factor:?}", kind.unwrap_or("linear")),
                supported: format!("none, and the frequency factors of llama 3 (tensor {ROPE_FREQUENCIES})"),
            });
        }
        Ok(self.metadata.float(&self.key("rope.freq_base"))?.unwrap_or(UNSET))
    }
}

fn attention_layers(count: usize) -> Result<Vec<LayerKind>, Problem> {
    /// Checked before a hostile count is allocated; [`ModelConfig::check`] has the real bound.
    const MOST: usize = 1 << 16;
    if count > MOST {
        return Err(Problem::setting("layers", format!("at most {MOST}"), count.to_string()));
    }
    Ok(vec![LayerKind::Attention; count])
}
