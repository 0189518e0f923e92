//! The `logits` channel: payloads of logits rows.

use serde::{Deserialize, Serialize};

use super::super::wire;

/// A message of the `logits` channel: one row's payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogitsRecord {
    /// The step.
    #[serde(with = "wire")]
    pub step: u64,
    /// The request.
    #[serde(with = "wire")]
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Index into the step record's `rows`.
    pub row: u32,
    /// The payload.
    pub payload: LogitsPayload,
}

/// A row's payload, by tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogitsPayload {
    /// What a quantized LM head read.
    HiddenQuantized {
        /// One per element, within -127..=127.
        #[serde(with = "wire")]
        values: Vec<i8>,
        /// One scale per activation block.
        #[serde(with = "wire")]
        scales: Vec<f32>,
    },
    /// What a float LM head read.
    HiddenFloat {
        /// One per element.
        #[serde(with = "wire")]
        values: Vec<f32>,
    },
    /// The row: byte-shuffled little-endian f32, then zstd.
    Full {
        /// Number of logits.
        length: u32,
        /// Compressed bytes.
        #[serde(with = "wire")]
        bytes: Vec<u8>,
    },
    /// The best K of the row, in (value descending, id ascending) order.
    #[serde(rename = "topk")]
    TopK {
        /// Token ids.
        #[serde(with = "wire")]
        ids: Vec<u32>,
        /// Their values.
        #[serde(with = "wire")]
        values: Vec<f32>,
    },
}
