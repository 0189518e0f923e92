//! The tap that records: engine reports in, capture records out.
//!
//! What is written lets replay derive every decision again: the request as received, the layers its parameters were
//! resolved from, the prompt as text and as tokens, what each step read and emitted, and per row what the chosen tier
//! keeps. The whole row is kept for a row that is invalid, in every tier.

mod drafts;

use super::error::CaptureError;
use super::records::MaskRecord;
use super::records::{
    Admission, BatchPlace, Completion, ConstraintRecord, EventRecord, ForcedToken, GrammarStep, LogitsPayload,
    LogitsRecord, LogitsTier, ParamSource, Refusal, RequestRecord, ResolvedField, RowRecord, SketchRecord, StateRead,
    StepPath, StepRecord, StopReason, Timings,
};
use super::topic::Record;
use super::writer::{CaptureWriter, RowKey, Sink, WriteSummary};
use crate::arith::{ActivationRow, Sketch};
use crate::engine::constraint::OutputGrammar;
use crate::engine::sampler::best_tokens;
use crate::engine::validity::ValidRow;
use crate::engine::{AdmittedReport, EventReport, FinishedReport, RefusedReport, RowReport, StepReport, Tap};
use crate::grammar::MaskRow;
use crate::params::Source;
use crate::tools;
use crate::types::{FinishReason, TokenId};

/// What is kept of each logits row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// What the LM head read.
    Hidden,
    /// The row itself.
    Full,
    /// The best ids and values, this many.
    TopK(usize),
    /// Its statistics, in the step record.
    Off,
}

/// Records an engine, into a capture or into memory.
///
/// A tap cannot stop the engine: the first error stays here, nothing is written after it, and
/// [`CaptureTap::take_error`] tells it.
pub struct CaptureTap<S = CaptureWriter> {
    sink: S,
    tier: Tier,
    error: Option<CaptureError>,
    rows: u64,
}

impl Tier {
    /// The tier as a capture's header names it.
    pub fn in_header(self) -> LogitsTier {
        match self {
            Self::Hidden => LogitsTier::Hidden,
            Self::Full => LogitsTier::Full,
            Self::TopK(_) => LogitsTier::TopK,
            Self::Off => LogitsTier::Off,
        }
    }
}

impl CaptureTap {
    /// Finishes the capture.
    ///
    /// # Errors
    /// If anything could not be written, now or before.
    pub fn finish(self) -> Result<WriteSummary, CaptureError> {
        match self.error {
            Some(error) => Err(error),
            None => self.sink.finish(),
        }
    }
}

impl<S: Sink> CaptureTap<S> {
    /// A tap that writes to `sink`.
    pub fn new(sink: S, tier: Tier) -> Self {
        Self { sink, tier, error: None, rows: 0 }
    }

    /// Where the records go.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// Logits rows that were recorded so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Why recording stopped, if it did.
    pub fn take_error(&mut self) -> Option<CaptureError> {
        self.error.take()
    }

    fn write(&mut self, record: impl Into<Record>) {
        if self.error.is_none() {
            self.error = self.sink.write(record.into()).err();
        }
    }

    fn write_row(&mut self, key: RowKey, row: &RowReport<'_>) {
        let is_valid = ValidRow::check(row.logits, row.statistics).is_ok();
        match self.tier {
            Tier::Hidden if is_valid => self.write_payload(key, hidden(row.input)),
            Tier::TopK(count) if is_valid => self.write_payload(key, top_k(row.logits, count)),
            Tier::Off if is_valid => {}
            _ if self.error.is_none() => self.error = self.sink.write_row(key, row.logits.to_vec()).err(),
            _ => {}
        }
    }

    /// Writes the masks of a step that were not written before; the records of its rows name them.
    fn write_masks(&mut self, report: &StepReport<'_>) -> Vec<RowMasks> {
        let mut hash = |mask: Option<&MaskRow>| mask.map(|mask| self.write_mask(mask));
        let masks = |row: &RowReport<'_>| {
            let filled = hash(row.filled_mask);
            // Mostly the very row that was filled: it need not be hashed twice.
            let is_filled = |mask: &MaskRow| row.filled_mask.is_some_and(|filled| std::ptr::eq(mask, filled));
            let applied = if row.applied_mask.is_some_and(is_filled) { filled } else { hash(row.applied_mask) };
            RowMasks { filled, applied }
        };
        report.rows.iter().map(masks).collect()
    }

    /// The mask's hash.
    fn write_mask(&mut self, mask: &MaskRow) -> [u8; 32] {
        let record = MaskRecord::new(mask.vocabulary_size() as u32, mask.bytes());
        let hash = record.hash;
        self.write(record);
        hash
    }

    /// Writes the sketches of what a row passed through, which is row `index` of the batch.
    fn write_sketches(&mut self, RowKey { step, request, choice, row }: RowKey, report: &StepReport<'_>, index: usize) {
        for sketched in report.sketches {
            let Some(Sketch { magnitude, projections }) = sketched.rows.get(index) else { continue };
            self.write(SketchRecord {
                step,
                request,
                choice,
                row,
                layer: sketched.layer.map(|layer| layer as u32),
                operation: sketched.operation.name().to_owned(),
                values: [&[*magnitude], &projections[..]].concat(),
            });
        }
    }

    fn write_payload(&mut self, key: RowKey, payload: LogitsPayload) {
        let RowKey { step, request, choice, row } = key;
        self.write(LogitsRecord { step, request, choice, row, payload });
    }
}

