//! Resolution: which layer decides each sampling parameter, with every layer's word kept for display.

use serde_json::{Value, json};

use super::error::{RequestFault, Warning};
use super::fields::RequestFields;
use super::read::json_number;
use super::wire::{Endpoint, Input, Request};
use super::{SamplingParams, seed};
use crate::types::TokenId;

/// Where a resolved value came from, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The client's request.
    Client,
    /// The operator's override.
    ServerOverride,
    /// The model's `generation_config.json` or its GGUF counterpart.
    GenerationConfig,
    /// The protocol's documented default.
    ProtocolDefault,
    /// Made for this request: a fresh seed.
    Generated,
}

/// A value with the layer that decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved<T> {
    /// The value.
    pub value: T,
    /// The layer.
    pub source: Source,
}

/// What stands behind a client's request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    /// The operator's overrides.
    pub server: RequestFields,
    /// The model's generation config.
    pub generation_config: RequestFields,
    /// In words, what of the generation config recommends sampling; `None` if nothing does.
    pub recommends_sampling: Option<String>,
    /// Number of tokens that the model knows.
    pub vocabulary_size: u32,
    /// Longest sequence, in tokens; the default of `max_tokens` for chat completions.
    pub context_length: u32,
}

/// One parameter as every layer has it; values as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamChain {
    /// Name of the parameter, as in the protocol.
    pub name: &'static str,
    /// The client's value; `None` where it says nothing.
    pub client: Option<Value>,
    /// The operator's value.
    pub server_override: Option<Value>,
    /// The model's value.
    pub generation_config: Option<Value>,
    /// The protocol's default; `None` for the seed, which is made.
    pub protocol_default: Option<Value>,
    /// The effective value; `null` stands for "no limit" and "off".
    pub value: Value,
    /// The layer that decided.
    pub source: Source,
}

/// Every sampling parameter of a request, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedParams {
    /// See [`SamplingParams::temperature`].
    pub temperature: Resolved<f32>,
    /// See [`SamplingParams::top_p`].
    pub top_p: Resolved<f32>,
    /// See [`SamplingParams::min_p`].
    pub min_p: Resolved<f32>,
    /// See [`SamplingParams::top_k`].
    pub top_k: Resolved<Option<u32>>,
    /// See [`SamplingParams::seed`].
    pub seed: Resolved<u64>,
    /// See [`SamplingParams::repetition_penalty`].
    pub repetition_penalty: Resolved<f32>,
    /// See [`SamplingParams::presence_penalty`].
    pub presence_penalty: Resolved<f32>,
    /// See [`SamplingParams::frequency_penalty`].
    pub frequency_penalty: Resolved<f32>,
    /// See [`SamplingParams::logit_bias`].
    pub logit_bias: Resolved<Vec<(TokenId, f32)>>,
    /// See [`SamplingParams::min_tokens`].
    pub min_tokens: Resolved<u32>,
    /// See [`SamplingParams::max_tokens`].
    pub max_tokens: Resolved<u32>,
    /// See [`SamplingParams::stop`].
    pub stop: Resolved<Vec<String>>,
    /// See [`SamplingParams::stop_token_ids`].
    pub stop_token_ids: Resolved<Vec<TokenId>>,
    /// See [`SamplingParams::ignore_eos`].
    pub ignore_eos: Resolved<bool>,
    /// See [`SamplingParams::logprobs`].
    pub logprobs: Resolved<Option<u32>>,
    /// See [`SamplingParams::choices`]; `n` in the protocol.
    pub n: Resolved<u32>,
    /// The parameters above, in that order, with what every layer says.
    pub chain: Vec<ParamChain>,
    /// What the client is likely not to have meant, those of the request itself included.
    pub warnings: Vec<Warning>,
}

/// A completion without `max_tokens` is this long, as OpenAI documents.
const COMPLETION_MAX_TOKENS: u32 = 16;

impl Source {
    /// The layer in the words of a person.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::ServerOverride => "server override",
            Self::GenerationConfig => "generation config",
            Self::ProtocolDefault => "protocol default",
            Self::Generated => "generated",
        }
    }
}

