//! What a step record knows of one logits row.

use serde::{Deserialize, Serialize};

use super::super::wire;
use crate::arith;

/// What is known of one logits row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowRecord {
    /// Position of the token that the row was computed after; the row decides the token at `position + 1`.
    pub position: u32,
    /// The token that was emitted for the next position, or judged there; `None` for a row past the end.
    pub token: Option<u32>,
    /// Statistics of the raw row.
    pub statistics: Option<RowStatistics>,
    /// How many values of the raw row come before `token`'s in (value descending, id ascending) order.
    pub rank: Option<u32>,
    /// The row's maximum minus `token`'s value.
    #[serde(with = "wire", default)]
    pub margin: Option<f32>,
    /// Hash of the mask the scheduler filled.
    #[serde(with = "wire", default)]
    pub scheduler_mask: Option<[u8; 32]>,
    /// Hash of the mask the sampler used.
    #[serde(with = "wire", default)]
    pub applied_mask: Option<[u8; 32]>,
    /// Allowed tokens in the applied mask.
    pub mask_population: Option<u32>,
    /// What the client was told: natural-log probability of `token`.
    #[serde(with = "wire", default)]
    pub logprob: Option<f32>,
    /// The one token that the scheduler's mask allows, if it allows one alone, whether or not the row was judged.
    pub forced: Option<ForcedToken>,
}

/// A token that had to come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForcedToken {
    /// The token.
    pub token: u32,
    /// How many values of the raw row come before it in (value descending, id ascending) order.
    pub rank: Option<u32>,
    /// The row's maximum minus its value.
    #[serde(with = "wire", default)]
    pub margin: Option<f32>,
}

/// Statistics of a raw logits row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowStatistics {
    /// Id of the greatest value; the lowest such id; `None` when the row has a NaN or nothing finite.
    pub argmax: Option<u32>,
    /// The greatest value, NaN left out.
    #[serde(with = "wire")]
    pub maximum: f32,
    /// Log of the sum of exponentials.
    #[serde(with = "wire")]
    pub log_sum_exp: f32,
    /// NaN values.
    pub nan_count: u32,
    /// Values of +infinity.
    pub positive_infinity_count: u32,
    /// Values of -infinity.
    pub negative_infinity_count: u32,
    /// Checksum of the row (docs/arithmetic.md).
    #[serde(with = "wire")]
    pub checksum: u64,
}

impl RowStatistics {
    /// Whether the row must not become a token: it has a NaN or +infinity, or nothing above -infinity.
    pub fn is_invalid(&self) -> bool {
        self.nan_count > 0 || self.positive_infinity_count > 0 || self.maximum == f32::NEG_INFINITY
    }
}

impl From<arith::RowStatistics> for RowStatistics {
    fn from(statistics: arith::RowStatistics) -> Self {
        let arith::RowStatistics {
            argmax,
            maximum,
            log_sum_exp,
            nan_count,
            positive_infinity_count,
            negative_infinity_count,
            checksum,
        } = statistics;
        Self { argmax, maximum, log_sum_exp, nan_count, positive_infinity_count, negative_infinity_count, checksum }
    }
}
