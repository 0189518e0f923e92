//! A synthetic model as a Hugging Face folder.

use std::io;
use std::path::Path;

use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value as Json, json};

use super::gguf::{NORM_EPSILON, ROPE_SCALING, ROPE_THETA, tokenizer_metadata};
use super::vocabulary::{self, BEGIN_OF_SEQUENCE, END_OF_SEQUENCE, VOCABULARY_SIZE};
use super::{RandomTensor, SyntheticModel};
use crate::model::{Architecture, LayerKind, tokenizer};

pub(super) fn write(model: &SyntheticModel, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    write_json(folder, "config.json", &config(model))?;
    write_weights(model, &folder.join("model.safetensors"))?;

    let metadata = tokenizer_metadata(model).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let tokenizer = tokenizer::from_gguf(&metadata, VOCABULARY_SIZE).map_err(io::Error::other)?;
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_json().map_err(io::Error::other)?)?;
    let (begin_of_sequence, end_of_sequence) = vocabulary::special_token_texts();
    let mut tokenizer_config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": begin_of_sequence,
        "eos_token": end_of_sequence,
    });
    if let Some(template) = &model.chat_template {
        tokenizer_config["chat_template"] = Json::from(template.as_str());
    }
    write_json(folder, "tokenizer_config.json", &tokenizer_config)?;
    if model.generation_config.is_empty() {
        return Ok(());
    }
    write_json(folder, "generation_config.json", &Json::Object(model.generation_config.clone()))
}

fn write_json(folder: &Path, name: &str, value: &Json) -> io::Result<()> {
    std::fs::write(folder.join(name), serde_json::to_string_pretty(value)?)
}

fn config(model: &SyntheticModel) -> Json {
    let mut config = json!({
        "model_type": model.architecture.name(),
        "vocab_size": VOCABULARY_SIZE,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.feed_forward_size,
        "num_hidden_layers": model.layers.len(),
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_size,
        "max_position_embeddings": model.context_length,
        "rope_theta": ROPE_THETA,
        "tie_word_embeddings": model.head.is_none(),
        "bos_token_id": BEGIN_OF_SEQUENCE.0,
        "eos_token_id": END_OF_SEQUENCE.0,
        "torch_dtype": "float32",
    });
    let specifics = match model.architecture {
        Architecture::Llama => json!({
            "architectures": ["LlamaForCausalLM"],
            "hidden_act": "silu",
            "rms_norm_eps": NORM_EPSILON,
        }),
        Architecture::Lfm2 => json!({
            "architectures": ["Lfm2ForCausalLM"],
            "norm_eps": NORM_EPSILON,
            "block_auto_adjust_ff_dim": false,
            "conv_L_cache": model.convolution_width,
            "conv_bias": false,
            "layer_types": model.layers.iter().map(|kind| match kind {
                LayerKind::Attention => "full_attention",
                LayerKind::ShortConvolution => "conv",
            }).collect::<Vec<_>>(),
        }),
    };
    if let (Json::Object(config), Json::Object(specifics)) = (&mut config, specifics) {
        config.extend(specifics);
    }
    if model.frequency_factors {
        config["rope_scaling"] = json!({
            "rope_type": "llama3",
            "factor": ROPE_SCALING.factor,
            "low_freq_factor": ROPE_SCALING.low_frequency_factor,
            "high_freq_factor": ROPE_SCALING.high_frequency_factor,
            "original_max_position_embeddings": ROPE_SCALING.original_context as u64,
        });
    }
    config
}

fn write_weights(model: &SyntheticModel, path: &Path) -> io::Result<()> {
    let tensors = model
        .tensors()?
        .into_iter()
        .map(|tensor| {
            let bytes = row_order(&tensor)?.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<_>>();
            // `transformers` keeps the middle dimension of a depthwise convolution.
            let shape = match tensor.shape.as_slice() {
                [channels, width] if tensor.names.1.ends_with("conv.conv.weight") => vec![*channels, 1, *width],
                shape => shape.to_vec(),
            };
            Ok((tensor.names.1, shape, bytes))
        })
        .collect::<io::Result<Vec<_>>>()?;
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(io::Error::other)?;
    let metadata = Some([("format".to_owned(), "pt".to_owned())].into());
    safetensors::serialize_to_file(views, metadata, path).map_err(io::Error::other)
}

/// The values with permuted rows put back: row `2j + half` of a head in GGUF is row `half * head_size / 2 + j` here.
fn row_order(tensor: &RandomTensor) -> io::Result<Vec<f32>> {
    let values = tensor.values()?;
    let (Some(heads), [rows, columns]) = (tensor.permuted_heads, tensor.shape.as_slice()) else {
        return Ok(values);
    };
    let head_size = rows / heads;
    let rows = (0..*rows).map(|row| {
        let (head, within) = (row / head_size, row % head_size);
        let (half, pair) = (within / (head_size / 2), within % (head_size / 2));
        head * head_size + 2 * pair + half
    });
    Ok(rows.flat_map(|row| values[row * columns..][..*columns].iter().copied()).collect())
}
