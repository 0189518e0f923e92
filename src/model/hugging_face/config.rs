//! `config.json`.

use std::f64::consts::PI;

use serde_json::{Map, Value};

use crate::arith::{RopeLayout, scalar};
use crate::model::config::{Architecture, LayerKind, ModelConfig, Rope};
use crate::model::error::Problem;
use crate::model::tensor_names::HeadTying;

/// The shape that a `config.json` describes. Fields that `transformers` leaves out at their default have it here.
pub(super) fn model_config(fields: &Map<String, Value>) -> Result<(ModelConfig, HeadTying), Problem> {
    let fields = Fields(fields);
    let architecture = Architecture::by_name(fields.text("model_type")?.ok_or_else(|| missing("model_type"))?)?;
    fields.refuse_unknown_computations()?;
    let hidden_size = fields.required_size("hidden_size")?;
    let heads = fields.required_size("num_attention_heads")?;
    let layer_count = bounded("num_hidden_layers", fields.required_size("num_hidden_layers")?)?;
    let head_size = fields.size("head_dim")?.unwrap_or_else(|| hidden_size.checked_div(heads).unwrap_or(0));
    let head_size = bounded("head_dim", head_size)?;
    let specifics = match architecture {
        Architecture::Llama => Specifics {
            epsilon: ("rms_norm_eps", 1e-6),
            theta: 10_000.0,
            tied: fields.boolean("tie_word_embeddings")?.unwrap_or(false),
            feed_forward_size: fields.required_size("intermediate_size")?,
            layers: vec![LayerKind::Attention; layer_count],
            convolution_width: None,
        },
        Architecture::Lfm2 => Specifics {
            epsilon: ("norm_eps", 1e-5),
            theta: 1_000_000.0,
            tied: match fields.boolean("tie_embedding")? {
                Some(tied) => tied,
                None => fields.boolean("tie_word_embeddings")?.unwrap_or(true),
            },
            feed_forward_size: fields.lfm2_feed_forward_size()?,
            layers: fields.lfm2_layers(layer_count)?,
            convolution_width: Some(fields.size("conv_L_cache")?.unwrap_or(3)),
        },
    };
    let (epsilon_name, epsilon) = specifics.epsilon;
    let config = ModelConfig {
        architecture,
        vocabulary_size: fields.required_size("vocab_size")?,
        hidden_size,
        feed_forward_size: specifics.feed_forward_size,
        heads,
        kv_heads: fields.size("num_key_value_heads")?.unwrap_or(heads),
        head_size,
        layers: specifics.layers,
        norm_epsilon: fields.number(epsilon_name)?.unwrap_or(epsilon) as f32,
        rope: fields.rope(specifics.theta, head_size)?,
        context_length: fields.required_size("max_position_embeddings")?,
        convolution_width: specifics.convolution_width,
    };
    let tying = if specifics.tied { HeadTying::Tied } else { HeadTying::Separate };
    Ok((config.check()?, tying))
}

