//! The sampling fields of one layer, and how each one is read.

use serde_json::Value;

use super::error::{RequestFault, Warning};
use super::read::{self, Numbers};
use super::wire::Endpoint;
use crate::types::TokenId;

/// The sampling fields that one layer (a client's request, the server's overrides, a model's generation config) gives.
///
/// `None` means that the layer does not speak of the field; a zero, an empty list and `false` are values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestFields {
    /// 0, or 0.01 to 100.
    pub temperature: Option<f32>,
    /// Greater than 0, to 1.
    pub top_p: Option<f32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// `Some(None)` keeps every token (written as 0 or -1).
    pub top_k: Option<Option<u32>>,
    /// Negative seeds are taken as their two's complement.
    pub seed: Option<u64>,
    /// 0.01 to 100.
    pub repetition_penalty: Option<f32>,
    /// -2 to 2.
    pub presence_penalty: Option<f32>,
    /// -2 to 2.
    pub frequency_penalty: Option<f32>,
    /// -100 to 100 each; sorted by id.
    pub logit_bias: Option<Vec<(TokenId, f32)>>,
    /// Any count.
    pub min_tokens: Option<u32>,
    /// At least 1 (`max_tokens` or `max_completion_tokens`).
    pub max_tokens: Option<u32>,
    /// Strings that are not empty.
    pub stop: Option<Vec<String>>,
    /// Token ids.
    pub stop_token_ids: Option<Vec<TokenId>>,
    /// Whether end tokens are ordinary tokens.
    pub ignore_eos: Option<bool>,
    /// Number of alternatives, 0 to 20; `Some(None)` turns log probabilities off.
    pub logprobs: Option<Option<u32>>,
    /// 1 to 128.
    pub n: Option<u32>,
}

/// What a field with an effect accepts.
const TEMPERATURE: Numbers =
    Numbers { accepted: "0 (greedy), or a number from 0.01 to 100", fits: |x| x == 0.0 || (0.01..=100.0).contains(&x) };
const TOP_P: Numbers = Numbers {
    accepted: "a number greater than 0, up to 1 (1 keeps every token)",
    fits: |x| x as f32 > 0.0 && x <= 1.0,
};
const MIN_P: Numbers =
    Numbers { accepted: "a number from 0 (keeps every token) to 1", fits: |x| (0.0..=1.0).contains(&x) };
const REPETITION_PENALTY: Numbers =
    Numbers { accepted: "a number from 0.01 to 100 (1 changes nothing)", fits: |x| (0.01..=100.0).contains(&x) };
const ADDITIVE_PENALTY: Numbers =
    Numbers { accepted: "a number from -2 to 2 (0 changes nothing)", fits: |x| (-2.0..=2.0).contains(&x) };
const LOGIT_BIAS: Numbers = Numbers { accepted: "a number from -100 to 100", fits: |x| (-100.0..=100.0).contains(&x) };
/// As many alternatives as the OpenAI protocol reports at most.
const MOST_ALTERNATIVES: u32 = 20;
/// As many choices as the OpenAI protocol allows.
const MOST_CHOICES: u32 = 128;

/// The sampling fields of a request, by their names in the protocol.
pub const SAMPLING_FIELDS: &[&str] = &[
    "temperature",
    "top_p",
    "min_p",
    "top_k",
    "seed",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "min_tokens",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "stop_token_ids",
    "ignore_eos",
    "logprobs",
    "top_logprobs",
    "n",
];

impl RequestFields {
    /// Reads the sampling fields of an object; other fields are not looked at, and `null` leaves a field out.
    ///
    /// `endpoint` decides what `logprobs` means; `None` stands for a layer of the server, which speaks the chat form.
    pub(super) fn read<'a>(
        field: impl Fn(&str) -> Option<&'a Value>,
        endpoint: Option<Endpoint>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, RequestFault> {
        let given = |name: &'static str| field(name).filter(|value| !value.is_null()).map(|value| (name, value));
        let number = |name, numbers| given(name).map(|(name, value)| read::number(name, value, numbers)).transpose();
        Ok(Self {
            temperature: number("temperature", &TEMPERATURE)?,
            top_p: number("top_p", &TOP_P)?,
            min_p: number("min_p", &MIN_P)?,
            top_k: given("top_k").map(|(_, value)| top_k(value)).transpose()?,
            seed: given("seed").map(|(_, value)| seed(value, warnings)).transpose()?,
            repetition_penalty: number("repetition_penalty", &REPETITION_PENALTY)?,
            presence_penalty: number("presence_penalty", &ADDITIVE_PENALTY)?,
            frequency_penalty: number("frequency_penalty", &ADDITIVE_PENALTY)?,
            logit_bias: given("logit_bias").map(|(_, value)| logit_bias(value)).transpose()?,
            min_tokens: given("min_tokens").map(|(name, value)| read::count(name, value, 0, u32::MAX)).transpose()?,
            max_tokens: max_tokens(given("max_tokens"), given("max_completion_tokens"))?,
            stop: given("stop").map(|(_, value)| stop(value)).transpose()?,
            stop_token_ids: given("stop_token_ids").map(|(name, value)| read::token_ids(name, value)).transpose()?,
            ignore_eos: given("ignore_eos").map(|(name, value)| read::boolean(name, value)).transpose()?,
            logprobs: match endpoint {
                Some(Endpoint::Completions) => completion_logprobs(given("logprobs"), given("top_logprobs"))?,
                Some(Endpoint::ChatCompletions) | None => chat_logprobs(given("logprobs"), given("top_logprobs"))?,
            },
            n: given("n").map(|(name, value)| read::count(name, value, 1, MOST_CHOICES)).transpose()?,
        })
    }
}

