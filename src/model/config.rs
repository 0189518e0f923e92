//! The shape of a model.

use crate::arith::RopeLayout;
use crate::model::error::Problem;

/// The architectures this build can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 2 and 3, SmolLM2: attention in every layer.
    Llama,
    /// LFM2: gated short convolutions, with attention in some layers.
    Lfm2,
}

impl Architecture {
    const ALL: [Self; 2] = [Self::Llama, Self::Lfm2];

    /// The name that GGUF (`general.architecture`) and Hugging Face (`model_type`) use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Lfm2 => "lfm2",
        }
    }

    /// The architecture of that name.
    pub(crate) fn by_name(name: &str) -> Result<Self, Problem> {
        Self::ALL.into_iter().find(|architecture| architecture.name() == name).ok_or_else(|| Problem::Unsupported {
            what: "architecture",
            found: name.to_owned(),
            supported: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// The shape of a model, and the constants its layers compute with.
///
/// Every size is positive and small enough that the product of any two fits a `usize` and an `i64`.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Which forward pass it has.
    pub architecture: Architecture,
    /// Rows of the embedding and of the head: the length of a logits row.
    pub vocabulary_size: usize,
    /// Elements of the residual stream.
    pub hidden_size: usize,
    /// Elements between the feed-forward matrices.
    pub feed_forward_size: usize,
    /// Query heads of an attention layer.
    pub heads: usize,
    /// Key and value heads of an attention layer; divides `heads`.
    pub kv_heads: usize,
    /// Elements of one head; even.
    pub head_size: usize,
    /// What each layer's operator is, from the embedding up.
    pub layers: Vec<LayerKind>,
    /// Added to the mean square in every RMS norm.
    pub norm_epsilon: f32,
    /// Rotary position embedding of queries and keys.
    pub rope: Rope,
    /// Longest sequence the model was made for, in tokens.
    pub context_length: usize,
    /// Taps of the short convolutions, the current input included; `None` for a model without any.
    pub convolution_width: Option<usize>,
}

/// The operator of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// Grouped-query attention.
    Attention,
    /// Gated short convolution.
    ShortConvolution,
}

/// Rotary position embedding: pair `i` of a head turns by `position / (theta^(2i / head_size) * factor_i)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base.
    pub theta: f64,
    /// Which elements of a head form a pair, as the weights in the file are ordered.
    pub layout: RopeLayout,
    /// One divisor per pair (Llama 3's long-context scaling); `None` where all are 1.
    pub frequency_factors: Option<Vec<f32>>,
}

/// Largest value of any size in a [`ModelConfig`].
const LARGEST_SIZE: usize = 1 << 24;
/// Most layers.
const MOST_LAYERS: usize = 1 << 12;

impl ModelConfig {
    /// Checks what the field docs promise, so that nothing downstream has to.
    pub(crate) fn check(self) -> Result<Self, Problem> {
        let sizes = [
            ("vocabulary size", self.vocabulary_size),
            ("hidden size", self.hidden_size),
            ("feed-forward size", self.feed_forward_size),
            ("attention heads", self.heads),
            ("key-value heads", self.kv_heads),
            ("head size", self.head_size),
            ("context length", self.context_length),
            ("convolution width", self.convolution_width.unwrap_or(1)),
        ];
        for (name, size) in sizes {
            if size == 0 || size > LARGEST_SIZE {
                return Err(Problem::setting(name, format!("1 to {LARGEST_SIZE}"), size.to_string()));
            }
        }
        if self.layers.is_empty() || self.layers.len() > MOST_LAYERS {
            return Err(Problem::setting("layers", format!("1 to {MOST_LAYERS}"), self.layers.len().to_string()));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let expected = format!("a divisor of the {} attention heads", self.heads);
            return Err(Problem::setting("key-value heads", expected, self.kv_heads.to_string()));
        }
        if !self.head_size.is_multiple_of(2) {
            return Err(Problem::setting("head size", "an even number", self.head_size.to_string()));
        }
        if !(self.norm_epsilon > 0.0 && self.norm_epsilon < 1.0) {
            return Err(Problem::setting("norm epsilon", "between 0 and 1", self.norm_epsilon.to_string()));
        }
        if !(self.rope.theta.is_finite() && self.rope.theta >= 1.0) {
            return Err(Problem::setting("rope theta", "a finite number of at least 1", self.rope.theta.to_string()));
        }
        if let Some(factors) = &self.rope.frequency_factors {
            if factors.len() != self.head_size / 2 {
                let expected = format!("{} (half the head size)", self.head_size / 2);
                return Err(Problem::setting("rope frequency factors", expected, factors.len().to_string()));
            }
            if let Some(factor) = factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
                return Err(Problem::setting("rope frequency factors", "positive numbers", factor.to_string()));
            }
        }
        let convolutions = self.layers.contains(&LayerKind::ShortConvolution);
        if convolutions && self.convolution_width.is_none_or(|width| width < 2) {
            return Err(Problem::setting("convolution width", "2 or more", format!("{:?}", self.convolution_width)));
        }
        Ok(self)
    }
}
