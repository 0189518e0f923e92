//! The `event` channel.

use serde::{Deserialize, Serialize};

use super::super::wire;

/// A message of the `event` channel: something worth a person's attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRecord {
    /// Monotonic time.
    #[serde(with = "wire")]
    pub time_ns: u64,
    /// `invalid_row`, `seed_not_used`, `warning`, ...
    pub kind: String,
    /// The request it is about, if any.
    #[serde(with = "wire", default)]
    pub request: Option<u64>,
    /// The choice.
    pub choice: Option<u32>,
    /// The step.
    #[serde(with = "wire", default)]
    pub step: Option<u64>,
    /// In words.
    pub message: String,
}
