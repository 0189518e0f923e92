//! `stepscope pack`: a capture as one file to attach to a report, without what is nobody's business.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use serde_json::json;

use super::{Outcome, output};
use crate::capture::records::{FORMAT_VERSION, Header};
use crate::capture::{CaptureReader, Packed, Redact, pack};
use crate::hash::Labelled;

/// Write a capture as one file to give away, in today's format, without prompts or outputs if asked
///
/// A capture holds all that replay needs but the model, whose hashes are in it. A packed one has nothing else: no attachments, no channels
/// that the format does not know.
///
/// With --redact the numbers of every step stay, so that `correlate` finds the same conditions: lengths, places, states, ranks, margins, who
/// was accepted. Tokens become hashes with a salt that nobody keeps; at one position of one answer equal tokens stay equal, so that
/// `replay` can still tell a draft that was accepted from one that was not, and two positions say nothing of each other. `replay`
/// says of every check that needs more that it cannot be made, and exits 3.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
--redact prompts: bodies, prompts and their tokens, schemas and grammars, client ids, owners, parameters with texts or tokens, warnings, \
errors; and drafts that were not accepted, which are often copies of a prompt.
--redact outputs: texts, tool calls, and tokens, whether emitted, drafted, forced or the best of a row. Prompts stay, and those of a \
conversation quote earlier answers.
--redact all: both.
Whatever is asked for, these go, too, for they tell of both: masks, logits rows and what they are recomputed from, sketches, checksums, \
words of events, losses and failures, stop strings, names of models and files, settings with texts.

What stays can confirm a guess, though it cannot be read: whoever has the model and all of a text but a few characters can \
compute a row's maximum or margin for each way to fill them in.

The old capture has to be whole: `recover` comes first for one that was cut or damaged.

--json prints one object: path, file_bytes, from_version, format_version, channels (each topic, messages, bytes), redactions (each field, \
how), model_hashes (what the receiver needs), findings, missing.

Exit status: 0 packed; 1 `verify` finds something in the new capture; 2 could not run; 3 packed, but something is missing, as it was \
before.

Example: stepscope pack C.mcap --out P.mcap --redact all")]
pub struct Options {
    /// The capture.
    capture: PathBuf,
    /// The capture to write; it must not exist.
    #[arg(long, value_name = "P.mcap")]
    out: PathBuf,
    /// What to take out.
    #[arg(long, value_name = "WHAT")]
    redact: Option<Redaction>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// What can be taken out.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Redaction {
    /// What clients sent.
    Prompts,
    /// What came back.
    Outputs,
    /// Both.
    All,
}

/// Runs the command.
///
/// # Errors
/// When the capture is not whole, or the new one cannot be written.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let reader = CaptureReader::open(&options.capture)?;
    let redact = options.redact.map(|redact| match redact {
        Redaction::Prompts => Redact::Prompts,
        Redaction::Outputs => Redact::Outputs,
        Redaction::All => Redact::All,
    });
    let packed = pack(&reader, &options.out, redact)
        .with_context(|| format!("cannot pack {} to {}", options.capture.display(), options.out.display()))?;
    output::to_stdout(|out| match options.json {
        true => Ok(writeln!(out, "{:#}", json_of(&packed, reader.header()))?),
        false => text(out, &packed, reader.header()),
    })?;
    for finding in &packed.verification.findings {
        eprintln!("finding in the new capture: {finding}");
    }
    Ok(super::verify::outcome(&packed.verification))
}

fn text(out: &mut dyn std::io::Write, packed: &Packed, header: &Header) -> anyhow::Result<()> {
    let written = &packed.written;
    writeln!(out, "{}: {} bytes", written.path.display(), written.file_bytes)?;
    if packed.from_version != FORMAT_VERSION {
        writeln!(out, "  format {FORMAT_VERSION}, from {}", packed.from_version)?;
    }
    for channel in &written.channels {
        writeln!(out, "  {:<8} {:>10} messages {:>14} bytes", channel.topic.name(), channel.messages, channel.bytes)?;
    }
    for how in ["omitted", "hashed"] {
        let fields: Vec<&str> = packed
            .redactions
            .iter()
            .filter(|redaction| redaction.how == how)
            .map(|redaction| redaction.field.as_str())
            .collect();
        if !fields.is_empty() {
            writeln!(out, "{how}: {}", fields.join(", "))?;
        }
    }
    for missing in &packed.verification.missing {
        writeln!(out, "missing: {missing}")?;
    }
    for hash in model_hashes(header) {
        writeln!(out, "to replay all of it: the model of {hash}")?;
    }
    Ok(())
}

fn json_of(packed: &Packed, header: &Header) -> serde_json::Value {
    let channels =
        packed.written.channels.iter().map(
            |channel| json!({"topic": channel.topic.name(), "messages": channel.messages, "bytes": channel.bytes}),
        );
    let redactions = packed.redactions.iter().map(|redaction| json!({"field": redaction.field, "how": redaction.how}));
    json!({
        "path": packed.written.path.display().to_string(),
        "file_bytes": packed.written.file_bytes,
        "from_version": packed.from_version,
        "format_version": FORMAT_VERSION,
        "channels": channels.collect::<Vec<_>>(),
        "redactions": redactions.collect::<Vec<_>>(),
        "model_hashes": model_hashes(header),
        "findings": packed.verification.findings,
        "missing": packed.verification.missing,
    })
}

/// What the receiver has to have.
fn model_hashes(header: &Header) -> Vec<String> {
    let hashes = header.model.iter().flat_map(|model| &model.hashes);
    hashes.map(|hash| format!("{} {}", hash.algorithm(), hash.hex())).collect()
}
