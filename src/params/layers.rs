//! The layers below the client: the operator's overrides and the model's generation config.

use serde_json::{Map, Value, json};

use super::error::RequestFault;
use super::fields::{RequestFields, SAMPLING_FIELDS};
use super::read::json_number;
use super::resolve::Defaults;
use super::{known, read};
use crate::model::{GenerationConfig, Model};

impl RequestFields {
    /// Reads a layer from a JSON object that holds sampling fields alone (`logprobs` in its chat form).
    ///
    /// # Errors
    /// If a field is unknown or its value is not accepted.
    pub fn from_json(layer: &Value) -> Result<Self, RequestFault> {
        let object = layer.as_object().ok_or_else(|| RequestFault::NotAnObject { found: read::found(layer) })?;
        if let Some(field) = object.keys().find(|field| !SAMPLING_FIELDS.contains(&field.as_str())) {
            return Err(known::unknown(field, SAMPLING_FIELDS.iter().copied(), SAMPLING_FIELDS));
        }
        Self::read(|field| object.get(field), None, &mut Vec::new())
    }

    /// Reads the operator's overrides from a table of a configuration file.
    ///
    /// # Errors
    /// As [`RequestFields::from_json`].
    pub fn from_toml(table: &toml::Table) -> Result<Self, RequestFault> {
        let layer = serde_json::to_value(table).map_err(|error| {
            RequestFault::value("sampling", "numbers, strings, booleans and arrays of them", error.to_string())
        })?;
        // TOML has no null: what became one was `nan` or `inf`, and must not read as left out.
        let not_finite = |(field, value): (&String, &Value)| value.is_null().then(|| field.clone());
        match layer.as_object().into_iter().flatten().find_map(not_finite) {
            Some(field) => Err(RequestFault::value(field, "a finite number", "nan or inf")),
            None => Self::from_json(&layer),
        }
    }

    /// The layer as [`RequestFields::from_json`] reads it.
    pub fn to_json(&self) -> Value {
        let Self {
            temperature,
            top_p,
            min_p,
            top_k,
            seed,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            logit_bias,
            min_tokens,
            max_tokens,
            stop,
            stop_token_ids,
            ignore_eos,
            logprobs,
            n,
        } = self;
        let bias = |biases: &Vec<_>| super::resolve::biases(biases);
        let fields = [
            ("temperature", temperature.map(json_number)),
            ("top_p", top_p.map(json_number)),
            ("min_p", min_p.map(json_number)),
            ("top_k", top_k.map(|limit| json!(limit.unwrap_or(0)))),
            ("seed", seed.map(|seed| json!(seed))),
            ("repetition_penalty", repetition_penalty.map(json_number)),
            ("presence_penalty", presence_penalty.map(json_number)),
            ("frequency_penalty", frequency_penalty.map(json_number)),
            ("logit_bias", logit_bias.as_ref().map(bias)),
            ("min_tokens", min_tokens.map(|count| json!(count))),
            ("max_tokens", max_tokens.map(|count| json!(count))),
            ("stop", stop.as_ref().map(|stop| json!(stop))),
            ("stop_token_ids", stop_token_ids.as_ref().map(super::resolve::ids)),
            ("ignore_eos", ignore_eos.map(|ignore| json!(ignore))),
            ("logprobs", logprobs.map(|count| json!(count.is_some()))),
            ("top_logprobs", logprobs.flatten().map(|count| json!(count))),
            ("n", n.map(|count| json!(count))),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(given.collect::<Map<_, _>>())
    }

    /// The model's layer: its sampling defaults, and `max_new_tokens`.
    ///
    /// # Errors
    /// If the model's authors recommend a value that no request could have.
    pub fn of_generation_config(config: &GenerationConfig) -> Result<Self, RequestFault> {
        let given = [
            ("temperature", config.temperature.map(json_number)),
            ("top_p", config.top_p.map(json_number)),
            ("min_p", config.min_p.map(json_number)),
            ("top_k", config.top_k.map(|limit| json!(limit))),
            ("repetition_penalty", config.repetition_penalty.map(json_number)),
            ("max_tokens", config.raw.get("max_new_tokens").cloned()),
        ];
        Self::from_json(&given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }
}

impl Defaults {
    /// What stands behind requests to `model`: the operator's overrides, and what the model recommends.
    ///
    /// # Errors
    /// If the model's authors recommend a value that no request could have.
    pub fn of_model(model: &Model, server: RequestFields, context_length: usize) -> Result<Self, RequestFault> {
        Ok(Self {
            server,
            generation_config: RequestFields::of_generation_config(&model.generation_config)?,
            recommends_sampling: sampling_recommendation(&model.generation_config),
            vocabulary_size: u32::try_from(model.config.vocabulary_size).unwrap_or(u32::MAX),
            context_length: u32::try_from(context_length).unwrap_or(u32::MAX),
        })
    }
}

/// In words, what of a generation config recommends sampling; `None` if nothing does.
pub fn sampling_recommendation(config: &GenerationConfig) -> Option<String> {
    let do_sample = config.raw.get("do_sample").and_then(Value::as_bool);
    if do_sample == Some(false) || config.temperature == Some(0.0) {
        return None;
    }
    let given = [
        do_sample.map(|_| "do_sample true".to_owned()),
        config.temperature.map(|value| format!("temperature {value}")),
        config.top_p.map(|value| format!("top_p {value}")),
        config.top_k.map(|value| format!("top_k {value}")),
        config.min_p.map(|value| format!("min_p {value}")),
    ];
    let given: Vec<String> = given.into_iter().flatten().collect();
    (!given.is_empty()).then(|| given.join(", "))
}
