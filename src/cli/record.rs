//! `stepscope record`: run a file of requests through a model, and capture every step.

mod count;
mod grammars;
mod header;
mod notices;
mod options;
mod output_file;
mod outputs;
pub(in crate::cli) mod paths;
mod requests;
mod rerun;
mod settings;
mod speculation;
mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

pub(in crate::cli) use self::grammars::Grammars;
pub use options::{FaultOption, Options, Switch, TierOption};

use self::notices::Notice;
use self::output_file::OutputFile;
use self::outputs::OutputLine;
pub(in crate::cli) use self::requests::Preparation;
use self::requests::{Line, read};
pub(in crate::cli) use self::rerun::{Asked, Turn, options as rerun_options, rerun};
use self::settings::{Settings, Sizes};
pub(in crate::cli) use self::settings::{context_length, known_keys, read_config};
pub(in crate::cli) use self::summary::Summary;
use crate::backend::{self, Backend, BackendError, BackendOptions};
use crate::capture::tap::CaptureTap;
use crate::capture::{CaptureWriter, WriterOptions};
use crate::cli::Outcome;
use crate::engine::{Clock, Engine, EngineConfig, FinishedChoice};
use crate::model::Model;
use crate::types::RequestId;

/// Runs the command.
///
/// # Errors
/// If it cannot run at all, or the capture cannot be written. A request that is refused or fails is an error line of the
/// outputs, and makes the outcome [`Outcome::Findings`].
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let settings = Settings::resolve(options)?;
    let is_json = settings.json;
    let summary = record_with(settings)?;
    summary.print(is_json)?;
    Ok(summary.outcome())
}

/// As [`run`] without a word: for the commands that record by themselves.
pub(in crate::cli) fn record(options: Options) -> anyhow::Result<Summary> {
    record_with(Settings::resolve(&Options { quiet: true, ..options })?)
}

fn record_with(settings: Settings) -> anyhow::Result<Summary> {
    paths::check(&settings.out, settings.outputs.as_deref())?;
    let lines = read(&settings.requests)?;
    if let Some(fault) = settings.inject.filter(|_| !settings.quiet) {
        eprintln!("planted fault {fault}: {}", fault.description());
    }
    let clock = Clock::start();
    let model = Model::load(&settings.model)?;
    let sizes = settings.sizes(&model.config)?;
    let backend = open_backend(&settings, &sizes, &model, settings.speculation.room())?;
    let grammars = Grammars::new(&model, settings.grammar, settings.reasoning_end.as_deref())?;
    let preparation = Preparation::new(&model, grammars, settings.overrides.clone(), sizes.context_length, &clock)?;
    let preparation = preparation.with_tool_format(settings.tool_format).with_fault(settings.inject);
    let prepared: Vec<Line> = lines.into_iter().map(|line| preparation.prepare(line)).collect();
    let config = engine_config(&settings, &sizes);
    config.check(&backend.capacity())?;
    let drafting = speculation::open(&settings, &sizes, &model)?;
    let header = header::header(&settings, &sizes, &model, &backend.device(), &drafting, &clock);
    model.identity.release_pages();

    // Nothing is made before all that can be refused has been looked at.
    let mut outputs = settings.outputs.as_deref().map(OutputFile::create).transpose()?;
    let options = WriterOptions { overflow: settings.overflow, ..WriterOptions::default() };
    let writer = CaptureWriter::create(&settings.out, header, options)?;
    let name = model.identity.name.clone();
    let tokenizer = Arc::new(model.tokenizer);
    let tap = CaptureTap::new(writer, settings.tier);
    let engine = Engine::new(backend, tokenizer.clone(), config, clock, tap)?;
    let engine = engine.speculate(drafting.drafter, settings.speculation.speculation())?;
    let mut engine = match settings.inject {
        Some(fault) => engine.inject(fault),
        None => engine,
    };

    let started = Instant::now();
    let submitted: Vec<Submitted> = prepared.into_iter().map(|line| submit(line, &mut engine)).collect();
    if !settings.quiet {
        notices::tell(&submitted);
    }
    let mut finished = run_all(&mut engine, &submitted)?;
    let mut summary = Summary::new(&submitted, &finished, engine.steps(), engine.tap().rows(), started.elapsed());
    let written = engine.into_tap().finish().context("the capture is incomplete")?;
    summary.set_capture(&written);

    if let Some(outputs) = &mut outputs {
        for line in submitted {
            let choices = line.request.map(|request| finished.remove(&request).unwrap_or_default());
            outputs.write(&line.output.render(choices, &tokenizer, &name))?;
        }
    }
    outputs.map(OutputFile::finish).transpose()?;
    Ok(summary)
}

