//! What a run came to.

use std::collections::BTreeMap;
use std::time::Duration;

use std::io::Write;

use serde::Serialize;

use super::Submitted;
use super::notices::Notice;
use crate::capture::WriteSummary;
use crate::cli::Outcome;
use crate::cli::output::to_stdout;
use crate::engine::FinishedChoice;
use crate::types::{FinishReason, RequestId};

/// The figures of a run.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Summary {
    /// Lines of the request file.
    requests: usize,
    /// Of them refused before they ran.
    refused: usize,
    /// Of them failed while they ran.
    failed: usize,
    /// Tokens of all prompts.
    prompt_tokens: u64,
    /// Tokens emitted.
    tokens: u64,
    /// Steps of the engine.
    steps: u64,
    /// Logits rows.
    pub(in crate::cli) rows: u64,
    /// From the first step to the last.
    pub(in crate::cli) seconds: f64,
    /// The capture.
    capture: String,
    /// Its length.
    pub(in crate::cli) capture_bytes: u64,
    /// Its length over its rows; `None` without rows.
    bytes_per_row: Option<f64>,
    /// Payloads that were dropped.
    dropped_payloads: u64,
    /// Why requests were refused.
    refusals: Vec<Notice>,
    /// Why requests failed.
    failures: Vec<Notice>,
    /// What is worth a warning of requests that ran.
    warnings: Vec<Notice>,
}

impl Summary {
    pub(super) fn new(
        submitted: &[Submitted],
        finished: &BTreeMap<RequestId, Vec<FinishedChoice>>,
        steps: u64,
        rows: u64,
        time: Duration,
    ) -> Self {
        let failure = |line: &Submitted| {
            let choices = finished.get(&line.request?)?;
            let message = choices.iter().find_map(|choice| match &choice.reason {
                FinishReason::Failed(message) => Some(message),
                _ => None,
            })?;
            Some(line.notice(None, format!("line {}: {message}", line.output.line)))
        };
        let failures: Vec<Notice> = submitted.iter().filter_map(failure).collect();
        Self {
            requests: submitted.len(),
            refused: submitted.iter().filter(|line| line.request.is_none()).count(),
            failed: failures.len(),
            prompt_tokens: submitted.iter().map(|line| u64::from(line.output.prompt_tokens())).sum(),
            tokens: finished.values().flatten().map(|choice| choice.tokens.len() as u64).sum(),
            steps,
            rows,
            seconds: time.as_secs_f64(),
            capture: String::new(),
            capture_bytes: 0,
            bytes_per_row: None,
            dropped_payloads: 0,
            refusals: submitted.iter().filter_map(Submitted::refusal).collect(),
            failures,
            warnings: submitted.iter().flat_map(Submitted::warnings).collect(),
        }
    }

    /// Adds what the capture came to.
    pub fn set_capture(&mut self, written: &WriteSummary) {
        self.capture = written.path.display().to_string();
        self.capture_bytes = written.file_bytes;
        self.bytes_per_row = (self.rows > 0).then(|| written.file_bytes as f64 / self.rows as f64);
        self.dropped_payloads = written.dropped;
    }

    /// Prints it, for people or for machines; failures go to stderr too, where refusals and warnings are already.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        for failure in &self.failures {
            eprintln!("failed: {}", failure.message);
        }
        to_stdout(|out| if json { Ok(writeln!(out, "{}", serde_json::to_string(self)?)?) } else { self.write(out) })
    }

    fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let Self { requests, refused, failed, prompt_tokens, tokens, steps, rows, seconds, .. } = self;
        writeln!(out, "requests   {requests}, of which {refused} refused and {failed} failed")?;
        writeln!(out, "tokens     {tokens} emitted, {prompt_tokens} of prompts")?;
        writeln!(out, "steps      {steps}, with {rows} logits rows, in {seconds:.2} s")?;
        let per_row = self.bytes_per_row.map(|bytes| format!(", {bytes:.0} bytes per row")).unwrap_or_default();
        writeln!(out, "capture    {}: {} bytes{per_row}", self.capture, self.capture_bytes)?;
        if !self.warnings.is_empty() {
            writeln!(out, "warnings   {}, told on stderr", self.warnings.len())?;
        }
        if self.dropped_payloads > 0 {
            writeln!(out, "dropped    {} payloads, each accounted for in the capture", self.dropped_payloads)?;
        }
        Ok(())
    }

    /// Why requests were not answered, each with its line in the request file: they were refused, or failed while they ran.
    pub(in crate::cli) fn not_answered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.refusals.iter().chain(&self.failures).map(|notice| (notice.line, notice.message.as_str()))
    }

    /// How the command ended.
    pub fn outcome(&self) -> Outcome {
        match (self.refused + self.failed, self.dropped_payloads) {
            (0, 0) => Outcome::Clean,
            (0, _) => Outcome::Missing,
            _ => Outcome::Findings,
        }
    }
}
