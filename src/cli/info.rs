//! `stepscope info`: what made a capture, and what it holds.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Outcome, output};
use crate::capture::records::{Header, LabelledHash, LogitsTier, LossRecord};
use crate::capture::{CaptureError, CaptureReader, ChannelTotals, Issue, Survey};

/// Say what made a capture, under which configuration, and what it holds.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status: 0 undamaged, and nothing is missing; 1 bytes are damaged, or records that opening reads contradict each other; \
2 unreadable; 3 undamaged, but something is missing. Every chunk and CRC is checked; what each record says is not: \
`stepscope verify` does that.

Example: stepscope info C.mcap --json | jq .configuration")]
pub struct Options {
    /// The capture.
    capture: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is printed.
struct Summary<'a> {
    reader: &'a CaptureReader,
    survey: Survey,
    losses: Vec<LossRecord>,
    requests: usize,
    file_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// When the file cannot be read at all.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let reader = CaptureReader::open(&options.capture)?;
    let summary = Summary {
        survey: reader.survey()?,
        losses: losses(&reader)?,
        requests: reader.requests().count(),
        file_bytes: std::fs::metadata(&options.capture)?.len(),
        reader: &reader,
    };
    output::to_stdout(|out| if options.json { summary.print_json(out) } else { summary.print(out) })?;
    Ok(summary.outcome())
}

/// The loss records that can be read; of others an issue tells.
fn losses(reader: &CaptureReader) -> Result<Vec<LossRecord>, CaptureError> {
    reader.losses().filter(|loss| !matches!(loss, Err(CaptureError::Message { .. }))).collect()
}

impl Summary<'_> {
    /// What is wrong, as far as it is told one by one.
    fn issues(&self) -> impl Iterator<Item = &Issue> {
        self.reader.issues().iter().chain(self.survey.damage.iter())
    }

    fn outcome(&self) -> Outcome {
        let something_missing = self.survey.channels.values().any(|totals| totals.missing > 0);
        if self.issues().any(|issue| !issue.kind.is_missing_data()) {
            Outcome::Findings
        } else if !self.reader.issues().is_empty() || !self.losses.is_empty() || something_missing {
            Outcome::Missing
        } else {
            Outcome::Clean
        }
    }

    fn print(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let header = self.reader.header();
        let line = |out: &mut dyn Write, name: &str, value: &str| writeln!(out, "{name:<14} {value}");
        let state = if self.reader.is_finished() { "finished" } else { "not finished" };
        line(out, "capture", &format!("{} ({} bytes, {state})", self.reader.path().display(), self.file_bytes))?;
        let recorder = &header.recorder;
        let build = recorder.build.as_ref().map_or(String::new(), |build| format!(" ({build})"));
        line(
            out,
            "recorder",
            &format!("{} {}{build}, format {}", recorder.name, recorder.version, header.format_version),
        )?;
        let arithmetic = header.arithmetic_version.map_or("unknown".to_owned(), |version| format!("arith {version}"));
        line(out, "rules", &format!("sampling as {}, arithmetic {arithmetic}", header.sampler_semantics))?;
        print_model(header, out)?;
        print_device(header, out)?;
        line(out, "logits tier", tier_name(header.logits_tier))?;
        if !header.components.is_empty() {
            let components: Vec<String> =
                header.components.iter().map(|component| format!("{} {}", component.name, component.version)).collect();
            line(out, "components", &components.join(", "))?;
        }
        for (index, setting) in header.configuration.iter().enumerate() {
            let source = setting.source.as_deref().unwrap_or("source unknown");
            let name = if index == 0 { "configuration" } else { "" };
            line(out, name, &format!("{} = {}  ({source})", setting.name, setting.value))?;
        }
        let faults = if header.faults.is_empty() { "none".to_owned() } else { header.faults.join(", ") };
        line(out, "planted faults", &faults)?;
        for redaction in &header.redactions {
            line(out, "redacted", &format!("{} ({})", redaction.field, redaction.how))?;
        }
        line(out, "requests", &self.requests.to_string())?;
        for (topic, totals) in &self.survey.channels {
            let missing = if totals.missing > 0 { format!("; {} missing", totals.missing) } else { String::new() };
            let (messages, bytes) = (totals.messages, totals.bytes);
            line(out, topic.name(), &format!("{messages} messages, {bytes} bytes before compression{missing}"))?;
        }
        for loss in &self.losses {
            let messages = loss.messages.map_or("?".to_owned(), |messages| messages.to_string());
            line(out, "lost", &format!("{messages} of `{}`: {}", loss.channel, loss.reason))?;
        }
        for issue in self.issues() {
            line(out, "issue", &issue.to_string())?;
        }
        for (index, guarantee) in guarantees(header).iter().enumerate() {
            line(out, if index == 0 { "guarantees" } else { "" }, guarantee)?;
        }
        Ok(())
    }

    fn print_json(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let header = self.reader.header();
        let mut value = serde_json::to_value(header)?;
        let channels: BTreeMap<&str, Value> = self
            .survey
            .channels
            .iter()
            .map(|(topic, totals)| {
                let ChannelTotals { messages, bytes, missing } = *totals;
                (topic.name(), json!({ "messages": messages, "bytes": bytes, "missing": missing }))
            })
            .collect();
        let issues: Vec<String> = self.issues().map(ToString::to_string).collect();
        if let Value::Object(object) = &mut value {
            object.insert("file_bytes".to_owned(), json!(self.file_bytes));
            object.insert("finished".to_owned(), json!(self.reader.is_finished()));
            object.insert("requests".to_owned(), json!(self.requests));
            object.insert("channels".to_owned(), json!(channels));
            object.insert("losses".to_owned(), serde_json::to_value(&self.losses)?);
            object.insert("issues".to_owned(), json!(issues));
            object.insert("guarantees".to_owned(), json!(guarantees(header)));
        }
        serde_json::to_writer_pretty(&mut *out, &value)?;
        writeln!(out)?;
        Ok(())
    }
}

