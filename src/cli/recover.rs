//! `stepscope recover`: what is intact of a capture, as a whole one.

use std::path::PathBuf;

use anyhow::Context;

use super::{Outcome, output};
use crate::capture::{CaptureReader, recover};

/// Write every intact record of a damaged or unfinished capture to a fresh one.
///
/// The new capture passes `verify`, which is checked when it is written, and its loss records say what is gone. A record
/// that contradicts itself or an earlier one counts as gone; one that only repeats an earlier one does not. The old file
/// is left as it is.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status: 0 recovered, and nothing is missing; 1 `verify` finds something in the new capture (a defect of stepscope); \
2 could not run; 3 recovered, but something is missing, now or when it was recorded.

Example: stepscope recover C.mcap.partial --out D.mcap")]
pub struct Options {
    /// The capture to recover from.
    capture: PathBuf,
    /// The capture to write; it must not exist.
    #[arg(long, value_name = "D.mcap")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the file cannot be read at all, or the new one not written.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let reader = CaptureReader::open(&options.capture)?;
    let recovery = recover(&reader, &options.out)
        .with_context(|| format!("cannot recover {} to {}", options.capture.display(), options.out.display()))?;
    output::to_stdout(|out| {
        let written = &recovery.written;
        writeln!(out, "{}: {} bytes", written.path.display(), written.file_bytes)?;
        for channel in &written.channels {
            let (topic, messages, bytes) = (channel.topic.name(), channel.messages, channel.bytes);
            writeln!(out, "  {topic:<8} {messages:>10} messages {bytes:>14} bytes")?;
        }
        for issue in recovery.issues.iter() {
            writeln!(out, "in the old file: {issue}")?;
        }
        if recovery.repeated > 0 {
            writeln!(out, "left out: {} records that repeat an earlier one", recovery.repeated)?;
        }
        for missing in &recovery.verification.missing {
            writeln!(out, "missing: {missing}")?;
        }
        Ok(())
    })?;
    for finding in &recovery.verification.findings {
        eprintln!("finding in the new capture, please report this as a defect: {finding}");
    }
    Ok(super::verify::outcome(&recovery.verification))
}
