//! What tensors are called in each container and architecture, and how a model is put together from them.

use crate::model::config::{Architecture, LayerKind, ModelConfig};
use crate::model::error::Problem;
use crate::model::tensor_set::TensorSet;
use crate::model::weights::{AttentionWeights, ConvolutionWeights, LayerWeights, OperatorWeights, Tensor, Weights};

/// Names of a model's tensors. Those of a layer stand behind `layer_prefix` and the layer's number.
pub(crate) struct TensorNames {
    pub(crate) embedding: &'static str,
    pub(crate) output_norm: &'static str,
    pub(crate) head: &'static str,
    pub(crate) layer_prefix: &'static str,
    pub(crate) operator_norm: &'static str,
    pub(crate) feed_forward_norm: &'static str,
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) query: &'static str,
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    pub(crate) output: &'static str,
    /// Only architectures that norm queries and keys have them.
    pub(crate) query_and_key_norm: Option<(&'static str, &'static str)>,
    pub(crate) convolution: &'static str,
    pub(crate) in_projection: &'static str,
    pub(crate) out_projection: &'static str,
}

impl TensorNames {
    /// As `llama.cpp` writes them.
    pub(crate) fn gguf(architecture: Architecture) -> Self {
        let (output_norm, query_and_key_norm) = match architecture {
            Architecture::Llama => ("output_norm.weight", None),
            // The converter files the last norm under the embedding, whose name it bears upstream.
            Architecture::Lfm2 => ("token_embd_norm.weight", Some(("attn_q_norm.weight", "attn_k_norm.weight"))),
        };
        Self {
            embedding: "token_embd.weight",
            output_norm,
            head: "output.weight",
            layer_prefix: "blk.",
            operator_norm: "attn_norm.weight",
            feed_forward_norm: "ffn_norm.weight",
            gate: "ffn_gate.weight",
            up: "ffn_up.weight",
            down: "ffn_down.weight",
            query: "attn_q.weight",
            key: "attn_k.weight",
            value: "attn_v.weight",
            output: "attn_output.weight",
            query_and_key_norm,
            convolution: "shortconv.conv.weight",
            in_projection: "shortconv.in_proj.weight",
            out_projection: "shortconv.out_proj.weight",
        }
    }

    /// As `transformers` writes them.
    pub(crate) fn hugging_face(architecture: Architecture) -> Self {
        let common = Self {
            embedding: "model.embed_tokens.weight",
            output_norm: "model.norm.weight",
            head: "lm_head.weight",
            layer_prefix: "model.layers.",
            operator_norm: "input_layernorm.weight",
            feed_forward_norm: "post_attention_layernorm.weight",
            gate: "mlp.gate_proj.weight",
            up: "mlp.up_proj.weight",
            down: "mlp.down_proj.weight",
            query: "self_attn.q_proj.weight",
            key: "self_attn.k_proj.weight",
            value: "self_attn.v_proj.weight",
            output: "self_attn.o_proj.weight",
            query_and_key_norm: None,
            convolution: "conv.conv.weight",
            in_projection: "conv.in_proj.weight",
            out_projection: "conv.out_proj.weight",
        };
        match architecture {
            Architecture::Llama => common,
            Architecture::Lfm2 => Self {
                output_norm: "model.embedding_norm.weight",
                operator_norm: "operator_norm.weight",
                feed_forward_norm: "ffn_norm.weight",
                gate: "feed_forward.w1.weight",
                up: "feed_forward.w3.weight",
                down: "feed_forward.w2.weight",
                output: "self_attn.out_proj.weight",
                query_and_key_norm: Some(("self_attn.q_layernorm.weight", "self_attn.k_layernorm.weight")),
                ..common
            },
        }
    }
}

/// Whether a model's head is its embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadTying {
    /// The configuration says that it is.
    Tied,
    /// The configuration says that it is not.
    Separate,
    /// The presence of a head decides (GGUF).
    ByPresence,
}

