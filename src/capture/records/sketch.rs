//! The `sketch` channel: what operations gave, in a few numbers.

use serde::{Deserialize, Serialize};

use super::super::wire;

/// A message of the `sketch` channel: a sketch of one operation's output for one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SketchRecord {
    /// The step.
    #[serde(with = "wire")]
    pub step: u64,
    /// The request.
    #[serde(with = "wire")]
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Index into the step record's rows.
    pub row: u32,
    /// Layer, or `None` outside the layers.
    pub layer: Option<u32>,
    /// Name of the operation.
    pub operation: String,
    /// The greatest absolute value, then the projections.
    #[serde(with = "wire")]
    pub values: Vec<f32>,
}
