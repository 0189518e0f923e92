//! The records of format version 1 that today's have more fields than.

use serde::{Deserialize, Serialize};

use super::super::wire;
use super::{request, row, step};

/// [`super::RequestRecord`] of version 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestRecord {
    /// A request was admitted.
    Admitted(Admission),
    /// A request was refused before it ran.
    Refused(request::Refusal),
    /// One choice of a request ended.
    Finished(Completion),
}

/// [`super::Admission`] of version 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    #[serde(with = "wire")]
    request: u64,
    client_id: Option<String>,
    #[serde(with = "wire")]
    time_ns: u64,
    endpoint: Option<String>,
    body: Option<String>,
    prompt_text: Option<String>,
    add_special_tokens: Option<bool>,
    prompt_tokens: Vec<u32>,
    params: Option<Vec<request::ResolvedField>>,
    owner: Option<String>,
    choices: u32,
    server_overrides: Option<String>,
    generation_config: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

/// [`super::Completion`] of version 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    #[serde(with = "wire")]
    request: u64,
    choice: u32,
    #[serde(with = "wire")]
    time_ns: u64,
    stop: Option<request::StopReason>,
    emitted_tokens: u32,
    text: Option<String>,
}

/// [`super::StepRecord`] of version 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    #[serde(with = "wire")]
    step: u64,
    #[serde(with = "wire")]
    request: u64,
    choice: u32,
    first_position: u32,
    drafts: Vec<i64>,
    emitted: Vec<u32>,
    #[serde(with = "wire", default)]
    time_ns: Option<u64>,
    q_len: Option<u32>,
    prev_accepted: Option<u32>,
    path: Option<step::StepPath>,
    scheduler: Option<step::SchedulerMode>,
    batch: Option<step::BatchPlace>,
    input_tokens: Option<Vec<u32>>,
    cached_prefix: Option<u32>,
    drafts_raw: Option<Vec<u32>>,
    withheld: Option<Vec<step::WithheldDraft>>,
    state: Option<step::StateRead>,
    grammar: Option<step::GrammarStep>,
    verdicts: Option<Vec<step::DraftVerdict>>,
    bonus: Option<bool>,
    stop: Option<request::StopReason>,
    #[serde(default)]
    rows: Vec<RowRecord>,
    timings: Option<step::Timings>,
}

/// [`super::RowRecord`] of version 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowRecord {
    position: u32,
    token: Option<u32>,
    statistics: Option<row::RowStatistics>,
    rank: Option<u32>,
    #[serde(with = "wire", default)]
    margin: Option<f32>,
    #[serde(with = "wire", default)]
    scheduler_mask: Option<[u8; 32]>,
    #[serde(with = "wire", default)]
    applied_mask: Option<[u8; 32]>,
    mask_population: Option<u32>,
    #[serde(with = "wire", default)]
    logprob: Option<f32>,
}

impl From<RequestRecord> for request::RequestRecord {
    fn from(record: RequestRecord) -> Self {
        match record {
            RequestRecord::Admitted(record) => Self::Admitted(record.into()),
            RequestRecord::Refused(record) => Self::Refused(record),
            RequestRecord::Finished(record) => Self::Finished(record.into()),
        }
    }
}

impl From<request::RequestRecord> for RequestRecord {
    fn from(record: request::RequestRecord) -> Self {
        match record {
            request::RequestRecord::Admitted(record) => Self::Admitted(record.into()),
            request::RequestRecord::Refused(record) => Self::Refused(record),
            request::RequestRecord::Finished(record) => Self::Finished(record.into()),
        }
    }
}

/// Converts a record field by field, both ways: what version 1 did not have is unknown, and is left out on the way back.
macro_rules! convert {
    ($name:ident, $today:path: $($same:ident)*; records $($list:ident)*; new $($new:ident)*) => {
        impl From<$name> for $today {
            fn from(record: $name) -> Self {
                Self {
                    $($same: record.$same,)*
                    $($list: record.$list.into_iter().map(Into::into).collect(),)*
                    $($new: None,)*
                }
            }
        }

        impl From<$today> for $name {
            fn from(record: $today) -> Self {
                Self {
                    $($same: record.$same,)*
                    $($list: record.$list.into_iter().map(Into::into).collect(),)*
                }
            }
        }
    };
}

convert!(Admission, request::Admission:
    request client_id time_ns endpoint body prompt_text add_special_tokens prompt_tokens params owner choices
    server_overrides generation_config warnings; records; new constraint tool_format);

convert!(Completion, request::Completion:
    request choice time_ns stop emitted_tokens text; records; new tool_calls);

convert!(StepRecord, step::StepRecord:
    step request choice first_position drafts emitted time_ns q_len prev_accepted path scheduler batch input_tokens
    cached_prefix drafts_raw withheld state grammar verdicts bonus stop timings; records rows; new);

convert!(RowRecord, row::RowRecord:
    position token statistics rank margin scheduler_mask applied_mask mask_population logprob; records; new forced);
