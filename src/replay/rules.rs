//! The sampling parameters of a request, read back from the capture.

use serde_json::Value;

use crate::capture::records::ResolvedField;
use crate::forensics::signs::takes_tokens_away;

/// What a request runs with, as recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// 0 is greedy.
    pub temperature: f32,
    /// Share of the probability that top-p keeps; 1 keeps all.
    pub top_p: f32,
    /// Least probability relative to the best that min-p keeps; 0 keeps all.
    pub min_p: f32,
    /// How many top-k keeps; `None` keeps all.
    pub top_k: Option<u32>,
    /// Key of the noise; `None` where the engine that recorded draws without one.
    pub seed: Option<u64>,
    /// Divisor of positive logits of tokens that stand in prompt or output; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Subtracted from tokens that stand in the output.
    pub presence_penalty: f32,
    /// Subtracted per occurrence in the output.
    pub frequency_penalty: f32,
    /// Added to the logits of single tokens, by id.
    pub logit_bias: Vec<(u32, f32)>,
    /// No end before this many tokens.
    pub min_tokens: u32,
    /// The end after this many tokens; `None` leaves the context as the only limit.
    pub max_tokens: Option<u32>,
    /// Texts that end the output.
    pub stop: Vec<String>,
    /// Tokens that end the output.
    pub stop_token_ids: Vec<u32>,
    /// End tokens do not end the output.
    pub ignore_eos: bool,
    /// How many alternatives the client is told; `None` without log-probabilities.
    pub logprobs: Option<u32>,
    /// Whether lists that only other engines have (vLLM's `bad_words`, `allowed_token_ids`) take tokens away.
    pub takes_tokens_away: bool,
}

/// A recorded parameter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// It is not there.
    #[error("parameter `{name}` is not recorded")]
    Absent {
        /// Its name.
        name: &'static str,
    },
    /// It is there, but is no such value.
    #[error("parameter `{name}`: expected {expected}, found `{found}`")]
    Unreadable {
        /// Its name.
        name: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
}

impl Rules {
    /// Reads the recorded fields.
    ///
    /// # Errors
    /// If a field is absent or is not what its name asks for: unknown is never a default.
    pub fn read(fields: &[ResolvedField]) -> Result<Self, RulesError> {
        let temperature = temperature(fields)?;
        let fields = Fields(fields);
        Ok(Self {
            temperature,
            top_p: fields.float("top_p")?,
            min_p: fields.float("min_p")?,
            top_k: fields.optional("top_k", "a count or null", count)?,
            seed: fields.optional("seed", "an unsigned 64-bit integer or null", Value::as_u64)?,
            repetition_penalty: fields.float("repetition_penalty")?,
            presence_penalty: fields.float("presence_penalty")?,
            frequency_penalty: fields.float("frequency_penalty")?,
            logit_bias: fields.required("logit_bias", "an object of token id to number", biases)?,
            min_tokens: fields.required("min_tokens", "a count", count)?,
            max_tokens: fields.optional("max_tokens", "a count or null", count)?,
            stop: fields
                .required("stop", "an array of strings", |value| list(value, |v| v.as_str().map(str::to_owned)))?,
            stop_token_ids: fields.required("stop_token_ids", "an array of token ids", |value| list(value, count))?,
            ignore_eos: fields.required("ignore_eos", "true or false", Value::as_bool)?,
            logprobs: fields.optional("logprobs", "a count or null", count)?,
            takes_tokens_away: takes_tokens_away(fields.0),
        })
    }
}

/// The temperature, whatever is known of the other fields.
///
/// # Errors
/// As [`Rules::read`].
pub(super) fn temperature(fields: &[ResolvedField]) -> Result<f32, RulesError> {
    Fields(fields).float("temperature")
}

/// Recorded fields by name.
struct Fields<'a>(&'a [ResolvedField]);

impl Fields<'_> {
    fn value(&self, name: &'static str, expected: &'static str) -> Result<Value, RulesError> {
        let field = self.0.iter().find(|field| field.name == name).ok_or(RulesError::Absent { name })?;
        serde_json::from_str(&field.value).map_err(|_| unreadable(name, expected, &field.value))
    }

    fn required<T>(
        &self,
        name: &'static str,
        expected: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, RulesError> {
        let value = self.value(name, expected)?;
        read(&value).ok_or_else(|| unreadable(name, expected, &value.to_string()))
    }

    fn optional<T>(
        &self,
        name: &'static str,
        expected: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, RulesError> {
        let value = self.value(name, expected)?;
        match value {
            Value::Null => Ok(None),
            value => read(&value).map(Some).ok_or_else(|| unreadable(name, expected, &value.to_string())),
        }
    }

    fn float(&self, name: &'static str) -> Result<f32, RulesError> {
        self.required(name, "a finite number", |value| value.as_f64().map(|v| v as f32).filter(|v| v.is_finite()))
    }
}

fn unreadable(name: &'static str, expected: &'static str, found: &str) -> RulesError {
    RulesError::Unreadable { name, expected, found: found.to_owned() }
}

fn count(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|count| u32::try_from(count).ok())
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

fn biases(value: &Value) -> Option<Vec<(u32, f32)>> {
    let entries = value.as_object()?.iter().map(|(id, bias)| Some((id.parse().ok()?, bias.as_f64()? as f32)));
    let mut biases: Vec<(u32, f32)> = entries.collect::<Option<_>>()?;
    biases.sort_by_key(|&(id, _)| id);
    Some(biases)
}
