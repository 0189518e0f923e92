//! The `loss` channel.

use serde::{Deserialize, Serialize};

use super::super::wire;

/// A message of the `loss` channel: something that should be here and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossRecord {
    /// Monotonic time.
    #[serde(with = "wire")]
    pub time_ns: u64,
    /// Channel of what was lost; `*` when it may be any.
    pub channel: String,
    /// Messages lost, if known.
    #[serde(with = "wire", default)]
    pub messages: Option<u64>,
    /// Their bytes, if known.
    #[serde(with = "wire", default)]
    pub bytes: Option<u64>,
    /// First and last step concerned, if known.
    #[serde(with = "wire", default)]
    pub steps: Option<(u64, u64)>,
    /// Why.
    pub reason: String,
}
