//! A synthetic model as a GGUF file.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use serde_json::Value as Json;

use super::{SyntheticModel, vocabulary};
use crate::arith::WeightFormat;
use crate::model::gguf::{Array, GgufWriter, Value};
use crate::model::hugging_face::Llama3Scaling;
use crate::model::{Architecture, LayerKind};

pub(super) const NORM_EPSILON: f64 = 1e-5;
pub(super) const ROPE_THETA: f64 = 10_000.0;
/// Small enough that the frequency factors of a small head cover all three ranges.
pub(super) const ROPE_SCALING: Llama3Scaling =
    Llama3Scaling { factor: 8.0, low_frequency_factor: 1.0, high_frequency_factor: 4.0, original_context: 64.0 };

pub(super) fn write(model: &SyntheticModel, path: &Path) -> io::Result<()> {
    let mut writer = GgufWriter::default();
    let architecture = model.architecture.name();
    writer.metadata("general.architecture", Value::Text(architecture.to_owned()));
    writer.metadata("general.name", Value::Text(format!("synthetic {architecture} {}", model.seed)));
    for (key, value) in shape(model) {
        writer.metadata(&format!("{architecture}.{key}"), value);
    }
    for (key, value) in tokenizer_metadata(model) {
        writer.metadata(key, value);
    }
    for (name, value) in &model.generation_config {
        let name = match name.as_str() {
            "temperature" => "temp",
            "repetition_penalty" => "penalty_repeat",
            other => other,
        };
        writer.metadata(&format!("general.sampling.{name}"), sampling_value(value)?);
    }
    for tensor in model.tensors()? {
        let dimensions = tensor.shape.iter().rev().copied().collect::<Vec<_>>();
        writer.tensor(&tensor.names.0, tensor.format, &dimensions, tensor.bytes);
    }
    if model.frequency_factors {
        let pairs = model.head_size / 2;
        let factors = (0..pairs).map(|pair| ROPE_SCALING.divisor(ROPE_THETA, model.head_size, pair));
        let bytes = factors.flat_map(f32::to_le_bytes).collect();
        writer.tensor("rope_freqs.weight", WeightFormat::F32, &[pairs], bytes);
    }
    writer.write(BufWriter::new(File::create(path)?))
}

/// The tokenizer's metadata; `lfm2` puts a token before every text, `llama` does not.
pub(super) fn tokenizer_metadata(model: &SyntheticModel) -> Vec<(&'static str, Value)> {
    let pre_tokenizer = match model.architecture {
        Architecture::Llama => "smollm",
        Architecture::Lfm2 => "lfm2",
    };
    vocabulary::metadata(pre_tokenizer, model.chat_template.as_deref())
}

/// The keys behind the architecture's name.
fn shape(model: &SyntheticModel) -> Vec<(&'static str, Value)> {
    let size = |size: usize| Value::Unsigned(size as u64);
    let kv_heads = match model.architecture {
        Architecture::Llama => size(model.kv_heads),
        Architecture::Lfm2 => {
            let per_layer = model.layers.iter().map(|kind| match kind {
                LayerKind::Attention => model.kv_heads as i64,
                LayerKind::ShortConvolution => 0,
            });
            Value::Array(Array::Signed(per_layer.collect()))
        }
    };
    let mut keys = vec![
        ("block_count", size(model.layers.len())),
        ("context_length", size(model.context_length)),
        ("embedding_length", size(model.hidden_size)),
        ("feed_forward_length", size(model.feed_forward_size)),
        ("vocab_size", size(vocabulary::VOCABULARY_SIZE)),
        ("attention.head_count", size(model.heads)),
        ("attention.head_count_kv", kv_heads),
        ("attention.key_length", size(model.head_size)),
        ("attention.value_length", size(model.head_size)),
        ("attention.layer_norm_rms_epsilon", Value::Float(NORM_EPSILON)),
        ("rope.dimension_count", size(model.head_size)),
        ("rope.freq_base", Value::Float(ROPE_THETA)),
    ];
    if model.architecture == Architecture::Lfm2 {
        keys.push(("shortconv.l_cache", size(model.convolution_width)));
    }
    keys
}

fn sampling_value(value: &Json) -> io::Result<Value> {
    match (value.as_i64(), value.as_f64()) {
        (Some(whole), _) => Ok(Value::Signed(whole)),
        (None, Some(number)) => Ok(Value::Float(number)),
        (None, None) => Err(io::Error::other(format!("expected a number, found {value}"))),
    }
}
