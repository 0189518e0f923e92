//! `stepscope replay`: does each recorded decision follow from its recorded inputs?

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Outcome;
use super::models::{Found, IsaChoice, Loaded, ModelOptions, Models, progress_bar};
use super::output::to_stdout;
use crate::capture::CaptureReader;
use crate::replay::recording::Recording;
use crate::replay::{CaptureRecording, CheckName, Job, Report, render, replay};

/// Options of `stepscope replay`.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 clean; 1 findings; 2 a capture could not be replayed (the others were); \
                        3 no findings, but data was missing: damage, losses, or the model.\n\n\
                        What is worth a look and no finding (loops, the same tool call again, the same answer drawn twice \
                        without a seed) is told with the check `signs`, and changes no exit status.")]
pub struct Options {
    /// Captures to replay.
    #[arg(required = true, value_name = "CAPTURE")]
    captures: Vec<PathBuf>,
    #[command(flatten)]
    models: ModelOptions,
    /// Checks to run, separated by commas: prompt, params, validity, logits, forward, drafts, masks, applied-mask, sampler,
    /// accept, commit, termination, signs.
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "level")]
    check: Option<Vec<CheckName>>,
    /// `cheap` runs the checks that need no logits row.
    #[arg(long, value_enum, default_value_t = Level::All)]
    level: Level,
    /// How matrix products are computed. Every way gives the same bits; `scalar` is the definition.
    #[arg(long, value_enum, default_value_t = IsaChoice::Scalar)]
    isa: IsaChoice,
    /// Threads; one per core if omitted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object instead of a summary.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Level {
    Cheap,
    All,
}

/// Replays every capture and prints what was found.
///
/// # Errors
/// If a capture or the model cannot be read, or they do not belong together.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads.map_or(0, usize::from))
        .build()
        .context("cannot start the worker threads")?;
    let mut report = Report::default();
    let isa = options.isa.isa();
    let mut models = Models::new(options.models.model.as_deref(), isa);
    let draft_model = options.models.draft_model.as_deref().map(|path| Loaded::load(path, isa)).transpose()?;
    let mut failed = Vec::new();
    for path in &options.captures {
        let replayed = CaptureReader::open(path).map_err(anyhow::Error::from).and_then(|reader| {
            pool.install(|| replay_capture(options, path, reader, &mut models, draft_model.as_ref()))
        });
        match replayed {
            Ok(replayed) => report.merge(replayed),
            Err(error) if options.captures.len() == 1 => return Err(error),
            Err(error) => {
                eprintln!("error: {error:#}");
                failed.push(json!({"capture": path.display().to_string(), "error": format!("{error:#}")}));
            }
        }
    }
    if failed.len() < options.captures.len() {
        print(options, &report, &failed)?;
    }
    if !failed.is_empty() {
        anyhow::bail!("{} of {} captures could not be replayed: see above", failed.len(), options.captures.len());
    }
    Ok(outcome(&report))
}

/// Prints what was found; `failed` are the captures that could not be replayed.
fn print(options: &Options, report: &Report, failed: &[Value]) -> anyhow::Result<()> {
    if !options.json {
        return to_stdout(|out| Ok(write!(out, "{}", render::text(report))?));
    }
    let mut object = render::json(report);
    object["failed"] = failed.into();
    let json = serde_json::to_string_pretty(&object)?;
    to_stdout(|out| Ok(writeln!(out, "{json}")?))
}

fn outcome(report: &Report) -> Outcome {
    if report.finding_count() > 0 {
        Outcome::Findings
    } else if report.is_missing_data() {
        Outcome::Missing
    } else {
        Outcome::Clean
    }
}

fn replay_capture(
    options: &Options,
    path: &Path,
    reader: CaptureReader,
    models: &mut Models<'_>,
    draft_model: Option<&Loaded>,
) -> anyhow::Result<Report> {
    let recording = CaptureRecording::new(reader);
    let name = path.display().to_string();
    let found = models.of(recording.header())?;
    let mut report = replay_recording(&name, &recording, &found, draft_model, &checks(options))?;
    if options.captures.len() > 1 {
        name_damage(&mut report, &name);
    }
    Ok(report)
}

/// Replays a capture on the current thread pool, with a bar on a terminal.
///
/// # Errors
/// If the models are not those that were recorded.
pub(super) fn replay_recording(
    name: &str,
    recording: &CaptureRecording,
    model: &Found<'_>,
    draft_model: Option<&Loaded>,
    checks: &[CheckName],
) -> anyhow::Result<Report> {
    let (plain, no_model) = match model {
        Found::Model(model) => (Some(model.plain(recording.header())?), ""),
        Found::None(why) => (None, why.as_str()),
    };
    let draft = draft_model.map(|loaded| loaded.draft_of(recording.header())).transpose()?;
    let bar = progress_bar(name, recording.requests().len());
    let report = replay(&Job {
        name,
        recording,
        plain: plain.as_ref(),
        no_model,
        draft: draft.as_ref(),
        checks,
        progress: &|| bar.inc(1),
    });
    bar.finish_and_clear();
    Ok(report?)
}

/// Says of which of several captures the damage is.
pub(super) fn name_damage(report: &mut Report, name: &str) {
    report.damage.iter_mut().for_each(|words| words.insert_str(0, &format!("{name}: ")));
}

fn checks(options: &Options) -> Vec<CheckName> {
    match (&options.check, options.level) {
        (Some(checks), _) => checks.clone(),
        (None, Level::Cheap) => CheckName::CHEAP.to_vec(),
        (None, Level::All) => CheckName::ALL.to_vec(),
    }
}
