//! Everything that a report is made of, gathered from its captures.

use std::path::Path;

use anyhow::Context as _;

use super::Options;
use crate::capture::CaptureReader;
use crate::cli::correlate::{Correlated, Input, Wanted, read};
use crate::cli::models::{Found, Loaded, Models, progress_bar};
use crate::cli::replay::{name_damage, replay_recording};
use crate::forensics::correlate::{Correlation, Label, Settings, correlate};
use crate::forensics::localize::{Job, Localized, localize};
use crate::forensics::report::{StepFacts, Worst};
use crate::replay::recording::Recording;
use crate::replay::{CaptureRecording, CheckName, Report};

/// Worst steps that are told.
const MOST_WORST: usize = 12;

/// What makes a step a bad one, and how labels are shuffled: what `correlate` does by default.
const LABEL: Label = Label::ForcedMisrank;
const SETTINGS: Settings = Settings { permutations: 200, seed: 0 };

/// What a report is made of.
pub(super) struct Gathered {
    pub(super) input: Input,
    /// What the steps of each capture show.
    pub(super) steps: Vec<StepFacts>,
    pub(super) worst: Worst,
    pub(super) correlation: Correlation,
    pub(super) replayed: Report,
    /// What went wrong first in each capture, or why that cannot be said; `None` without a model.
    pub(super) localized: Option<Vec<(String, Result<Localized, String>)>>,
    /// The model, if one was given.
    pub(super) model: Option<Loaded>,
}

impl Gathered {
    /// What goes with the bad steps, as it is told.
    pub(super) fn correlated(&self) -> Correlated<'_> {
        Correlated { label: &LABEL, input: &self.input, correlation: &self.correlation }
    }

    /// Whether an operation was found that gave something else than the model does.
    pub(super) fn has_difference(&self) -> bool {
        let mut localized = self.localized.iter().flatten();
        localized.any(|(_, localized)| localized.as_ref().is_ok_and(|localized| localized.difference.is_some()))
    }

    /// Whether something could not be looked at that should be there.
    pub(super) fn is_missing_data(&self) -> bool {
        let mut localized = self.localized.iter().flatten();
        self.replayed.is_missing_data()
            || self.input.is_missing_data()
            || localized
                .any(|(_, localized)| localized.as_ref().map_or(true, |localized| !localized.missing.is_empty()))
    }
}

/// Reads, correlates, replays and localizes.
///
/// # Errors
/// If a capture or a model cannot be read, or they do not belong together.
pub(super) fn gather(options: &Options) -> anyhow::Result<Gathered> {
    let mut steps: Vec<StepFacts> = options.captures.iter().map(|_| StepFacts::default()).collect();
    let mut worst = Worst::new(MOST_WORST);
    let wanted = Wanted {
        captures: &options.captures,
        label: &LABEL,
        model: None,
        expected: None,
        replay: None,
        every_step: false,
        with_end_tokens: false,
    };
    let input = read(&wanted, &mut |seen| {
        if let Some(steps) = steps.get_mut(seen.capture) {
            steps.push(seen.step, seen.judgement, seen.left_out);
        }
        worst.push(seen.capture, seen.step, seen.judgement, seen.left_out);
    })?;
    let correlation = correlate(&input.table, SETTINGS);
    let isa = options.isa.isa();
    let mut models = Models::new(options.model.as_deref(), isa);
    let draft = options.draft_model.as_deref().map(|path| Loaded::load(path, isa)).transpose()?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads.map_or(0, usize::from))
        .build()
        .context("cannot start the worker threads")?;
    let mut replayed = Report::default();
    let mut localized = options.model.is_some().then(Vec::new);
    for path in &options.captures {
        let recording = CaptureRecording::new(CaptureReader::open(path)?);
        let found = match &options.model {
            Some(_) => models.of(recording.header())?,
            None => Found::None("no model was given (--model)".to_owned()),
        };
        let checks: &[CheckName] = if options.model.is_some() { &CheckName::ALL } else { &CheckName::CHEAP };
        let name = name(path);
        let mut report = pool.install(|| replay_recording(&name, &recording, &found, draft.as_ref(), checks))?;
        if options.captures.len() > 1 {
            name_damage(&mut report, &name);
        }
        replayed.merge(report);
        if let (Some(localized), Found::Model(model)) = (&mut localized, &found) {
            localized.push((name.clone(), pool.install(|| localized_in(&name, &recording, model))?));
        }
    }
    Ok(Gathered { input, steps, worst, correlation, replayed, localized, model: models.into_loaded().pop() })
}

/// What a capture is called.
pub(super) fn name(path: &Path) -> String {
    path.display().to_string()
}

/// What went wrong first in a capture, or why that cannot be said.
fn localized_in(name: &str, recording: &CaptureRecording, model: &Loaded) -> anyhow::Result<Result<Localized, String>> {
    let plain = model.plain(recording.header())?;
    let bar = progress_bar(name, recording.requests().len());
    let job = Job { name, recording, plain: &plain, request: None, step: None, progress: &|| bar.inc(1) };
    let localized = localize(&job);
    bar.finish_and_clear();
    Ok(localized.map_err(|error| error.to_string()))
}
