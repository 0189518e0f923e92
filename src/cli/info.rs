//! `stepscope info`: what made a capture, and what it holds.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Outcome, output};
use crate::capture::{CaptureReader, ChannelTotals};
use crate::forensics::report::{Fact, Recorded, guarantees, made_by};

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

/// Runs the command.
///
/// # Errors
/// When the file cannot be read at all.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let reader = CaptureReader::open(&options.capture)?;
    let recorded = Recorded::read(&reader)?;
    output::to_stdout(|out| if options.json { print_json(&recorded, out) } else { print(&recorded, out) })?;
    Ok(outcome(&recorded))
}

fn outcome(recorded: &Recorded<'_>) -> Outcome {
    let something_missing = recorded.survey.channels.values().any(|totals| totals.missing > 0);
    if recorded.issues().any(|issue| !issue.kind.is_missing_data()) {
        Outcome::Findings
    } else if !recorded.reader.issues().is_empty() || !recorded.losses.is_empty() || something_missing {
        Outcome::Missing
    } else {
        Outcome::Clean
    }
}

fn print(recorded: &Recorded<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let header = recorded.reader.header();
    let line = |out: &mut dyn Write, name: &str, value: &str| writeln!(out, "{name:<14} {value}");
    let facts = |out: &mut dyn Write, facts: &[Fact]| -> std::io::Result<()> {
        for fact in facts {
            for (index, value) in fact.lines.iter().enumerate() {
                line(out, if index == 0 { fact.name } else { "" }, value)?;
            }
        }
        Ok(())
    };
    line(out, "capture", &recorded.file())?;
    facts(out, &made_by(header))?;
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
    facts(out, &recorded.counts())?;
    for loss in recorded.losses_in_words() {
        line(out, "lost", &loss)?;
    }
    for issue in recorded.issues() {
        line(out, "issue", &issue.to_string())?;
    }
    for (index, guarantee) in guarantees(header).iter().enumerate() {
        line(out, if index == 0 { "guarantees" } else { "" }, guarantee)?;
    }
    Ok(())
}

fn print_json(recorded: &Recorded<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let header = recorded.reader.header();
    let mut value = serde_json::to_value(header)?;
    let channels: BTreeMap<&str, Value> = recorded
        .survey
        .channels
        .iter()
        .map(|(topic, totals)| {
            let ChannelTotals { messages, bytes, missing } = *totals;
            (topic.name(), json!({ "messages": messages, "bytes": bytes, "missing": missing }))
        })
        .collect();
    let issues: Vec<String> = recorded.issues().map(ToString::to_string).collect();
    if let Value::Object(object) = &mut value {
        object.insert("file_bytes".to_owned(), json!(recorded.file_bytes));
        object.insert("finished".to_owned(), json!(recorded.reader.is_finished()));
        object.insert("requests".to_owned(), json!(recorded.requests));
        object.insert("channels".to_owned(), json!(channels));
        object.insert("losses".to_owned(), serde_json::to_value(&recorded.losses)?);
        object.insert("issues".to_owned(), json!(issues));
        object.insert("guarantees".to_owned(), json!(guarantees(header)));
    }
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)?;
    Ok(())
}
