//! A record as one dense line that is easy to grep.

use std::fmt::{Display, Write as _};

use crate::capture::Record;
use crate::capture::records::{
    Header, LogitsPayload, LogitsRecord, RequestRecord, RowRecord, StepPath, StepRecord, StopReason,
};

/// Longest text that is shown of prompts, outputs and messages, in characters.
const TEXT: usize = 120;

/// The line of a record that was recorded `since_start` nanoseconds after the capture's beginning.
pub(super) fn line(record: &Record, since_start: u64) -> String {
    let mut line = Line(format!("{:<7} t={:.6}", record.topic().name(), since_start as f64 / 1e9));
    match record {
        Record::Header(header) => line.header(header),
        Record::Request(request) => line.request(request),
        Record::Step(step) => line.step(step),
        Record::Mask(mask) => {
            line.pair("hash", blake3::Hash::from_bytes(mask.hash).to_hex());
            line.pair("tokens", mask.tokens);
            line.pair("allowed", mask.bits.iter().map(|byte| byte.count_ones()).sum::<u32>());
        }
        Record::Logits(logits) => line.logits(logits),
        Record::Sketch(sketch) => {
            line.place(sketch.step, sketch.request, sketch.choice);
            line.pair("row", sketch.row);
            line.known("layer", sketch.layer);
            line.text("operation", &sketch.operation);
            line.pair("values", list(&sketch.values));
        }
        Record::Event(event) => {
            line.text("kind", &event.kind);
            line.known("step", event.step);
            line.known("request", event.request);
            line.known("choice", event.choice);
            line.text("message", &event.message);
        }
        Record::Loss(loss) => {
            line.pair("channel", &loss.channel);
            line.known("messages", loss.messages);
            line.known("bytes", loss.bytes);
            line.known("steps", loss.steps.map(|(first, last)| format!("{first}-{last}")));
            line.text("reason", &loss.reason);
        }
        Record::Columns(columns) => {
            line.pair("first", columns.first);
            line.pair("steps", columns.steps);
            line.pair("bytes", columns.batch.len());
        }
    }
    line.0
}

struct Line(String);