fn print_model(header: &Header, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(model) = &header.model else {
        writeln!(out, "{:<14} unknown", "model")?;
        return Ok(());
    };
    let architecture = model.architecture.as_deref().unwrap_or("architecture unknown");
    let vocabulary = model.vocabulary_size.map_or("?".to_owned(), |size| size.to_string());
    let bytes = model.file_bytes.map_or("?".to_owned(), |bytes| bytes.to_string());
    writeln!(out, "{:<14} {} ({architecture}, vocabulary {vocabulary}, {bytes} bytes)", "model", model.name)?;
    let hashes = [
        ("weights", &model.hashes),
        ("tokenizer", &model.tokenizer_hashes),
        ("chat template", &model.chat_template_hashes),
    ];
    for (what, hashes) in hashes {
        for LabelledHash { algorithm, hex } in hashes {
            writeln!(out, "{:<14} {what} {algorithm} {hex}", "")?;
        }
    }
    Ok(())
}

fn print_device(header: &Header, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(device) = &header.device else {
        writeln!(out, "{:<14} unknown", "device")?;
        return Ok(());
    };
    let name = device.name.as_deref().unwrap_or("name unknown");
    let isa = device.isa.as_deref().unwrap_or("isa unknown");
    let threads = device.threads.map_or("?".to_owned(), |threads| threads.to_string());
    writeln!(out, "{:<14} {}, {name}, {isa}, {threads} threads", "device", device.backend)?;
    for kernel in &device.kernels {
        let hashes: Vec<String> = kernel.hashes.iter().map(|hash| format!("{} {}", hash.algorithm, hash.hex)).collect();
        writeln!(out, "{:<14} kernels {} {}", "", kernel.name, hashes.join(", "))?;
    }
    Ok(())
}

fn tier_name(tier: LogitsTier) -> &'static str {
    match tier {
        LogitsTier::Hidden => "hidden: what the LM head read, from which each row is recomputed",
        LogitsTier::Full => "full: each row itself",
        LogitsTier::TopK => "topk: the best ids and values of each row",
        LogitsTier::Off => "off: statistics only",
    }
}

/// What replay can promise from such a capture, before it looks at this machine.
fn guarantees(header: &Header) -> Vec<&'static str> {
    let has_arithmetic = header.arithmetic_version.is_some();
    let mut words = vec![match (header.logits_tier, has_arithmetic) {
        (LogitsTier::Full, _) => "logits rows: recorded, bit for bit",
        (LogitsTier::Hidden, true) => {
            "logits rows: recomputed from what the head read, bit for bit, with the model at hand"
        }
        (LogitsTier::Hidden, false) => "logits rows: recomputed from what the head read, within a tolerance",
        (LogitsTier::TopK, _) => "logits rows: the best values only; what lies below them cannot be checked",
        (LogitsTier::Off, true) => "logits rows: only by running the model again, then bit for bit by checksum",
        (LogitsTier::Off, false) => "logits rows: none; only statistics, as far as recorded",
    }];
    words.push(if has_arithmetic {
        "forward pass: repeatable bit for bit on any machine, by the arithmetic contract"
    } else {
        "forward pass: repeatable within a tolerance at best; the engine's arithmetic is not defined"
    });
    words.push(if header.sampler_semantics == "stepscope" {
        "sampling: each token follows from its row, the parameters and the seed"
    } else {
        "sampling: foreign rules; whether a token was possible can be checked, and greedy ones exactly"
    });
    if !header.redactions.is_empty() {
        words.push("redacted fields: what depends on them cannot be checked");
    }
    words
}
