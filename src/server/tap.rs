//! The server's tap: what clients are told of a step, what the metrics count, and the recorder behind both.

use std::sync::Arc;

use super::metrics::Metrics;
use super::recorder::Recorder;
use super::watch::Watch;
use crate::engine::logprobs::TokenLogprobs;
use crate::engine::{AdmittedReport, EventReport, FinishedReport, RefusedReport, StepReport, Tap};
use crate::types::{SequenceId, TokenId};

/// What a step brought for one sequence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Its choice.
    pub choice: u32,
    /// Tokens that it emitted.
    pub tokens: Vec<TokenId>,
    /// Text that is certain since then.
    pub text: String,
    /// What the client asked to be told of the tokens.
    pub logprobs: Vec<TokenLogprobs>,
    /// Whether the sequence ended.
    pub is_last: bool,
}

/// Listens to the engine for the server.
pub struct ServerTap {
    recorder: Option<Recorder>,
    /// Looks for reasons to take a capture; `None` where nothing is kept to be taken.
    watch: Option<Watch>,
    metrics: Arc<Metrics>,
    pieces: Vec<(SequenceId, Piece)>,
}

impl ServerTap {
    /// A tap that records, if there is a recorder, and counts.
    pub fn new(recorder: Option<Recorder>, metrics: Arc<Metrics>) -> Self {
        let watch = matches!(recorder, Some(Recorder::Ring(_))).then(Watch::default);
        Self { recorder, watch, metrics, pieces: Vec::new() }
    }

    /// What looks for reasons to take a capture.
    pub(super) fn watch(&mut self) -> Option<&mut Watch> {
        self.watch.as_mut()
    }

    /// The recorder, if one records.
    pub(super) fn recorder(&mut self) -> &mut Option<Recorder> {
        &mut self.recorder
    }

    /// What the steps since the last call brought, in order.
    pub(super) fn take_pieces(&mut self) -> Vec<(SequenceId, Piece)> {
        std::mem::take(&mut self.pieces)
    }
}

impl Tap for ServerTap {
    fn admitted(&mut self, report: &AdmittedReport<'_>) {
        self.metrics.prompt_tokens.add(report.submission.prompt.tokens.len() as u64);
        if let Some(recorder) = &mut self.recorder {
            recorder.tap().admitted(report);
        }
    }

    fn refused(&mut self, report: &RefusedReport<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.tap().refused(report);
        }
    }

    fn step(&mut self, report: &StepReport<'_>) {
        self.metrics.step(report);
        if !report.emitted.is_empty() || !report.text.is_empty() {
            let piece = Piece {
                choice: report.sequence.choice.0,
                tokens: report.emitted.to_vec(),
                text: report.text.to_owned(),
                logprobs: report.rows.iter().filter_map(|row| row.logprobs.cloned()).collect(),
                is_last: report.stop.is_some(),
            };
            self.pieces.push((report.sequence, piece));
        }
        if let Some(watch) = &mut self.watch {
            watch.step(report);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.tap().step(report);
        }
    }

    fn finished(&mut self, report: &FinishedReport<'_>) {
        self.metrics.finished(report.reason);
        if let Some(watch) = &mut self.watch {
            watch.finished(report);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.tap().finished(report);
        }
    }

    fn event(&mut self, report: &EventReport<'_>) {
        self.metrics.events.add(1);
        tracing::warn!(event = report.kind.name(), request = report.sequence.request.0, "{}", report.message);
        if let Some(watch) = &mut self.watch {
            watch.event(report);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.tap().event(report);
        }
    }
}