impl Line {
    fn pair(&mut self, name: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, " {name}={value}");
    }

    fn known(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.pair(name, value);
        }
    }

    /// Quoted, so that a text from the file cannot fake another line or move the terminal's cursor.
    fn text(&mut self, name: &str, text: &str) {
        let shown: String = text.chars().take(TEXT).collect();
        let more = if shown.len() < text.len() { "..." } else { "" };
        self.pair(name, format_args!("{shown:?}{more}"));
    }

    fn place(&mut self, step: u64, request: u64, choice: u32) {
        self.pair("step", step);
        self.pair("seq", format_args!("{request}.{choice}"));
    }

    fn header(&mut self, header: &Header) {
        self.text("recorder", &format!("{} {}", header.recorder.name, header.recorder.version));
        self.pair("format", header.format_version);
        self.text("semantics", &header.sampler_semantics);
        self.known("arith", header.arithmetic_version);
        if let Some(model) = &header.model {
            self.text("model", &model.name);
        }
    }

    fn request(&mut self, record: &RequestRecord) {
        match record {
            RequestRecord::Admitted(admission) => {
                self.pair("request", admission.request);
                self.pair("admitted", format_args!("{} prompt tokens", admission.prompt_tokens.len()));
                self.pair("choices", admission.choices);
                if let Some(id) = &admission.client_id {
                    self.text("client_id", id);
                }
                for field in admission.params.iter().flatten() {
                    self.text(&field.name, &field.value);
                }
                if let Some(prompt) = &admission.prompt_text {
                    self.text("prompt", prompt);
                }
                for warning in &admission.warnings {
                    self.text("warning", warning);
                }
            }
            RequestRecord::Refused(refusal) => {
                self.pair("request", refusal.request);
                if let Some(id) = &refusal.client_id {
                    self.text("client_id", id);
                }
                self.text("refused", &refusal.error);
            }
            RequestRecord::Finished(end) => {
                self.pair("seq", format_args!("{}.{}", end.request, end.choice));
                self.pair("finished", format_args!("{} tokens", end.emitted_tokens));
                if let Some(stop) = &end.stop {
                    self.stop(stop);
                }
                if let Some(text) = &end.text {
                    self.text("text", text);
                }
            }
        }
    }

    fn step(&mut self, step: &StepRecord) {
        self.place(step.step, step.request, step.choice);
        self.known(
            "path",
            step.path.map(|path| match path {
                StepPath::Prefill => "prefill",
                StepPath::Decode => "decode",
                StepPath::Verify => "verify",
            }),
        );
        self.pair("pos", step.first_position);
        self.known("q_len", step.q_len);
        self.known("prev_accepted", step.prev_accepted);
        if let Some(batch) = &step.batch {
            self.pair("slot", format_args!("{}/{}", batch.slot, batch.neighbours.len() + 1));
        }
        self.known("cached", step.cached_prefix);
        self.known("state", step.state.map(|state| format!("{}:{}", state.slot, state.column)));
        if !step.drafts.is_empty() {
            self.pair("drafts", list(&step.drafts));
        }
        self.pair("emitted", list(&step.emitted));
        self.known("bonus", step.bonus);
        if let Some(stop) = &step.stop {
            self.stop(stop);
        }
        self.known("forward_us", step.timings.map(|timings| timings.forward_ns / 1_000));
        for (index, row) in step.rows.iter().enumerate() {
            self.row(index, row);
        }
    }

    fn row(&mut self, index: usize, row: &RowRecord) {
        let _ = write!(self.0, " | row {index}");
        self.known("token", row.token);
        if let Some(statistics) = &row.statistics {
            self.pair("argmax", statistics.argmax.map_or("none".to_owned(), |argmax| argmax.to_string()));
            self.pair("max", statistics.maximum);
            self.pair("lse", statistics.log_sum_exp);
            for (name, count) in [
                ("nan", statistics.nan_count),
                ("+inf", statistics.positive_infinity_count),
                ("-inf", statistics.negative_infinity_count),
            ] {
                self.known(name, (count > 0).then_some(count));
            }
            self.pair("sum", format_args!("{:016x}", statistics.checksum));
        }
        self.known("rank", row.rank);
        self.known("margin", row.margin);
        self.known("logprob", row.logprob);
        self.known("allowed", row.mask_population);
    }

    fn logits(&mut self, record: &LogitsRecord) {
        self.place(record.step, record.request, record.choice);
        self.pair("row", record.row);
        match &record.payload {
            LogitsPayload::HiddenQuantized { values, .. } => self.pair("hidden_quantized", values.len()),
            LogitsPayload::HiddenFloat { values } => self.pair("hidden_float", values.len()),
            LogitsPayload::Full { length, bytes } => {
                self.pair("full", length);
                self.pair("bytes", bytes.len());
            }
            LogitsPayload::TopK { ids, values } => {
                self.pair("ids", list(ids));
                self.pair("values", list(values));
            }
        }
    }

    fn stop(&mut self, stop: &StopReason) {
        match stop {
            StopReason::EndToken(token) => self.pair("stop", format_args!("end_token:{token}")),
            StopReason::StopToken(token) => self.pair("stop", format_args!("stop_token:{token}")),
            StopReason::StopString(string) => self.text("stop", string),
            StopReason::MaxTokens => self.pair("stop", "max_tokens"),
            StopReason::ContextFull => self.pair("stop", "context_full"),
            StopReason::GrammarEnd => self.pair("stop", "grammar_end"),
            StopReason::Failed(error) => self.text("failed", error),
            StopReason::Cancelled => self.pair("stop", "cancelled"),
        }
    }
}

fn list(values: &[impl Display]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    format!("[{}]", values.join(","))
}