/// What the architectures call or default differently.
struct Specifics {
    epsilon: (&'static str, f64),
    theta: f64,
    tied: bool,
    feed_forward_size: usize,
    layers: Vec<LayerKind>,
    convolution_width: Option<usize>,
}

/// Keeps a hostile count from being allocated; [`ModelConfig::check`] has the real bounds.
fn bounded(name: &str, count: usize) -> Result<usize, Problem> {
    const MOST: usize = 1 << 16;
    if count > MOST {
        return Err(Problem::setting(name, format!("at most {MOST}"), count.to_string()));
    }
    Ok(count)
}

fn missing(name: &str) -> Problem {
    Problem::setting(name, "a value", "no such field")
}

/// The object's fields; `null` counts as left out.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match convert(value) {
                Some(converted) => Ok(Some(converted)),
                None => Err(Problem::setting(name, expected, value.to_string().chars().take(80).collect::<String>())),
            },
        }
    }

    fn size(&self, name: &str) -> Result<Option<usize>, Problem> {
        self.typed(name, "a size", |value| value.as_u64().and_then(|size| usize::try_from(size).ok()))
    }

    fn required_size(&self, name: &str) -> Result<usize, Problem> {
        self.size(name)?.ok_or_else(|| missing(name))
    }

    fn number(&self, name: &str) -> Result<Option<f64>, Problem> {
        self.typed(name, "a number", Value::as_f64)
    }

    fn required_number(&self, name: &str) -> Result<f64, Problem> {
        self.number(name)?.ok_or_else(|| missing(name))
    }

    fn boolean(&self, name: &str) -> Result<Option<bool>, Problem> {
        self.typed(name, "true or false", Value::as_bool)
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        self.typed(name, "a string", Value::as_str)
    }

    fn object(&self, name: &str) -> Result<Option<Fields<'a>>, Problem> {
        Ok(self.typed(name, "an object", Value::as_object)?.map(Fields))
    }

    /// Settings that change what is computed in ways this build does not know.
    fn refuse_unknown_computations(&self) -> Result<(), Problem> {
        for name in ["attention_bias", "mlp_bias", "conv_bias"] {
            if self.boolean(name)? == Some(true) {
                return Err(Problem::setting(name, "false: biases are not supported", "true"));
            }
        }
        for name in ["hidden_act", "hidden_activation"] {
            if let Some(activation) = self.text(name)?.filter(|activation| *activation != "silu") {
                return Err(Problem::setting(name, "silu", activation));
            }
        }
        if self.object("quantization_config")?.is_some() {
            let expected = "none: quantized safetensors are not supported (use a GGUF file)";
            return Err(Problem::setting("quantization_config", expected, "an object"));
        }
        for name in ["sliding_window", "num_local_experts", "num_experts"] {
            if let Some(size) = self.size(name)?.filter(|size| *size > 0) {
                return Err(Problem::setting(name, "none", size.to_string()));
            }
        }
        Ok(())
    }

    /// LFM2 files give a nominal size, which is adjusted as `transformers` does.
    fn lfm2_feed_forward_size(&self) -> Result<usize, Problem> {
        let nominal = match self.size("block_ff_dim")? {
            Some(size) => size,
            None => self.required_size("intermediate_size")?,
        };
        if self.boolean("block_auto_adjust_ff_dim")? == Some(false) {
            return Ok(nominal);
        }
        let two_thirds = nominal.saturating_mul(2) / 3;
        let scaled = match self.number("block_ffn_dim_multiplier")? {
            Some(multiplier) => (multiplier * two_thirds as f64) as usize,
            None => two_thirds,
        };
        let multiple = self.size("block_multiple_of")?.unwrap_or(256);
        let blocks = scaled.checked_add(multiple).and_then(|sum| sum.checked_sub(1)?.checked_div(multiple));
        blocks
            .and_then(|blocks| blocks.checked_mul(multiple))
            .ok_or_else(|| Problem::setting("block_multiple_of", "a positive size", multiple.to_string()))
    }

    /// `layer_types`, or the older `full_attn_idxs`.
    fn lfm2_layers(&self, count: usize) -> Result<Vec<LayerKind>, Problem> {
        let layers = match self.typed("layer_types", "an array", Value::as_array)? {
            Some(types) => types
                .iter()
                .map(|kind| match kind.as_str() {
                    Some("full_attention") => Ok(LayerKind::Attention),
                    Some("conv") => Ok(LayerKind::ShortConvolution),
                    _ => Err(Problem::setting("layer_types", "full_attention or conv", kind.to_string())),
                })
                .collect::<Result<Vec<_>, _>>()?,
            None => {
                const NAME: &str = "full_attn_idxs";
                let indices = self.typed(NAME, "an array", Value::as_array)?.ok_or_else(|| missing(NAME))?;
                let mut layers = vec![LayerKind::ShortConvolution; count];
                for index in indices {
                    let layer = index.as_u64().and_then(|index| layers.get_mut(usize::try_from(index).ok()?));
                    let expected = || format!("indices below {count}");
                    *layer.ok_or_else(|| Problem::setting(NAME, expected(), index.to_string()))? = LayerKind::Attention;
                }
                layers
            }
        };
        if layers.len() != count {
            return Err(Problem::setting("layer_types", format!("{count} entries"), layers.len().to_string()));
        }
        Ok(layers)
    }

    /// `rope_parameters`, or the older `rope_theta` and `rope_scaling`.
    fn rope(&self, default_theta: f64, head_size: usize) -> Result<Rope, Problem> {
        let parameters = self.object("rope_parameters")?;
        let theta = match &parameters {
            Some(parameters) => parameters.number("rope_theta")?,
            None => None,
        };
        let theta = match theta {
            Some(theta) => theta,
            None => self.number("rope_theta")?.unwrap_or(default_theta),
        };
        if let Some(factor) = self.number("partial_rotary_factor")?.filter(|factor| *factor != 1.0) {
            return Err(Problem::setting("partial_rotary_factor", "1", factor.to_string()));
        }
        let scaling = match parameters {
            Some(parameters) => Some(parameters),
            None => self.object("rope_scaling")?,
        };
        let frequency_factors = match scaling {
            Some(scaling) => scaling.frequency_factors(theta, head_size)?,
            None => None,
        };
        Ok(Rope { theta, layout: RopeLayout::Halves, frequency_factors })
    }

    fn frequency_factors(&self, theta: f64, head_size: usize) -> Result<Option<Vec<f32>>, Problem> {
        let kind = match self.text("rope_type")? {
            Some(kind) => kind,
            None => self.text("type")?.unwrap_or("default"),
        };
        match kind {
            "default" => Ok(None),
            "llama3" => {
                let scaling = Llama3Scaling {
                    factor: self.required_number("factor")?,
                    low_frequency_factor: self.required_number("low_freq_factor")?,
                    high_frequency_factor: self.required_number("high_freq_factor")?,
                    original_context: self.required_number("original_max_position_embeddings")?,
                };
                Ok(Some((0..head_size / 2).map(|pair| scaling.divisor(theta, head_size, pair)).collect()))
            }
            _ => Err(Problem::Unsupported {
                what: "rope scaling",
                found: format!("{kind:?}"),
                supported: "default, llama3".to_owned(),
            }),
        }
    }
}

/// Long-context scaling of Llama 3: slow pairs turn slower by a factor, fast ones stay, those between are blended.
pub(crate) struct Llama3Scaling {
    pub(crate) factor: f64,
    pub(crate) low_frequency_factor: f64,
    pub(crate) high_frequency_factor: f64,
    /// Context length before the scaling.
    pub(crate) original_context: f64,
}

impl Llama3Scaling {
    /// What the frequency of pair `pair` is divided by.
    pub(crate) fn divisor(&self, theta: f64, head_size: usize, pair: usize) -> f32 {
        let wavelength = 2.0 * PI * scalar::pow(theta, (2 * pair) as f64 / head_size as f64);
        let turns = self.original_context / wavelength;
        if turns > self.high_frequency_factor {
            return 1.0;
        }
        if turns < self.low_frequency_factor {
            return self.factor as f32;
        }
        let blend = (turns - self.low_frequency_factor) / (self.high_frequency_factor - self.low_frequency_factor);
        (1.0 / ((1.0 - blend) / self.factor + blend)) as f32
    }
}
