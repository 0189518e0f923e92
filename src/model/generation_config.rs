//! Sampling defaults that travel with a model.

use serde_json::{Map, Value as Json};

use crate::model::error::Problem;
use crate::model::gguf::{Metadata, Value};
use crate::types::TokenId;

/// What the model's authors recommend: `generation_config.json`, or the `general.sampling.*` keys of a GGUF file.
///
/// `None` means that the model says nothing, which is not the same as any value.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationConfig {
    /// Sampling temperature.
    pub temperature: Option<f32>,
    /// Nucleus: keep the best tokens up to this probability.
    pub top_p: Option<f32>,
    /// Keep this many of the best tokens; 0 is no limit.
    pub top_k: Option<u32>,
    /// Keep tokens with at least this share of the best one's probability.
    pub min_p: Option<f32>,
    /// Divides the positive logits of tokens that appeared, multiplies the negative ones.
    pub repetition_penalty: Option<f32>,
    /// Tokens that end generation (`eos_token_id`); also part of the tokenizer's end tokens.
    pub end_tokens: Vec<TokenId>,
    /// The whole object as the model has it; an empty object where it has none.
    pub raw: Json,
}

impl Default for GenerationConfig {
    fn default() -> Self {
        Self {
            temperature: None,
            top_p: None,
            top_k: None,
            min_p: None,
            repetition_penalty: None,
            end_tokens: Vec::new(),
            raw: Json::Object(Map::new()),
        }
    }
}

impl GenerationConfig {
    /// Reads the object of a `generation_config.json`.
    pub(crate) fn from_json(raw: Json) -> Result<Self, Problem> {
        let Json::Object(fields) = &raw else {
            return Err(Problem::setting("generation_config.json", "an object", kind_of(&raw)));
        };
        Ok(Self {
            temperature: number(fields, "temperature")?,
            top_p: number(fields, "top_p")?,
            top_k: whole(fields, "top_k")?,
            min_p: number(fields, "min_p")?,
            repetition_penalty: number(fields, "repetition_penalty")?,
            end_tokens: token_ids(fields, "eos_token_id")?,
            raw,
        })
    }

    /// Reads the `general.sampling.*` keys; `raw` holds them without that prefix.
    pub(crate) fn from_gguf(metadata: &Metadata) -> Result<Self, Problem> {
        const PREFIX: &str = "general.sampling.";
        let fields = metadata
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), as_json(value))))
            .collect::<Map<_, _>>();
        Ok(Self {
            temperature: number(&fields, "temp")?,
            top_p: number(&fields, "top_p")?,
            top_k: whole(&fields, "top_k")?,
            min_p: number(&fields, "min_p")?,
            repetition_penalty: number(&fields, "penalty_repeat")?,
            end_tokens: Vec::new(),
            raw: Json::Object(fields),
        })
    }
}

fn kind_of(value: &Json) -> String {
    match value {
        Json::Array(_) => "an array".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        scalar => scalar.to_string(),
    }
}

fn number(fields: &Map<String, Json>, name: &str) -> Result<Option<f32>, Problem> {
    match fields.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number as f32)),
            None => Err(Problem::setting(name, "a number", kind_of(value))),
        },
    }
}

fn whole(fields: &Map<String, Json>, name: &str) -> Result<Option<u32>, Problem> {
    match fields.get(name) {
        None | Some(Json::Null) => Ok(None),
        // llama.cpp writes -1 for "no limit", which is 0 here.
        Some(value) if value.as_i64() == Some(-1) => Ok(Some(0)),
        Some(value) => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(Problem::setting(name, "a whole number", kind_of(value))),
        },
    }
}

/// A token id or an array of them.
pub(crate) fn token_ids(fields: &Map<String, Json>, name: &str) -> Result<Vec<TokenId>, Problem> {
    let id = |value: &Json| match value.as_u64().and_then(|id| u32::try_from(id).ok()) {
        Some(id) => Ok(TokenId(id)),
        None => Err(Problem::setting(name, "a token id or an array of them", kind_of(value))),
    };
    match fields.get(name) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(ids)) => ids.iter().map(id).collect(),
        Some(value) => Ok(vec![id(value)?]),
    }
}

/// A metadata value as JSON; a float by its shortest decimal form in 32 bits, as it was written.
fn as_json(value: &Value) -> Json {
    match value {
        Value::Unsigned(number) => Json::from(*number),
        Value::Signed(number) => Json::from(*number),
        Value::Float(number) => {
            let narrow = *number as f32;
            let shortest = if f64::from(narrow) == *number { narrow.to_string().parse().ok() } else { None };
            Json::from(shortest.unwrap_or(*number))
        }
        Value::Bool(value) => Json::from(*value),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Array(_) => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_file_leaves_out_stays_unset() {
        let raw = json!({"do_sample": true, "temperature": 0.0, "top_k": null, "eos_token_id": [2, 0]});
        let config = GenerationConfig::from_json(raw.clone()).expect("a valid config");
        let expected = GenerationConfig {
            temperature: Some(0.0),
            end_tokens: vec![TokenId(2), TokenId(0)],
            raw,
            ..GenerationConfig::default()
        };
        assert_eq!(config, expected);
        assert_eq!(GenerationConfig::from_json(json!({})).expect("empty"), GenerationConfig::default());
    }

    #[test]
    fn a_value_of_another_type_is_an_error() {
        for raw in [
            json!([]),
            json!({"temperature": "0.6"}),
            json!({"top_k": 1.5}),
            json!({"top_k": -2}),
            json!({"eos_token_id": "</s>"}),
            json!({"eos_token_id": [1, -1]}),
        ] {
            assert!(GenerationConfig::from_json(raw.clone()).is_err(), "{raw}");
        }
    }
}
