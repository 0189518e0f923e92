//! `stepscope diff`: where do two captures part, and why?

use std::path::PathBuf;

use super::Outcome;
use super::output::to_stdout;
use crate::capture::CaptureReader;
use crate::forensics::diff::{Capture, diff, render};
use crate::replay::CaptureRecording;

/// Say where two captures of the same requests part, and which recorded condition differs first
///
/// Requests are matched by the id that their client gave them, and those whose id is not in both captures by number and prompt. Of
/// each, the first token that differs is told, with both steps side by side; and the first recorded condition that differs, which may
/// come sooner: what was scheduled, what the grammar allowed, the raw row, what came of it. Captures are compared position by
/// position, not by the numbers of steps, for steps fall otherwise under other settings. Who else ran, and how a prompt was cut into
/// chunks, is not compared.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A sequence parts where its tokens do, or its rows (by their checksums) or its end. One that comes by the same tokens, of the same \
rows, under other conditions (more drafts, say) does not part; --json tells of those conditions, too.\n\n\
--json prints one object: captures, same, parted, missing, settings (those that differ, each name, a, b), and requests: each \
request (its numbers), client_id, matched_by, choice, tokens (how many agree), parts (tokens, rows, end, prompt, refusal, or \
null), index and position of the first token that differs, steps (both), condition and row: the first condition and the first row \
that differ, each name, kind, position, steps, unlike (all that differs there, each name, kind, a, b).\n\n\
Exit status: 0 the same; 1 some part; 2 could not run: another model or tokenizer, or no capture; 3 none parts, but data was \
missing: a request in one capture alone, a lost record.\n\n\
Example: stepscope diff clean.mcap faulty.mcap --request call-00")]
pub struct Options {
    /// The one capture, a
    a: PathBuf,
    /// The other, b
    b: PathBuf,
    /// Only this request: the id its client gave it, or its number in a
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If a capture cannot be read, or the two were recorded with different models.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let names = [&options.a, &options.b].map(|path| path.display().to_string());
    let names = [names[0].as_str(), names[1].as_str()];
    let recordings = [
        CaptureRecording::new(CaptureReader::open(&options.a)?),
        CaptureRecording::new(CaptureReader::open(&options.b)?),
    ];
    let captures = [0, 1].map(|side| Capture { name: names[side], recording: &recordings[side] });
    let diff = diff(captures, options.request.as_deref())?;
    to_stdout(|out| match options.json {
        true => Ok(writeln!(out, "{:#}", render::json(names, &diff))?),
        false => Ok(write!(out, "{}", render::text(names, &diff))?),
    })?;
    Ok(match (diff.parted(), diff.missing.is_empty()) {
        (0, true) => Outcome::Clean,
        (0, false) => Outcome::Missing,
        _ => Outcome::Findings,
    })
}
