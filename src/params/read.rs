//! Reading single JSON values: what is accepted, and what was found instead.

use serde_json::Value;

use super::error::RequestFault;
use crate::types::TokenId;

/// The numbers that a field accepts.
pub(super) struct Numbers {
    /// In words.
    pub accepted: &'static str,
    /// Judges a value as it was written, before it is rounded to f32.
    pub fits: fn(f64) -> bool,
}

/// Longest quotation of a value in an error.
const LONGEST_QUOTATION: usize = 60;

/// A value in the words of an error: its type where that is the point, and the value, shortened.
pub(super) fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => shortened(value),
        Value::String(_) => format!("the string {}", shortened(value)),
        Value::Array(items) if items.is_empty() => "an empty array".to_owned(),
        Value::Array(_) => format!("the array {}", shortened(value)),
        Value::Object(_) => format!("the object {}", shortened(value)),
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST_QUOTATION) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A number, rounded to f32.
pub(super) fn number(field: &str, value: &Value, numbers: &Numbers) -> Result<f32, RequestFault> {
    let fault = || RequestFault::value(field, numbers.accepted, found(value));
    let number = value.as_f64().filter(|&number| number.is_finite() && (numbers.fits)(number)).ok_or_else(fault)?;
    Ok(number as f32)
}

/// A whole number within `least..=most`.
pub(super) fn count(field: &str, value: &Value, least: u32, most: u32) -> Result<u32, RequestFault> {
    let fits = |&count: &u64| (u64::from(least)..=u64::from(most)).contains(&count);
    let accepted = || match most {
        u32::MAX => format!("a whole number, at least {least}"),
        _ => format!("a whole number from {least} to {most}"),
    };
    let count = value.as_u64().filter(fits).ok_or_else(|| RequestFault::value(field, accepted(), found(value)))?;
    Ok(count as u32)
}

/// `true` or `false`.
pub(super) fn boolean(field: &str, value: &Value) -> Result<bool, RequestFault> {
    value.as_bool().ok_or_else(|| RequestFault::value(field, "true or false", found(value)))
}

/// A string.
pub(super) fn string<'a>(field: &str, value: &'a Value) -> Result<&'a str, RequestFault> {
    value.as_str().ok_or_else(|| RequestFault::value(field, "a string", found(value)))
}

/// An array of token ids.
pub(super) fn token_ids(field: &str, value: &Value) -> Result<Vec<TokenId>, RequestFault> {
    let items = value.as_array().ok_or_else(|| RequestFault::value(field, "an array of token ids", found(value)))?;
    let id = |(index, item): (usize, &Value)| {
        let id = item.as_u64().and_then(|id| u32::try_from(id).ok());
        id.map(TokenId).ok_or_else(|| RequestFault::value(format!("{field}[{index}]"), "a token id", found(item)))
    };
    items.iter().enumerate().map(id).collect()
}

/// A number as JSON, in the shortest digits that give the same f32.
pub(super) fn json_number(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
