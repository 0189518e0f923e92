//! `stepscope report`: one file about captures, for an upstream issue.

mod document;
mod gather;
mod html;
mod markdown;
mod plots;
mod sections;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use self::gather::{Gathered, gather};
use super::Outcome;
use super::models::IsaChoice;
use super::output::to_stdout;
use super::record::paths;

/// Write one self-contained file about captures, to attach to an issue
///
/// It holds what was recorded, what replay finds, what could not be checked and what was lost, the conditions that go with misranked
/// forced tokens (as `correlate` ranks them), plots, the worst steps, and with a model the operation that went wrong first (as
/// `localize` tells it). What is not known says so. An HTML file has no scripts, loads nothing, and is readable on light and dark
/// paper and without colour; Markdown is the same without the plots.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without --model the checks that need no logits row are run, and those of them that need a tokenizer or a grammar are told as missing; \
no folder is searched for a model. With it every check is run, which takes as long as `replay` and `localize` do, and tokens are told as \
text. A file that exists is not overwritten. Planted faults are not told: a report says what can be seen.

Exit status: 0 nothing was found; 1 findings, conditions that go with misranked tokens, or a localized operation; 2 could not run; \
3 nothing was found, but data was missing.

Examples:
  stepscope report C.mcap --out R.html
  stepscope report C.mcap --model M.gguf --draft-model D.gguf --out R.md")]
pub struct Options {
    /// Captures to tell of, together.
    #[arg(required = true, value_name = "CAPTURE")]
    captures: Vec<PathBuf>,
    /// The file to write; it must not exist.
    #[arg(long, value_name = "R.html")]
    out: PathBuf,
    /// How it is written; Markdown if omitted and the file's name ends in `.md`, or else HTML.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The model that was recorded.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The draft model that was recorded, for a capture of the drafter `model`.
    #[arg(long, value_name = "MODEL")]
    draft_model: Option<PathBuf>,
    /// How matrix products are computed. Every way gives the same bits; `scalar` is the definition.
    #[arg(long, value_enum, default_value_t = IsaChoice::Scalar)]
    isa: IsaChoice,
    /// Threads; one per core if omitted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Html,
    Md,
}

/// Runs the command.
///
/// # Errors
/// If a capture or a model cannot be read, they do not belong together, or the file cannot be written or exists.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    paths::check(&options.out, None)?;
    let gathered = gather(options)?;
    let document = sections::document(&gathered)?;
    let page = match options.format() {
        Format::Html => html::html(&document),
        Format::Md => markdown::markdown(&document),
    };
    write(&options.out, &page)?;
    to_stdout(|out| {
        for line in &document.summary {
            writeln!(out, "{}", line.plain())?;
        }
        Ok(writeln!(out, "{}: {} bytes", options.out.display(), page.len())?)
    })?;
    Ok(outcome(&gathered))
}

impl Options {
    fn format(&self) -> Format {
        let is_markdown = self.out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md"));
        self.format.unwrap_or(if is_markdown { Format::Md } else { Format::Html })
    }
}

fn outcome(gathered: &Gathered) -> Outcome {
    if gathered.replayed.finding_count() > 0 || !gathered.correlation.ranked.is_empty() || gathered.has_difference() {
        Outcome::Findings
    } else if gathered.is_missing_data() {
        Outcome::Missing
    } else {
        Outcome::Clean
    }
}

/// Writes a new file, which has its name once it is whole.
fn write(out: &Path, page: &str) -> anyhow::Result<()> {
    let mut partial = OsString::from(out);
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let file = OpenOptions::new().write(true).create_new(true).open(&partial);
    let mut file = file.with_context(|| format!("{}: cannot create the file", partial.display()))?;
    let written = file.write_all(page.as_bytes()).with_context(|| format!("{}: cannot write", partial.display()));
    let named = written.and_then(|()| {
        std::fs::rename(&partial, out).with_context(|| format!("{}: cannot name the finished file", out.display()))
    });
    if named.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    named
}