impl<S: Sink> Tap for CaptureTap<S> {
    fn admitted(&mut self, report: &AdmittedReport<'_>) {
        self.write(RequestRecord::Admitted(admission(report)));
    }

    fn refused(&mut self, report: &RefusedReport<'_>) {
        self.write(RequestRecord::Refused(Refusal {
            request: report.request.0,
            client_id: report.received.client_id.clone(),
            time_ns: report.time_ns,
            body: report.received.body.clone(),
            error: report.reason.to_string(),
        }));
    }

    fn step(&mut self, report: &StepReport<'_>) {
        let masks = self.write_masks(report);
        self.write(step(report, &masks));
        for (index, row) in report.rows.iter().enumerate() {
            let key = RowKey {
                step: report.step.0,
                request: report.sequence.request.0,
                choice: report.sequence.choice.0,
                row: index as u32,
            };
            self.write_row(key, row);
            self.write_sketches(key, report, report.first_row + index);
        }
        self.rows += report.rows.len() as u64;
    }

    fn finished(&mut self, report: &FinishedReport<'_>) {
        self.write(RequestRecord::Finished(Completion {
            request: report.sequence.request.0,
            choice: report.sequence.choice.0,
            time_ns: report.time_ns,
            stop: Some(stop_reason(report.reason)),
            emitted_tokens: report.tokens.len() as u32,
            text: Some(report.text.to_owned()),
            tool_calls: report.calls.map(|parsed| tools::calls_json(&parsed.calls).to_string()),
        }));
    }

    fn event(&mut self, report: &EventReport<'_>) {
        self.write(EventRecord {
            time_ns: report.time_ns,
            kind: report.kind.name().to_owned(),
            request: Some(report.sequence.request.0),
            choice: Some(report.sequence.choice.0),
            step: report.step.map(|step| step.0),
            message: report.message.to_owned(),
        });
    }
}

/// Hashes of a row's masks.
struct RowMasks {
    filled: Option<[u8; 32]>,
    applied: Option<[u8; 32]>,
}

fn constraint(grammar: &OutputGrammar) -> ConstraintRecord {
    ConstraintRecord {
        kind: grammar.constraint.kind().to_owned(),
        source: grammar.constraint.source(),
        begins_after: grammar.begins_after.map(|token| token.0),
    }
}

fn admission(report: &AdmittedReport<'_>) -> Admission {
    let submission = report.submission;
    let field = |chain: &crate::params::ParamChain| ResolvedField {
        name: chain.name.to_owned(),
        value: chain.value.to_string(),
        source: param_source(chain.source),
    };
    Admission {
        request: report.request.0,
        client_id: submission.received.client_id.clone(),
        time_ns: report.time_ns,
        endpoint: submission.received.endpoint.clone(),
        body: submission.received.body.clone(),
        prompt_text: submission.prompt.text.clone(),
        add_special_tokens: Some(submission.prompt.add_special_tokens),
        prompt_tokens: submission.prompt.tokens.iter().map(|token| token.0).collect(),
        params: Some(submission.resolved.chain.iter().map(field).collect()),
        owner: Some(report.owner.to_string()),
        choices: submission.sampling.choices,
        server_overrides: submission.layers.server_overrides.clone(),
        generation_config: submission.layers.generation_config.clone(),
        warnings: submission.resolved.warnings.iter().map(ToString::to_string).collect(),
        constraint: submission.grammar.as_ref().map(constraint),
        tool_format: submission.tools.as_ref().map(|tooling| tooling.format.name().to_owned()),
    }
}

