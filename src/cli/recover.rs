//! `stepscope recover`: what is intact of a capture, as a whole one.

use std::path::PathBuf;

use anyhow::Context;

use super::{Outcome, output};
use crate::capture::{CaptureReader, recover};

/// Write every intact record of a damaged or unfinished capture to a fresh one.
///
/// The new capture passes `verify`, and its loss records say what is gone. The old file is left as it is.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status: 0 nothing was lost; 2 could not run; 3 recovered, with losses.

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
        for issue in reader.issues().iter() {
            writeln!(out, "in the old file: {issue}")?;
        }
        if recovery.repeated > 0 {
            writeln!(out, "left out: {} records that repeat or contradict an earlier one", recovery.repeated)?;
        }
        for loss in &recovery.losses {
            let messages = loss.messages.map_or("unknown number of".to_owned(), |messages| messages.to_string());
            writeln!(out, "lost: {messages} messages of `{}` ({})", loss.channel, loss.reason)?;
        }
        Ok(())
    })?;
    Ok(if recovery.losses.is_empty() { Outcome::Clean } else { Outcome::Missing })
}