/// Takes the weights of a model of that shape out of `tensors`; every tensor has to have its place.
pub(crate) fn assemble(
    config: &ModelConfig,
    names: &TensorNames,
    tying: HeadTying,
    mut tensors: TensorSet,
) -> Result<Weights, Problem> {
    let embedding = tensors.matrix(names.embedding, config.vocabulary_size, config.hidden_size)?;
    let layers = config
        .layers
        .iter()
        .enumerate()
        .map(|(index, kind)| assemble_layer(config, names, index, *kind, &mut tensors))
        .collect::<Result<Vec<_>, _>>()?;
    let output_norm = tensors.values(names.output_norm, &[config.hidden_size])?;
    let head = assemble_head(config, names, tying, &embedding, &mut tensors)?;
    tensors.finish()?;
    Ok(Weights { embedding, layers, output_norm, head })
}

fn assemble_head(
    config: &ModelConfig,
    names: &TensorNames,
    tying: HeadTying,
    embedding: &Tensor,
    tensors: &mut TensorSet,
) -> Result<Tensor, Problem> {
    let present = tensors.get(names.head).is_some();
    if !present && tying != HeadTying::Separate {
        return Ok(embedding.clone());
    }
    let head = tensors.matrix(names.head, config.vocabulary_size, config.hidden_size)?;
    if tying == HeadTying::Tied && (head.format() != embedding.format() || head.bytes() != embedding.bytes()) {
        return Err(Problem::tensor(names.head, "the embedding, to which it is tied", "other values"));
    }
    Ok(head)
}

fn assemble_layer(
    config: &ModelConfig,
    names: &TensorNames,
    index: usize,
    kind: LayerKind,
    tensors: &mut TensorSet,
) -> Result<LayerWeights, Problem> {
    let name = |of: &str| format!("{}{index}.{of}", names.layer_prefix);
    let (hidden, feed_forward) = (config.hidden_size, config.feed_forward_size);
    Ok(LayerWeights {
        operator_norm: tensors.values(&name(names.operator_norm), &[hidden])?,
        operator: match kind {
            LayerKind::Attention => OperatorWeights::Attention(assemble_attention(config, names, &name, tensors)?),
            LayerKind::ShortConvolution => {
                OperatorWeights::ShortConvolution(assemble_convolution(config, names, &name, tensors)?)
            }
        },
        feed_forward_norm: tensors.values(&name(names.feed_forward_norm), &[hidden])?,
        gate: tensors.matrix(&name(names.gate), feed_forward, hidden)?,
        up: tensors.matrix(&name(names.up), feed_forward, hidden)?,
        down: tensors.matrix(&name(names.down), hidden, feed_forward)?,
    })
}

fn assemble_attention(
    config: &ModelConfig,
    names: &TensorNames,
    name: &dyn Fn(&str) -> String,
    tensors: &mut TensorSet,
) -> Result<AttentionWeights, Problem> {
    let hidden = config.hidden_size;
    let (queries, keys) = (config.heads * config.head_size, config.kv_heads * config.head_size);
    let (query_norm, key_norm) = match names.query_and_key_norm {
        Some((query, key)) => (
            Some(tensors.values(&name(query), &[config.head_size])?),
            Some(tensors.values(&name(key), &[config.head_size])?),
        ),
        None => (None, None),
    };
    Ok(AttentionWeights {
        query: tensors.matrix(&name(names.query), queries, hidden)?,
        key: tensors.matrix(&name(names.key), keys, hidden)?,
        value: tensors.matrix(&name(names.value), keys, hidden)?,
        output: tensors.matrix(&name(names.output), hidden, queries)?,
        query_norm,
        key_norm,
    })
}

fn assemble_convolution(
    config: &ModelConfig,
    names: &TensorNames,
    name: &dyn Fn(&str) -> String,
    tensors: &mut TensorSet,
) -> Result<ConvolutionWeights, Problem> {
    let hidden = config.hidden_size;
    let width = config.convolution_width.unwrap_or(0);
    Ok(ConvolutionWeights {
        in_projection: tensors.matrix(&name(names.in_projection), 3 * hidden, hidden)?,
        convolution: tensors.values(&name(names.convolution), &[hidden, width])?,
        out_projection: tensors.matrix(&name(names.out_projection), hidden, hidden)?,
    })
}
