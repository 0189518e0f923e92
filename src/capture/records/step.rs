//! The `step` channel: what one step did for one choice of one request.

use serde::{Deserialize, Serialize};

use super::super::wire;
use super::request::StopReason;
use super::row::RowRecord;

/// What one step did for one choice of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// Number of the step in this capture.
    #[serde(with = "wire")]
    pub step: u64,
    /// The request.
    #[serde(with = "wire")]
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Position of the first token the step fed.
    pub first_position: u32,
    /// Tokens that were verified, in order, after the last committed token; -1 where a draft was withheld.
    pub drafts: Vec<i64>,
    /// Tokens committed by the step, in order; empty for a prefill chunk that does not end the prompt.
    pub emitted: Vec<u32>,
    /// Monotonic time at which the step was committed.
    #[serde(with = "wire", default)]
    pub time_ns: Option<u64>,
    /// Rows the step ran for this choice, prefill tokens included.
    pub q_len: Option<u32>,
    /// Accepted length of this choice's step before; 1 after prefill; `None` before the first decode.
    pub prev_accepted: Option<u32>,
    /// The code path.
    pub path: Option<StepPath>,
    /// How the step was scheduled.
    pub scheduler: Option<SchedulerMode>,
    /// Where in the batch it ran, and with whom.
    pub batch: Option<BatchPlace>,
    /// Tokens the model read in this step, where they are not simply the last token and the drafts.
    pub input_tokens: Option<Vec<u32>>,
    /// Positions that were taken from the prefix cache just before this step.
    pub cached_prefix: Option<u32>,
    /// What the drafter proposed, before trimming or padding.
    pub drafts_raw: Option<Vec<u32>>,
    /// For each -1 in `drafts`, and for each token of `drafts_raw` past the end of `drafts`: why it was not verified.
    pub withheld: Option<Vec<WithheldDraft>>,
    /// Recurrent state that was read.
    pub state: Option<StateRead>,
    /// The grammar around the step.
    pub grammar: Option<GrammarStep>,
    /// One entry per entry of `drafts`.
    pub verdicts: Option<Vec<DraftVerdict>>,
    /// Whether the last emitted token came from the row after the last draft.
    pub bonus: Option<bool>,
    /// Whether the step ended the choice.
    pub stop: Option<StopReason>,
    /// One entry per logits row.
    #[serde(default)]
    pub rows: Vec<RowRecord>,
    /// Where the time went.
    pub timings: Option<Timings>,
}

/// The code path a step took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPath {
    /// A chunk of the prompt.
    Prefill,
    /// One token, no drafts.
    Decode,
    /// One token and its drafts.
    Verify,
}

/// How steps are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerMode {
    /// The step's inputs are final before it starts.
    Sync,
    /// The step is prepared before the one before it is known.
    Async,
}

/// A place in the batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchPlace {
    /// Index in the batch.
    pub slot: u32,
    /// The others in the batch, as (request, choice), in batch order and without this one.
    #[serde(with = "wire")]
    pub neighbours: Vec<(u64, u32)>,
}

/// A draft that was not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithheldDraft {
    /// Index in `drafts_raw`, and in `drafts` where that reaches so far.
    pub index: u32,
    /// The reason.
    pub reason: WithheldReason,
}

/// Why a draft was not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithheldReason {
    /// The grammar refuses it.
    Grammar,
    /// The drafter did not deliver in time.
    Missing,
    /// A limit (`max_tokens`, context, budget) cut it.
    Limit,
}

/// The recurrent state a step read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRead {
    /// Row of the state table.
    pub slot: u32,
    /// Column the history began at.
    pub column: u32,
}

/// The grammar around a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrammarStep {
    /// Tokens the grammar had consumed before the step.
    #[serde(with = "wire")]
    pub before: u64,
    /// And after.
    #[serde(with = "wire")]
    pub after: u64,
    /// Whether it had terminated after the step.
    pub terminated: bool,
    /// Whether the step ran in a reasoning section, unconstrained.
    pub reasoning: bool,
}

/// What became of one draft.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftVerdict {
    /// The target's probability of the draft.
    #[serde(with = "wire", default)]
    pub p: Option<f64>,
    /// The drafter's probability of it.
    #[serde(with = "wire", default)]
    pub q: Option<f64>,
    /// The uniform it was tested with.
    #[serde(with = "wire", default)]
    pub u: Option<f64>,
    /// The verdict.
    pub accepted: bool,
    /// Why.
    pub reason: VerdictReason,
}

/// Reasons of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictReason {
    /// It is the token the target's row gives.
    Match,
    /// The target's row gives another.
    Mismatch,
    /// Accepted or rejected by p/q against u.
    Ratio,
    /// The grammar refuses it.
    Grammar,
    /// An earlier draft was rejected.
    AfterRejection,
    /// The sequence had ended before it.
    AfterEnd,
    /// There was none: the drafter did not deliver.
    Missing,
}

/// Where a step's time went, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timings {
    /// Drafting and scheduling.
    #[serde(with = "wire")]
    pub schedule_ns: u64,
    /// The model's forward pass.
    #[serde(with = "wire")]
    pub forward_ns: u64,
    /// Masks, sampling and acceptance.
    #[serde(with = "wire")]
    pub sample_ns: u64,
}
