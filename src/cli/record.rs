//! `stepscope record`: run a file of requests through a model, and capture every step.

mod assembly;
mod count;
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
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

pub(in crate::cli) use crate::capture::records::MOST_DRAFTS;
pub(in crate::cli) use count::Count;
pub(in crate::cli) use options::{
    BackendOption, DrafterOption, GrammarBackendOption, IsaOption, KvTypeOption, MANY, MOST, OverflowOption,
    SchedulingOption, ToolFormatOption, VerifyRuleOption, WhitespaceOption,
};
pub use options::{FaultOption, Options, Switch, TierOption};

pub(in crate::cli) use self::assembly::Assembly;
use self::notices::Notice;
use self::output_file::OutputFile;
use self::outputs::OutputLine;
use self::requests::{Line, prepare, read};
pub(in crate::cli) use self::rerun::{Asked, Turn, options as rerun_options, rerun};
use self::settings::Run;
pub(in crate::cli) use self::settings::Settings;
pub(in crate::cli) use self::settings::{context_length, known_keys, read_config};
pub(in crate::cli) use self::summary::Summary;
use crate::capture::tap::CaptureTap;
use crate::capture::{CaptureWriter, WriterOptions};
use crate::cli::Outcome;
use crate::engine::{Clock, Engine, FinishedChoice};
use crate::model::Model;
use crate::types::RequestId;

/// Runs the command.
///
/// # Errors
/// If it cannot run at all, or the capture cannot be written. A request that is refused or fails is an error line of the
/// outputs, and makes the outcome [`Outcome::Findings`].
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let (settings, run) = Settings::resolve(options)?;
    let is_json = run.json;
    let summary = record_with(settings, run)?;
    summary.print(is_json)?;
    Ok(summary.outcome())
}

/// As [`run`] without a word: for the commands that record by themselves.
pub(in crate::cli) fn record(options: Options) -> anyhow::Result<Summary> {
    let (settings, run) = Settings::resolve(&Options { quiet: true, ..options })?;
    record_with(settings, run)
}

fn record_with(settings: Settings, run: Run) -> anyhow::Result<Summary> {
    paths::check(&run.out, run.outputs.as_deref())?;
    let lines = read(&run.requests)?;
    if let Some(fault) = settings.inject.filter(|_| !run.quiet) {
        eprintln!("planted fault {fault}: {}", fault.description());
    }
    let clock = Clock::start();
    let model = Model::load(&settings.model)?;
    let assembly = Assembly::new(&settings, &model, &clock)?;
    let preparation = assembly.preparation(&settings, &model, &clock)?;
    let prepared: Vec<Line> = lines.into_iter().map(|line| prepare(&preparation, line)).collect();
    model.identity.release_pages();

    // Nothing is made before all that can be refused has been looked at.
    let mut outputs = run.outputs.as_deref().map(OutputFile::create).transpose()?;
    let options = WriterOptions { overflow: settings.overflow, ..WriterOptions::default() };
    let writer = CaptureWriter::create(&run.out, assembly.header.clone(), options)?;
    let name = model.identity.name.clone();
    let tap = CaptureTap::new(writer, settings.tier);
    let mut engine = assembly.engine(&settings, &model, clock, tap)?;

    let started = Instant::now();
    let submitted: Vec<Submitted> = prepared.into_iter().map(|line| submit(line, &mut engine)).collect();
    if !run.quiet {
        notices::tell(&submitted);
    }
    let mut finished = run_all(&mut engine, &submitted)?;
    let mut summary = Summary::new(&submitted, &finished, engine.steps(), engine.tap().rows(), started.elapsed());
    let written = engine.into_tap().finish().context("the capture is incomplete")?;
    summary.set_capture(&written);

    if let Some(outputs) = &mut outputs {
        for line in submitted {
            let choices = line.request.map(|request| finished.remove(&request).unwrap_or_default());
            outputs.write(&line.output.render(choices, &model.tokenizer, &name))?;
        }
    }
    outputs.map(OutputFile::finish).transpose()?;
    Ok(summary)
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
