//! The `mask` channel: mask rows by content.

use serde::{Deserialize, Serialize};

use super::super::wire;

/// A message of the `mask` channel: a mask row, stored once per content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskRecord {
    /// BLAKE3 of the row's bytes.
    #[serde(with = "wire")]
    pub hash: [u8; 32],
    /// Number of tokens the row covers.
    pub tokens: u32,
    /// One bit per token, lowest first, 1 = allowed.
    #[serde(with = "wire")]
    pub bits: Vec<u8>,
}

impl MaskRecord {
    /// The record of a mask row, with its hash.
    pub fn new(tokens: u32, bits: Vec<u8>) -> Self {
        Self { hash: *blake3::hash(&bits).as_bytes(), tokens, bits }
    }
}
