//! `stepscope replay`: does each recorded decision follow from its recorded inputs?

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::Outcome;
use super::output::to_stdout;
use crate::arith::{Isa, KvType};
use crate::capture::CaptureReader;
use crate::capture::records::{Header, ModelIdentity};
use crate::model::{Hash, Model};
use crate::replay::forward::{PlainModel, Products};
use crate::replay::recording::Recording;
use crate::replay::{CaptureRecording, CheckName, Job, Report, recorded_kv_type, render, replay};

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
    /// The model that was recorded. Without it, the cache folder is searched for one of its name or length.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The draft model that was recorded, for a capture of the drafter `model`.
    #[arg(long, value_name = "MODEL")]
    draft_model: Option<PathBuf>,
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

#[derive(Clone, Copy, clap::ValueEnum)]
enum IsaChoice {
    Auto,
    Scalar,
    Avx2,
    Avx512,
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
    let mut models = Models { given: options.model.as_deref(), isa: isa(options.isa), loaded: Vec::new() };
    let draft_model = options.draft_model.as_deref().map(|path| Loaded::load(path, isa(options.isa))).transpose()?;
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
    let recording = &CaptureRecording::new(reader);
    let checks = checks(options);
    let (model, no_model) = match models.of(recording.header())? {
        Found::Model(model) => (Some(model), String::new()),
        Found::None(why) => (None, why),
    };
    let plain = model.map(|loaded| loaded.plain(recording.header())).transpose()?;
    let draft = match draft_model {
        Some(loaded) => Some(loaded.draft_of(recording.header())?),
        None => None,
    };
    let name = path.display().to_string();
    let bar = progress_bar(&name, recording.requests().len());
    let report = replay(&Job {
        name: &name,
        recording,
        plain: plain.as_ref(),
        no_model: &no_model,
        draft: draft.as_ref(),
        checks: &checks,
        progress: &|| bar.inc(1),
    });
    bar.finish_and_clear();
    let mut report = report?;
    if options.captures.len() > 1 {
        report.damage.iter_mut().for_each(|words| words.insert_str(0, &format!("{name}: ")));
    }
    Ok(report)
}

fn checks(options: &Options) -> Vec<CheckName> {
    match (&options.check, options.level) {
        (Some(checks), _) => checks.clone(),
        (None, Level::Cheap) => CheckName::CHEAP.to_vec(),
        (None, Level::All) => CheckName::ALL.to_vec(),
    }
}

fn isa(choice: IsaChoice) -> Isa {
    match choice {
        IsaChoice::Auto => Isa::detect(),
        IsaChoice::Scalar => Isa::Scalar,
        IsaChoice::Avx2 => Isa::Avx2,
        IsaChoice::Avx512 => Isa::Avx512,
    }
}

/// A bar on a terminal, nothing elsewhere.
fn progress_bar(name: &str, requests: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} requests, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(requests as u64).with_style(style).with_message(name.to_owned())
}

/// Models that were loaded for the captures so far.
struct Models<'a> {
    given: Option<&'a Path>,
    isa: Isa,
    loaded: Vec<Loaded>,
}

struct Loaded {
    path: PathBuf,
    model: Model,
    isa: Isa,
}

enum Found<'a> {
    Model(&'a Loaded),
    None(String),
}

impl Models<'_> {
    /// The model for a capture: the one that was given, or one of the recorded name in the cache folder. A path in the
    /// capture itself is never followed.
    fn of(&mut self, header: &Header) -> anyhow::Result<Found<'_>> {
        let path = match (self.given, &header.model) {
            (Some(path), _) => path.to_owned(),
            (None, None) => {
                return Ok(Found::None("the capture names no model; give it with --model".to_owned()));
            }
            (None, Some(recorded)) => match in_cache(recorded) {
                Some(path) => path,
                None => {
                    let folder = cache_folder().map_or("a cache folder".into(), |folder| folder.display().to_string());
                    let why = format!("no model: give `{}` with --model, or put it into {folder}", recorded.name);
                    return Ok(Found::None(why));
                }
            },
        };
        let index = match self.loaded.iter().position(|loaded| loaded.path == path) {
            Some(index) => index,
            None => {
                self.loaded.push(Loaded::load(&path, self.isa)?);
                self.loaded.len() - 1
            }
        };
        Ok(Found::Model(&self.loaded[index]))
    }
}

impl Loaded {
    fn load(path: &Path, isa: Isa) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_owned(), model: Model::load(path)?, isa })
    }

    /// The draft model of a capture, which must be the one that was recorded.
    fn draft_of(&self, header: &Header) -> anyhow::Result<PlainModel<'_>> {
        let named = |name: String| header.configuration.iter().find(|setting| setting.name == name);
        let hashes = self.model.identity.file_hashes();
        let recorded = |hash: &'_ Hash| named(format!("draft-model.{}", hash.algorithm));
        let Some((hash, setting)) = hashes.iter().find_map(|hash| Some((hash, recorded(hash)?))) else {
            anyhow::bail!("--draft-model: the capture was recorded without a draft model");
        };
        if setting.value.trim_matches('"') != hash.hex {
            anyhow::bail!(
                "--draft-model {}: its {} is {}, and the recorded draft model's is {}",
                self.path.display(),
                hash.algorithm,
                hash.hex,
                setting.value
            );
        }
        self.plain(header)
    }

    fn plain(&self, header: &Header) -> anyhow::Result<PlainModel<'_>> {
        let products = Products::new(self.isa, &self.model.weights)?;
        // Where it is not known how keys and values were stored, the pre-flight keeps the forward pass from being run.
        let kv_type = recorded_kv_type(header).unwrap_or(KvType::F32);
        Ok(PlainModel::new(&self.model, products, kv_type)?)
    }
}

/// Where `make tour` and people put models.
fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("STEPSCOPE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("stepscope")))
        .or_else(|| Some(set("HOME")?.join(".cache").join("stepscope")))
}

/// What the cache folder directly holds of that name, with or without `.gguf`; or else a file of the recorded length,
/// which the pre-flight then compares by hash.
fn in_cache(recorded: &ModelIdentity) -> Option<PathBuf> {
    let folder = cache_folder()?;
    let names = [recorded.name.clone(), format!("{}.gguf", recorded.name)];
    let is_plain = |name: &String| Path::new(name).file_name().is_some_and(|file| file == name.as_str());
    let by_name = names.into_iter().filter(is_plain).map(|name| folder.join(name)).find(|path| path.exists());
    let has_length = |path: &PathBuf| path.metadata().is_ok_and(|file| Some(file.len()) == recorded.file_bytes);
    by_name.or_else(|| {
        let mut files: Vec<PathBuf> = folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        files.into_iter().find(has_length)
    })
}