impl Request {
    /// Resolves every parameter along client > server override > generation config > protocol default.
    ///
    /// A seed that no layer gives is made fresh, so that two resolutions of such a request differ in it.
    ///
    /// # Errors
    /// If a token id is outside of the vocabulary, or `min_tokens` exceeds `max_tokens`.
    pub fn resolve(&self, defaults: &Defaults) -> Result<ResolvedParams, RequestFault> {
        self.check_vocabulary(defaults)?;
        let mut resolver =
            Resolver { layers: [&self.fields, &defaults.server, &defaults.generation_config], chain: Vec::new() };
        let max_tokens = match self.endpoint() {
            Endpoint::ChatCompletions => defaults.context_length,
            Endpoint::Completions => COMPLETION_MAX_TOKENS,
        };
        let mut resolved = ResolvedParams {
            temperature: resolver.resolve("temperature", |fields| fields.temperature, 1.0, number),
            top_p: resolver.resolve("top_p", |fields| fields.top_p, 1.0, number),
            min_p: resolver.resolve("min_p", |fields| fields.min_p, 0.0, number),
            top_k: resolver.resolve("top_k", |fields| fields.top_k, None, |value| json!(value)),
            seed: resolver.seed(),
            repetition_penalty: resolver.resolve("repetition_penalty", |fields| fields.repetition_penalty, 1.0, number),
            presence_penalty: resolver.resolve("presence_penalty", |fields| fields.presence_penalty, 0.0, number),
            frequency_penalty: resolver.resolve("frequency_penalty", |fields| fields.frequency_penalty, 0.0, number),
            logit_bias: resolver.resolve("logit_bias", |fields| fields.logit_bias.clone(), Vec::new(), biases),
            min_tokens: resolver.resolve("min_tokens", |fields| fields.min_tokens, 0, |value| json!(value)),
            max_tokens: resolver.resolve("max_tokens", |fields| fields.max_tokens, max_tokens, |value| json!(value)),
            stop: resolver.resolve("stop", |fields| fields.stop.clone(), Vec::new(), |value| json!(value)),
            stop_token_ids: resolver.resolve("stop_token_ids", |fields| fields.stop_token_ids.clone(), Vec::new(), ids),
            ignore_eos: resolver.resolve("ignore_eos", |fields| fields.ignore_eos, false, |value| json!(value)),
            logprobs: resolver.resolve("logprobs", |fields| fields.logprobs, None, |value| json!(value)),
            n: resolver.resolve("n", |fields| fields.n, 1, |value| json!(value)),
            chain: resolver.chain,
            warnings: self.warnings.clone(),
        };
        resolved.check_limits()?;
        resolved.warn(defaults);
        Ok(resolved)
    }

    fn check_vocabulary(&self, defaults: &Defaults) -> Result<(), RequestFault> {
        let check = |field: String, id: TokenId| match id.0 < defaults.vocabulary_size {
            true => Ok(()),
            false => {
                let accepted =
                    format!("a token id of the vocabulary, 0 to {}", defaults.vocabulary_size.saturating_sub(1));
                Err(RequestFault::value(field, accepted, id.to_string()))
            }
        };
        if let Input::Tokens(tokens) = &self.input {
            tokens.iter().enumerate().try_for_each(|(index, &id)| check(format!("prompt[{index}]"), id))?;
        }
        // A layer of the server is as wrong as a client's with such an id.
        for fields in [&self.fields, &defaults.server, &defaults.generation_config] {
            let ids = fields.stop_token_ids.iter().flatten().enumerate();
            ids.clone().try_for_each(|(index, &id)| check(format!("stop_token_ids[{index}]"), id))?;
            let biases = fields.logit_bias.iter().flatten();
            biases.clone().try_for_each(|&(id, _)| check(format!("logit_bias[\"{id}\"]"), id))?;
        }
        Ok(())
    }
}