fn step(report: &StepReport<'_>, masks: &[RowMasks]) -> StepRecord {
    let neighbour = |sequence: &&crate::types::SequenceId| **sequence != report.sequence;
    let place = BatchPlace {
        slot: report.slot as u32,
        neighbours: report.batch.iter().filter(neighbour).map(|other| (other.request.0, other.choice.0)).collect(),
    };
    let decodes = !report.prefill;
    let verifies = !report.drafts.places.is_empty();
    let reads_otherwise = report.prefill || report.drafts.places.contains(&None);
    StepRecord {
        step: report.step.0,
        request: report.sequence.request.0,
        choice: report.sequence.choice.0,
        first_position: report.first_position.0,
        drafts: drafts::places(report),
        emitted: report.emitted.iter().map(|token| token.0).collect(),
        time_ns: Some(report.time_ns),
        q_len: Some(report.input.len() as u32),
        prev_accepted: report.prev_accepted.map(|accepted| accepted as u32),
        path: Some(path(report)),
        scheduler: Some(drafts::scheduler(report)),
        batch: Some(place),
        input_tokens: reads_otherwise.then(|| report.input.iter().map(|token| token.0).collect()),
        cached_prefix: Some(report.cached_prefix as u32),
        drafts_raw: decodes.then(|| drafts::proposed(report)),
        withheld: decodes.then(|| drafts::withheld(report)),
        state: report.state.map(|state| StateRead { slot: state.slot.0, column: state.column as u32 }),
        grammar: report.grammar.map(|(before, after)| GrammarStep {
            before: before.consumed,
            after: after.consumed,
            terminated: after.terminated,
            reasoning: before.reasoning,
        }),
        verdicts: decodes.then(|| drafts::verdicts(report)),
        bonus: verifies.then_some(report.emitted.len() == report.rows.len()),
        stop: report.stop.map(stop_reason),
        rows: report.rows.iter().zip(masks).map(|(report, masks)| row(report, masks)).collect(),
        timings: Some(Timings {
            schedule_ns: report.timings.schedule_ns,
            forward_ns: report.timings.forward_ns,
            sample_ns: report.timings.sample_ns,
        }),
    }
}

fn path(report: &StepReport<'_>) -> StepPath {
    match (report.prefill, report.drafts.places.as_slice()) {
        (true, _) => StepPath::Prefill,
        (false, []) => StepPath::Decode,
        (false, _) => StepPath::Verify,
    }
}

fn row(report: &RowReport<'_>, masks: &RowMasks) -> RowRecord {
    let valid = ValidRow::check(report.logits, report.statistics).ok();
    let judged = valid.zip(report.token);
    // Nothing comes before the argmax, and most tokens are it: no need to look through the row.
    let rank = |row: &ValidRow<'_>, token| if token == row.argmax() { Some(0) } else { row.rank(token) };
    let forced = |token: TokenId| ForcedToken {
        token: token.0,
        rank: valid.as_ref().and_then(|row| rank(row, token)),
        margin: valid.as_ref().and_then(|row| row.margin(token)),
    };
    RowRecord {
        position: report.position.0,
        token: report.token.map(|token| token.0),
        statistics: Some((*report.statistics).into()),
        rank: judged.as_ref().and_then(|(row, token)| rank(row, *token)),
        margin: judged.as_ref().and_then(|(row, token)| row.margin(*token)),
        scheduler_mask: masks.filled,
        applied_mask: masks.applied,
        mask_population: report.applied_mask.map(|mask| mask.population() as u32),
        logprob: report.logprobs.map(|told| told.chosen.logprob),
        forced: report.filled_mask.and_then(MaskRow::only).map(forced),
    }
}

fn hidden(input: &ActivationRow) -> LogitsPayload {
    match input {
        ActivationRow::Quantized(row) => {
            LogitsPayload::HiddenQuantized { values: row.values.clone(), scales: row.scales.clone() }
        }
        ActivationRow::Float(row) => LogitsPayload::HiddenFloat { values: row.clone() },
    }
}

fn top_k(logits: &[f32], count: usize) -> LogitsPayload {
    let (ids, values) = best_tokens(logits, count).into_iter().map(|(token, value)| (token.0, value)).unzip();
    LogitsPayload::TopK { ids, values }
}

fn stop_reason(reason: &FinishReason) -> StopReason {
    match reason {
        FinishReason::EndToken(token) => StopReason::EndToken(token.0),
        FinishReason::StopToken(token) => StopReason::StopToken(token.0),
        FinishReason::StopString(text) => StopReason::StopString(text.clone()),
        FinishReason::MaxTokens => StopReason::MaxTokens,
        FinishReason::ContextFull => StopReason::ContextFull,
        FinishReason::GrammarEnd => StopReason::GrammarEnd,
        FinishReason::Failed(message) => StopReason::Failed(message.clone()),
        FinishReason::Cancelled => StopReason::Cancelled,
    }
}

fn param_source(source: Source) -> ParamSource {
    match source {
        Source::Client => ParamSource::Client,
        Source::ServerOverride => ParamSource::ServerOverride,
        Source::GenerationConfig => ParamSource::GenerationConfig,
        Source::ProtocolDefault => ParamSource::ProtocolDefault,
        Source::Generated => ParamSource::Generated,
    }
}
