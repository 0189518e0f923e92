//! `stepscope verify`: is a capture whole?

use std::io::Write;
use std::path::PathBuf;

use super::{Outcome, output};
use crate::capture::{CaptureReader, Verification, verify};

/// Check that a capture is whole: CRCs, structure, every record, and that records agree with each other.
///
/// What was decided is not judged here (`replay` does that), only whether the recording can be trusted to say it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status: 0 whole; 1 damaged or contradictory; 2 unreadable; 3 undamaged, but the recording was cut or says itself \
that something is missing.

Example: stepscope verify C.mcap")]
pub struct Options {
    /// The capture; a growing or abandoned `.mcap.partial` can be read too.
    capture: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the file cannot be read at all.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let reader = CaptureReader::open(&options.capture)?;
    let found = verify(&reader)?;
    output::to_stdout(|out| print(&found, &options.capture, out))?;
    Ok(outcome(&found))
}

/// What verification comes to.
pub(super) fn outcome(found: &Verification) -> Outcome {
    match found {
        Verification { findings, .. } if !findings.is_empty() => Outcome::Findings,
        Verification { missing, .. } if !missing.is_empty() => Outcome::Missing,
        _ => Outcome::Clean,
    }
}

fn print(found: &Verification, capture: &std::path::Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let (chunks, with_crc) = found.chunks;
    let messages: u64 = found.channels.values().map(|totals| totals.messages).sum();
    writeln!(out, "{}: {messages} messages decoded; {chunks} chunks, {with_crc} with CRC", capture.display())?;
    for (topic, totals) in &found.channels {
        writeln!(out, "  {:<8} {:>10} messages {:>14} bytes", topic.name(), totals.messages, totals.bytes)?;
    }
    let rows = &found.rows;
    writeln!(
        out,
        "  rows     {:>10}; {} with checksum, {} with payload; {} whole rows summed again and compared",
        rows.rows, rows.checksums, rows.payloads, rows.compared
    )?;
    if !found.sections.is_empty() {
        writeln!(out, "  section CRCs compared: {}", found.sections.join(", "))?;
    }
    for finding in &found.findings {
        writeln!(out, "finding: {finding}")?;
    }
    for missing in &found.missing {
        writeln!(out, "missing: {missing}")?;
    }
    let findings = found.findings.len() as u64 + found.more_findings;
    let missing = found.missing.len() as u64 + found.more_missing;
    if found.more_findings + found.more_missing > 0 {
        let (findings, missing) = (found.more_findings, found.more_missing);
        writeln!(out, "not told one by one: {findings} more findings, {missing} more things missing")?;
    }
    match (findings, missing) {
        (0, 0) => writeln!(out, "whole: no findings, nothing missing")?,
        (findings, missing) => writeln!(out, "findings: {findings}; missing: {missing}")?,
    }
    Ok(())
}