impl ResolvedParams {
    /// The plain values.
    pub fn sampling(&self) -> SamplingParams {
        SamplingParams {
            temperature: self.temperature.value,
            top_p: self.top_p.value,
            min_p: self.min_p.value,
            top_k: self.top_k.value,
            seed: self.seed.value,
            repetition_penalty: self.repetition_penalty.value,
            presence_penalty: self.presence_penalty.value,
            frequency_penalty: self.frequency_penalty.value,
            logit_bias: self.logit_bias.value.clone(),
            min_tokens: self.min_tokens.value,
            max_tokens: self.max_tokens.value,
            stop: self.stop.value.clone(),
            stop_token_ids: self.stop_token_ids.value.clone(),
            ignore_eos: self.ignore_eos.value,
            logprobs: self.logprobs.value,
            choices: self.n.value,
        }
    }

    fn check_limits(&self) -> Result<(), RequestFault> {
        let (least, most) = (&self.min_tokens, &self.max_tokens);
        if least.value <= most.value {
            return Ok(());
        }
        Err(RequestFault::Conflict {
            first: "min_tokens".to_owned(),
            second: "max_tokens".to_owned(),
            why: format!(
                "{} ({}) tokens at least and {} ({}) at most",
                least.value,
                least.source.name(),
                most.value,
                most.source.name()
            ),
        })
    }

    fn warn(&mut self, defaults: &Defaults) {
        if self.temperature.value != 0.0 {
            return;
        }
        if let Some(recommendation) = &defaults.recommends_sampling {
            let origin = self.temperature.source.name().to_owned();
            self.warnings.push(Warning::GreedyAgainstRecommendation { origin, recommendation: recommendation.clone() });
        }
        if self.seed.source == Source::Client {
            self.warnings.push(Warning::SeedWithoutSampling);
        }
    }
}

/// Resolves one parameter after the other, and keeps what every layer says.
struct Resolver<'a> {
    /// Client, server, generation config.
    layers: [&'a RequestFields; 3],
    chain: Vec<ParamChain>,
}

impl Resolver<'_> {
    fn resolve<T>(
        &mut self,
        name: &'static str,
        field: fn(&RequestFields) -> Option<T>,
        default: T,
        json: fn(&T) -> Value,
    ) -> Resolved<T> {
        let protocol_default = Some(json(&default));
        self.resolve_or(
            name,
            field,
            || Resolved { value: default, source: Source::ProtocolDefault },
            json,
            protocol_default,
        )
    }

    fn seed(&mut self) -> Resolved<u64> {
        let fresh = || Resolved { value: seed::fresh(), source: Source::Generated };
        self.resolve_or("seed", |fields| fields.seed, fresh, |value| json!(value), None)
    }

    fn resolve_or<T>(
        &mut self,
        name: &'static str,
        field: fn(&RequestFields) -> Option<T>,
        otherwise: impl FnOnce() -> Resolved<T>,
        json: fn(&T) -> Value,
        protocol_default: Option<Value>,
    ) -> Resolved<T> {
        let [client, server_override, generation_config] = self.layers.map(|fields| field(fields).as_ref().map(json));
        let sources = [Source::Client, Source::ServerOverride, Source::GenerationConfig];
        let decides = |(fields, source): (&&RequestFields, Source)| Some(Resolved { value: field(fields)?, source });
        let resolved = self.layers.iter().zip(sources).find_map(decides).unwrap_or_else(otherwise);
        self.chain.push(ParamChain {
            name,
            client,
            server_override,
            generation_config,
            protocol_default,
            value: json(&resolved.value),
            source: resolved.source,
        });
        resolved
    }
}

fn number(value: &f32) -> Value {
    json_number(*value)
}

#[expect(clippy::ptr_arg, reason = "stands for a function of the whole value")]
pub(super) fn ids(tokens: &Vec<TokenId>) -> Value {
    tokens.iter().map(|token| token.0).collect()
}

#[expect(clippy::ptr_arg, reason = "stands for a function of the whole value")]
pub(super) fn biases(biases: &Vec<(TokenId, f32)>) -> Value {
    biases.iter().map(|&(token, bias)| (token.to_string(), json_number(bias))).collect::<serde_json::Map<_, _>>().into()
}
