//! Taps: where every box of the step loop reports what it did.
//!
//! Reports borrow what the step holds, so that a tap which looks at nothing costs nothing. They are engine types: a tap
//! that writes them down converts them ([`crate::capture::tap`]).

use crate::arith::{ActivationRow, RowStatistics};
use crate::backend::{OperationSketches, StateAccess};
use crate::engine::constraint::GrammarPosition;
use crate::engine::logprobs::TokenLogprobs;
use crate::engine::sampler::Odds;
use crate::engine::speculation::{DraftQuery, Scheduling};
use crate::engine::{Owner, Received, RefusalReason, Submission};
use crate::grammar::MaskRow;
use crate::tools::Parsed;
use crate::types::{FinishReason, Position, RequestId, SequenceId, StepId, TokenId};

/// Listens to an engine. All times are nanoseconds of the engine's monotonic clock.
///
/// The reports of one step come in batch order after the step is committed; a sequence's [`Tap::finished`] follows its
/// last [`Tap::step`].
pub trait Tap: Send {
    /// A request was accepted.
    fn admitted(&mut self, report: &AdmittedReport<'_>);
    /// A request was refused.
    fn refused(&mut self, report: &RefusedReport<'_>);
    /// A step was committed; once per sequence in it.
    fn step(&mut self, report: &StepReport<'_>);
    /// A sequence ended.
    fn finished(&mut self, report: &FinishedReport<'_>);
    /// Something worth a person's attention happened.
    fn event(&mut self, report: &EventReport<'_>);
}

/// A request that was accepted.
#[derive(Clone, Copy, Debug)]
pub struct AdmittedReport<'a> {
    /// Its number.
    pub request: RequestId,
    /// When.
    pub time_ns: u64,
    /// Whose prefix-cache entries it uses.
    pub owner: &'a Owner,
    /// The request.
    pub submission: &'a Submission,
}

/// A request that was refused.
#[derive(Clone, Copy, Debug)]
pub struct RefusedReport<'a> {
    /// Its number.
    pub request: RequestId,
    /// When.
    pub time_ns: u64,
    /// The request as it was received.
    pub received: &'a Received,
    /// Why.
    pub reason: &'a RefusalReason,
}

/// What one step did for one sequence.
#[derive(Clone, Debug)]
pub struct StepReport<'a> {
    /// The step.
    pub step: StepId,
    /// The sequence.
    pub sequence: SequenceId,
    /// When the step was committed.
    pub time_ns: u64,
    /// Its index in the batch.
    pub slot: usize,
    /// All sequences of the batch, in order, this one included.
    pub batch: &'a [SequenceId],
    /// Whether the tokens were a chunk of the prompt.
    pub prefill: bool,
    /// The tokens the model read.
    pub input: &'a [TokenId],
    /// Position of the first of them.
    pub first_position: Position,
    /// What was proposed, and what stands in the places after the last committed token.
    pub drafts: &'a DraftQuery,
    /// When the query's length was decided.
    pub scheduling: Scheduling,
    /// Accepted length of the sequence's step before; 1 after prefill, `None` before the first decode.
    pub prev_accepted: Option<usize>,
    /// The recurrent state it read.
    pub state: Option<StateAccess>,
    /// Positions that came from the prefix cache just before this step; 0 after the sequence's first.
    pub cached_prefix: usize,
    /// Where its grammar stood before the step and after it; `None` without a grammar.
    pub grammar: Option<(GrammarPosition, GrammarPosition)>,
    /// The logits rows, in order.
    pub rows: &'a [RowReport<'a>],
    /// Sketches of what the rows of the whole batch passed through, operation by operation; empty unless asked for.
    pub sketches: &'a [OperationSketches],
    /// Which row of the batch is the first of `rows`.
    pub first_row: usize,
    /// Tokens committed, in order; one for each row up to the last that was judged valid.
    pub emitted: &'a [TokenId],
    /// Text of the answer that is certain since this step: whole characters, and no beginning of a stop string.
    pub text: &'a str,
    /// The test of chance that each of them came of; `None` where there was none.
    pub odds: &'a [Option<Odds>],
    /// Why the step ended the sequence, if it did.
    pub stop: Option<&'a FinishReason>,
    /// Where the step's time went.
    pub timings: StepTimings,
}

/// One logits row.
#[derive(Clone, Copy, Debug)]
pub struct RowReport<'a> {
    /// Position of the token it was computed after.
    pub position: Position,
    /// The raw row.
    pub logits: &'a [f32],
    /// What the LM head read.
    pub input: &'a ActivationRow,
    /// Statistics of the raw row.
    pub statistics: &'a RowStatistics,
    /// What the grammar allows there, by the drafts before it; `None` where no grammar constrains it.
    pub filled_mask: Option<&'a MaskRow>,
    /// What the sampler was told that the grammar allows; `None` besides for a row that was not judged.
    pub applied_mask: Option<&'a MaskRow>,
    /// The token that was emitted from it; `None` for a row that was not judged or is invalid.
    pub token: Option<TokenId>,
    /// What the client was told of it.
    pub logprobs: Option<&'a TokenLogprobs>,
}

/// Where a step's time went, the whole batch together, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimings {
    /// Scheduling.
    pub schedule_ns: u64,
    /// The model's forward pass.
    pub forward_ns: u64,
    /// Masks, sampling and commit.
    pub sample_ns: u64,
}

/// The end of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct FinishedReport<'a> {
    /// The sequence.
    pub sequence: SequenceId,
    /// When.
    pub time_ns: u64,
    /// Why.
    pub reason: &'a FinishReason,
    /// The tokens it emitted.
    pub tokens: &'a [TokenId],
    /// The text it returned.
    pub text: &'a str,
    /// What it calls, if the request had tools.
    pub calls: Option<&'a Parsed>,
}

/// Something worth a person's attention.
#[derive(Clone, Copy, Debug)]
pub struct EventReport<'a> {
    /// What kind of thing.
    pub kind: EventKind,
    /// When.
    pub time_ns: u64,
    /// The sequence it is about.
    pub sequence: SequenceId,
    /// The step; `None` for what is known before the first.
    pub step: Option<StepId>,
    /// In words.
    pub message: &'a str,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A row that must not become a token; its sequence's request has failed.
    InvalidRow,
    /// A valid row of which the request's own parameters left nothing to choose; the request has failed.
    NothingToSample,
    /// The grammar library failed; the request has failed with it.
    GrammarFailed,
    /// A request is greedy, and the model's generation config recommends sampling.
    GreedyAgainstRecommendation,
}

impl EventKind {
    /// Its name in captures.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRow => "invalid_row",
            Self::NothingToSample => "nothing_to_sample",
            Self::GrammarFailed => "grammar_failed",
            Self::GreedyAgainstRecommendation => "greedy_against_recommendation",
        }
    }
}

/// A tap that listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTap;

impl Tap for NoTap {
    fn admitted(&mut self, _: &AdmittedReport<'_>) {}
    fn refused(&mut self, _: &RefusedReport<'_>) {}
    fn step(&mut self, _: &StepReport<'_>) {}
    fn finished(&mut self, _: &FinishedReport<'_>) {}
    fn event(&mut self, _: &EventReport<'_>) {}
}
