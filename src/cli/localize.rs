//! `stepscope localize`: which operation went wrong first, and how?

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use super::Outcome;
use super::dump::find_request;
use super::models::{Found, IsaChoice, Loaded, ModelOptions, Models, progress_bar};
use super::output::to_stdout;
use crate::capture::CaptureReader;
use crate::forensics::localize::{Job, localize, render};
use crate::replay::CaptureRecording;
use crate::replay::recording::Recording;

/// Name the layer and the operation that went wrong first, and how
///
/// The requests are run again plainly, by the model and from the recorded tokens, and what each row passed through is compared
/// with what is recorded of it, operation by operation: the layers' sketches, what the LM head read, the row's checksum. Of all
/// differences the earliest is told, and how it is wrong.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
How it is wrong:
  zeroed            zeros alone
  non-finite        a NaN or an infinity
  stale             the recurrent state of so many columns earlier or later
  foreign-row       what belongs to another row of the step, of this request or of a neighbour
                    in the batch; of an embedding, that of another token
  neighbours-value  the row is right, and a number that is told of it is another row's
  drift             the same but for rounding: no figure is off by more than 1% of the norm
  differs           none of these, with by how much\n\n\
A capture has sketches if it was recorded with --sketches on. One without is compared row by row; of the first row that differs \
the step is run again as if one thing after the other had been done to it (the operations of all layers or of one zeroed, the \
state read so many columns earlier or later, a token read twice), and the operation is named if every row of the step comes out \
bit for bit as it is recorded.\n\n\
A draft model is not run, for drafts are taken as they are recorded; that it is the recorded one is checked.\n\n\
--json prints one object: request, client_id, choice, step, row, position, layer, op, how, expected, found, later (how many \
operations of the row after it differ, too), conditions (of the step); columns where it is stale (positive: earlier), from where it \
is foreign, relative where it drifts or differs; sketches (recorded or re-executed) and supposed; missing; and rows \
(how many were compared), null where something differs. The others are null where nothing does.\n\n\
Exit status: 0 no difference; 1 localized; 2 could not run: another model, an engine without this arithmetic, or a row that \
differs with neither sketches nor such a run to say where; 3 no difference, but data was missing.\n\n\
Example: stepscope localize C.mcap --model M.gguf --request call-00")]
pub struct Options {
    /// The capture.
    capture: PathBuf,
    #[command(flatten)]
    models: ModelOptions,
    /// Only this request: the id its client gave it, or its number.
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only this step. What is told of one after the first difference may stand on what went wrong before.
    #[arg(long, value_name = "N")]
    step: Option<u64>,
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

/// Runs the command.
///
/// # Errors
/// If the capture or a model cannot be read, they do not belong together, or the capture cannot be localized in.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let name = options.capture.display().to_string();
    let reader = CaptureReader::open(&options.capture)?;
    let request = options.request.as_deref().map(|id| find_request(&reader, id)).transpose()?;
    let recording = &CaptureRecording::new(reader);
    let isa = options.isa.isa();
    let mut models = Models::new(options.models.model.as_deref(), isa);
    let plain = match models.of(recording.header())? {
        Found::Model(model) => model.plain(recording.header())?,
        Found::None(why) => bail!("{name}: {why}"),
    };
    if let Some(path) = &options.models.draft_model {
        Loaded::load(path, isa)?.draft_of(recording.header())?;
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads.map_or(0, usize::from))
        .build()
        .context("cannot start the worker threads")?;
    let bar = progress_bar(&name, recording.requests().len());
    let job = Job {
        name: &name,
        recording,
        plain: &plain,
        request: request.map(|request| request.0),
        step: options.step,
        progress: &|| bar.inc(1),
    };
    let localized = pool.install(|| localize(&job));
    bar.finish_and_clear();
    let localized = localized?;
    to_stdout(|out| match options.json {
        true => Ok(writeln!(out, "{:#}", render::json(&localized))?),
        false => Ok(write!(out, "{}", render::text(&name, &localized))?),
    })?;
    Ok(match (&localized.difference, localized.missing.is_empty()) {
        (Some(_), _) => Outcome::Findings,
        (None, false) => Outcome::Missing,
        (None, true) => Outcome::Clean,
    })
}
