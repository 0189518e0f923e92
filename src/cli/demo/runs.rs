//! The runs: recorded, replayed, and their calls compared with those that were asked for.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::cause::{Cause, cause};
use super::setups::Setup;
use super::table::Table;
use crate::arith::{Isa, KvType};
use crate::capture::CaptureReader;
use crate::cli::record::{self, Summary};
use crate::forensics::outcome::{CallOutcome, ExpectedCalls, outcomes};
use crate::incident::{self, Files};
use crate::model::Model;
use crate::replay::forward::{PlainModel, Products};
use crate::replay::{CaptureRecording, CheckName, Job, Report, replay};

/// The incident's models and files, in a folder.
pub(super) struct Incident {
    folder: PathBuf,
    files: Files,
    target: Model,
    draft: Model,
    expected: ExpectedCalls,
}

/// How often each way of recording runs for [`Cost`].
const TURNS: usize = 2;

/// How long the requests take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// With hidden rows and sketches recorded.
    pub(super) recorded_seconds: f64,
    /// With neither: of the rows their statistics alone.
    pub(super) bare_seconds: f64,
}

/// What one run came to.
pub(super) struct Run {
    pub(super) setup: &'static Setup,
    pub(super) summary: Summary,
    pub(super) report: Report,
    /// What each request's answer calls.
    pub(super) calls: ExpectedCalls,
    /// How each call came out beside the one that was to be, by `custom_id`, in order.
    pub(super) outcomes: Vec<(String, CallOutcome)>,
    pub(super) table: Table,
}

impl Run {
    /// How many calls are broken.
    pub(super) fn broken(&self) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| outcome.is_broken()).count()
    }
}

impl Incident {
    /// Writes the incident's files to the folder, and loads the models.
    pub(super) fn new(folder: &Path) -> anyhow::Result<Self> {
        let files = Files::write(folder).with_context(|| format!("write into {}", folder.display()))?;
        let (target, draft) = (Model::load(&files.target())?, Model::load(&files.draft())?);
        let expected = ExpectedCalls::of_lines(incident::EXPECTED, "the incident's expected calls")?;
        Ok(Self { folder: folder.to_owned(), files, target, draft, expected })
    }

    pub(super) fn requests(&self) -> usize {
        self.expected.len()
    }

    /// Records and replays the requests, with every check. `clean` are the calls to be; those that were asked for if there
    /// are none.
    pub(super) fn run(&self, setup: &'static Setup, clean: Option<&ExpectedCalls>) -> anyhow::Result<Run> {
        let (capture, config) = (self.path(setup, "mcap"), self.path(setup, "toml"));
        std::fs::write(&config, setup.config(&self.files.draft()))
            .with_context(|| format!("write {}", config.display()))?;
        let summary = self.record(setup, record::Options::default(), &capture)?;
        let reader = CaptureReader::open(&capture)?;
        let table = Table::of(&reader)?;
        let calls = ExpectedCalls::of_capture(&reader)?;
        let mut known = Vec::new();
        for choice in outcomes(&reader, &self.target.tokenizer, clean.unwrap_or(&self.expected))? {
            let id = choice.client_id.context("a request without a custom_id")?;
            let outcome = choice.outcome.with_context(|| format!("`{}`: the answer to {id}", setup.name))?;
            known.push((id, outcome));
        }
        let report = self.replay(setup, &CaptureRecording::new(reader))?;
        Ok(Run { setup, summary, report, calls, outcomes: known, table })
    }

    /// What the capture of a setup that has run tells of the cause.
    pub(super) fn cause(&self, setup: &'static Setup) -> anyhow::Result<Cause> {
        let capture = self.path(setup, "mcap");
        let recording = CaptureRecording::new(CaptureReader::open(&capture)?);
        cause(&capture, &recording, &plain(&self.target)?)
    }

    /// What recording a setup that has run costs: both ways take turns, and the quicker of each counts.
    pub(super) fn cost(&self, setup: &'static Setup) -> anyhow::Result<Cost> {
        let folder = tempfile::tempdir_in(&self.folder).context("make a temporary folder")?;
        let mut cost = Cost { recorded_seconds: f64::INFINITY, bare_seconds: f64::INFINITY };
        for turn in 0..TURNS {
            let capture = |name: &str| folder.path().join(format!("{name}-{turn}.mcap"));
            let bare = record::Options {
                tier: Some(record::TierOption::Off),
                sketches: Some(record::Switch::Off),
                ..record::Options::default()
            };
            let recorded = self.record(setup, record::Options::default(), &capture("recorded"))?.seconds;
            let bare = self.record(setup, bare, &capture("bare"))?.seconds;
            cost.recorded_seconds = cost.recorded_seconds.min(recorded);
            cost.bare_seconds = cost.bare_seconds.min(bare);
        }
        Ok(cost)
    }

    fn path(&self, setup: &Setup, extension: &str) -> PathBuf {
        self.folder.join(setup.name).with_extension(extension)
    }

    fn record(&self, setup: &Setup, options: record::Options, capture: &Path) -> anyhow::Result<Summary> {
        let options = record::Options {
            model: Some(self.files.target()),
            requests: Some(self.files.requests()),
            out: Some(capture.to_owned()),
            outputs: Some(capture.with_extension("jsonl")),
            config: Some(self.path(setup, "toml")),
            ..options
        };
        record::record(options).with_context(|| format!("record `{}`", setup.name))
    }

    fn replay(&self, setup: &Setup, recording: &CaptureRecording) -> anyhow::Result<Report> {
        let (target, draft) = (plain(&self.target)?, plain(&self.draft)?);
        Ok(replay(&Job {
            name: setup.name,
            recording,
            plain: Some(&target),
            no_model: "",
            draft: Some(&draft),
            checks: &CheckName::ALL,
            progress: &|| {},
        })?)
    }
}

/// The model, run by the definition.
fn plain(model: &Model) -> anyhow::Result<PlainModel<'_>> {
    Ok(PlainModel::new(model, Products::new(Isa::Scalar, &model.weights)?, KvType::F32)?)
}
