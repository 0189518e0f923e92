//! The `columns` channel: the scalar conditions of many steps at once.

use serde::{Deserialize, Serialize};

use super::super::wire;

/// A message of the `columns` channel: what is scalar in a run of step records, as one Arrow record batch.
///
/// It repeats what the step records say, so that many steps can be searched without reading them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnsRecord {
    /// How many messages of the `step` channel come before the run, in file order.
    #[serde(with = "wire")]
    pub first: u64,
    /// How many step records the run has: the batch has a row for each, in file order.
    pub steps: u32,
    /// An Arrow IPC stream: a schema, one record batch, the end.
    #[serde(with = "wire")]
    pub batch: Vec<u8>,
}