/// A field that is given, with its name.
type Given<'a> = Option<(&'static str, &'a Value)>;

/// Both names are one limit.
fn max_tokens(old_name: Given<'_>, new_name: Given<'_>) -> Result<Option<u32>, RequestFault> {
    let count = |given: Given<'_>| given.map(|(name, value)| read::count(name, value, 1, u32::MAX)).transpose();
    match (count(old_name)?, count(new_name)?) {
        (Some(old), Some(new)) if old != new => Err(RequestFault::Conflict {
            first: "max_tokens".to_owned(),
            second: "max_completion_tokens".to_owned(),
            why: format!("two names of one limit say {old} and {new}; give one of them"),
        }),
        (old, new) => Ok(old.or(new)),
    }
}

/// Chat: `logprobs` switches, and `top_logprobs` is the number of alternatives.
fn chat_logprobs(switch: Given<'_>, count: Given<'_>) -> Result<Option<Option<u32>>, RequestFault> {
    let switch = switch.map(|(name, value)| read::boolean(name, value)).transpose()?;
    let count = count.map(|(name, value)| read::count(name, value, 0, MOST_ALTERNATIVES)).transpose()?;
    match (switch, count) {
        (Some(true), count) => Ok(Some(Some(count.unwrap_or(0)))),
        (_, Some(1..)) => Err(RequestFault::Conflict {
            first: "top_logprobs".to_owned(),
            second: "logprobs".to_owned(),
            why: "alternatives are reported only with `logprobs`: true".to_owned(),
        }),
        (switch, _) => Ok(switch.map(|_| None)),
    }
}

/// Completions: `logprobs` is the number of alternatives.
fn completion_logprobs(count: Given<'_>, chat_count: Given<'_>) -> Result<Option<Option<u32>>, RequestFault> {
    if let Some((name, value)) = chat_count {
        return Err(RequestFault::value(
            name,
            "nothing here: completions take the count in `logprobs`",
            read::found(value),
        ));
    }
    Ok(count.map(|(name, value)| read::count(name, value, 0, MOST_ALTERNATIVES)).transpose()?.map(Some))
}

fn top_k(value: &Value) -> Result<Option<u32>, RequestFault> {
    match value.as_i64() {
        Some(0 | -1) => Ok(None),
        Some(count) if count > 0 && u32::try_from(count).is_ok() => Ok(Some(count as u32)),
        _ => {
            Err(RequestFault::value("top_k", "a whole number, at least 1, or 0 or -1 for no limit", read::found(value)))
        }
    }
}

fn seed(value: &Value, warnings: &mut Vec<Warning>) -> Result<u64, RequestFault> {
    if let Some(seed) = value.as_u64() {
        return Ok(seed);
    }
    let accepted = "a whole number from -9223372036854775808 to 18446744073709551615";
    let seed = value.as_i64().ok_or_else(|| RequestFault::value("seed", accepted, read::found(value)))?;
    warnings.push(Warning::NegativeSeed { seed });
    Ok(seed as u64)
}

fn stop(value: &Value) -> Result<Vec<String>, RequestFault> {
    let accepted = "a string, or an array of strings, none of them empty";
    let string = |field: String, item: &Value| match item.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(RequestFault::value(field, accepted, read::found(item))),
    };
    match value {
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| string(format!("stop[{index}]"), item)).collect()
        }
        _ => Ok(vec![string("stop".to_owned(), value)?]),
    }
}

fn logit_bias(value: &Value) -> Result<Vec<(TokenId, f32)>, RequestFault> {
    let object = value.as_object().ok_or_else(|| {
        RequestFault::value("logit_bias", "an object from token ids to numbers from -100 to 100", read::found(value))
    })?;
    let entry = |(key, bias): (&String, &Value)| {
        let field = format!("logit_bias[{key:?}]");
        let id = key.parse().map_err(|_| RequestFault::value(&field, "a token id as the name", format!("{key:?}")))?;
        Ok((TokenId(id), read::number(&field, bias, &LOGIT_BIAS)?))
    };
    let mut biases = object.iter().map(entry).collect::<Result<Vec<_>, RequestFault>>()?;
    biases.sort_by_key(|&(id, _)| id);
    // Two spellings of one id, like "7" and "07".
    match biases.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(RequestFault::Duplicate { field: format!("logit_bias[\"{}\"]", pair[0].0) }),
        None => Ok(biases),
    }
}