/// The device, with room for so many drafts.
fn open_backend(
    settings: &Settings,
    sizes: &Sizes,
    model: &Model,
    drafts: usize,
) -> Result<Box<dyn Backend>, BackendError> {
    let options = BackendOptions {
        threads: settings.threads,
        isa: settings.isa,
        kv_type: settings.kv_type,
        pages: sizes.pages,
        state_slots: settings.max_batch,
        snapshots: sizes.pages,
        drafts,
        sketches: settings.sketches,
    };
    backend::open(settings.backend, model, &options)
}

fn engine_config(settings: &Settings, sizes: &Sizes) -> EngineConfig {
    EngineConfig {
        max_batch: settings.max_batch,
        prefill_chunk: settings.prefill_chunk,
        prefix_cache: settings.prefix_cache,
        context_length: sizes.context_length,
    }
}

/// A line of the request file, once the engine has it or has refused it.
struct Submitted {
    /// What its output line needs.
    output: OutputLine,
    /// Its number if it runs.
    request: Option<RequestId>,
    /// Choices it asks for.
    choices: u32,
    /// What is worth a warning.
    warnings: Vec<String>,
}

impl Submitted {
    /// Why it was refused, if it was.
    fn refusal(&self) -> Option<Notice> {
        let error = self.output.refusal()?;
        Some(self.notice(error.param.clone(), error.message.clone()))
    }

    fn warnings(&self) -> impl Iterator<Item = Notice> {
        self.warnings.iter().map(|message| self.notice(None, message.clone()))
    }

    fn notice(&self, field: Option<String>, message: String) -> Notice {
        Notice { line: self.output.line, custom_id: self.output.custom_id().map(str::to_owned), field, message }
    }
}

fn submit(line: Line, engine: &mut Engine<CaptureTap>) -> Submitted {
    let Line { mut output, received, prepared } = line;
    let refused = |output| Submitted { output, request: None, choices: 0, warnings: Vec::new() };
    match prepared {
        Err(error) => {
            engine.refuse(&received, &crate::engine::RefusalReason::Invalid(error.to_string()));
            output.refuse(error.to_string(), error.fault.field());
            refused(output)
        }
        Ok(submission) => {
            let choices = submission.sampling.choices;
            let warnings = submission.resolved.warnings.iter().map(ToString::to_string).collect();
            output.accept(&submission);
            match engine.submit(submission) {
                (request, Ok(())) => Submitted { output, request: Some(request), choices, warnings },
                (_, Err(reason)) => {
                    let field = output.prompt_field();
                    output.refuse(format!("line {}: `{field}`: {reason}", output.line), Some(field));
                    refused(output)
                }
            }
        }
    }
}

/// Steps until every request has ended; the choices of each, by index.
fn run_all(
    engine: &mut Engine<CaptureTap>,
    submitted: &[Submitted],
) -> anyhow::Result<BTreeMap<RequestId, Vec<FinishedChoice>>> {
    let progress = ProgressBar::new(submitted.iter().map(|line| u64::from(line.choices)).sum());
    progress.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} answers, {elapsed} {msg}")?);
    let mut tokens = 0;
    let mut finished: BTreeMap<RequestId, Vec<FinishedChoice>> = BTreeMap::new();
    while !engine.is_idle() {
        for choice in engine.step()? {
            tokens += choice.tokens.len();
            progress.inc(1);
            finished.entry(choice.id.request).or_default().push(choice);
        }
        if let Some(error) = engine.tap_mut().take_error() {
            return Err(error).context("recording stopped, and so does the run; what was written is readable");
        }
        progress.set_message(format!("{tokens} tokens"));
    }
    progress.finish_and_clear();
    for choices in finished.values_mut() {
        choices.sort_by_key(|choice| choice.id.choice);
    }
    Ok(finished)
}
