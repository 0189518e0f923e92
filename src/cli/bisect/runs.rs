//! Runs: some differences applied, the requests recorded, and each of them judged.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use super::{Configurations, Options, Oracle};
use crate::capture::CaptureReader;
use crate::cli::expected::expected_calls;
use crate::cli::models::{Found, IsaChoice, Models};
use crate::cli::record::{self, Summary};
use crate::cli::replay::replay_recording;
use crate::cli::told;
use crate::forensics::bisect::{Tally, Verdict, broken, misranked, with_findings};
use crate::forensics::outcome::ExpectedCalls;
use crate::replay::recording::Recording;
use crate::replay::{CaptureRecording, CheckName};

/// A run that is over.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The differences that were applied, by number.
    pub(super) subset: Vec<usize>,
    /// What it came to; `None` if it could not be run or read.
    pub(super) tally: Option<Tally>,
    /// The chance of that without a connection; `None` if it cannot be told, and of the good configuration.
    pub(super) p: Option<f64>,
    pub(super) verdict: Verdict,
    /// Why it is unresolved.
    pub(super) reason: Option<String>,
}

/// All runs, recorded one after the other into a temporary folder.
pub(super) struct Runs<'a> {
    options: &'a Options,
    configurations: &'a Configurations,
    folder: TempDir,
    models: Models<'a>,
    draft_models: Models<'a>,
    /// Read with the first capture.
    expected: Option<ExpectedCalls>,
    good: Tally,
    /// Lines of the request file that the good configuration does not answer.
    not_answered: BTreeSet<usize>,
    /// Those that are over, the good configuration first.
    pub(super) done: Vec<Run>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(options: &'a Options, configurations: &'a Configurations) -> anyhow::Result<Self> {
        let isa = options.isa.unwrap_or(IsaChoice::Scalar).isa();
        Ok(Self {
            options,
            configurations,
            folder: tempfile::tempdir().context("make a temporary folder for the captures")?,
            models: Models::new(None, isa),
            draft_models: Models::new(None, isa),
            expected: None,
            good: Tally::default(),
            not_answered: BTreeSet::new(),
            done: Vec::new(),
        })
    }

    /// Runs the good configuration, which everything else is held against.
    ///
    /// # Errors
    /// If it cannot be run or judged.
    pub(super) fn run_good(&mut self) -> anyhow::Result<()> {
        self.tell(&[]);
        let (tally, summary) = self.record_and_judge(&[])?;
        tally.check()?;
        self.good = tally;
        self.not_answered = summary.not_answered().map(|(line, _)| line).collect();
        let (subset, verdict) = (Vec::new(), Verdict::NotBad);
        self.done.push(Run { subset, tally: Some(tally), p: None, verdict, reason: None });
        Ok(())
    }

    /// Runs the good configuration with these differences, and judges it.
    pub(super) fn judge(&mut self, subset: &[usize]) -> Verdict {
        self.tell(subset);
        let unresolved =
            Run { subset: subset.to_vec(), tally: None, p: None, verdict: Verdict::Unresolved, reason: None };
        let run = match self.record_and_judge(subset) {
            Err(error) => Run { reason: Some(told(&error)), ..unresolved },
            Ok((tally, summary)) => {
                let judged = match self.not_answered_anew(&summary) {
                    Some(reason) => Err(reason),
                    None => tally.against(&self.good).map_err(|reason| reason.to_string()),
                };
                match judged {
                    Ok((verdict, p)) => Run { tally: Some(tally), p: Some(p), verdict, ..unresolved },
                    Err(reason) => Run { tally: Some(tally), reason: Some(reason), ..unresolved },
                }
            }
        };
        let verdict = run.verdict;
        self.done.push(run);
        verdict
    }

    /// Why a run says nothing that leaves out requests that the good configuration answers. Replay judges refusals and failures, too.
    fn not_answered_anew(&self, summary: &Summary) -> Option<String> {
        let is_new = |(line, _): &(usize, &str)| !self.not_answered.contains(line);
        let mut new = summary.not_answered().filter(is_new).filter(|_| self.options.oracle != Oracle::Finding);
        let (_, message) = new.next()?;
        let more = match new.count() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        Some(format!("requests are not answered that are answered under --good: {message}{more}"))
    }

    fn record_and_judge(&mut self, subset: &[usize]) -> anyhow::Result<(Tally, Summary)> {
        let table = self.configurations.with(subset);
        let (config, capture) = (self.path("config.toml"), self.path("capture.mcap"));
        std::fs::write(&config, table.to_string()).with_context(|| format!("write {}", config.display()))?;
        if capture.symlink_metadata().is_ok() {
            std::fs::remove_file(&capture).with_context(|| format!("remove {}", capture.display()))?;
        }
        let summary = record::record(record::Options {
            model: self.options.model.clone(),
            requests: Some(self.options.requests.clone()),
            out: Some(capture.clone()),
            config: Some(config),
            ..record::Options::default()
        })?;
        let reader = CaptureReader::open(&capture)?;
        let in_table = |key: &str| table.get(key).and_then(toml::Value::as_str).map(PathBuf::from);
        let model = self.options.model.clone().or_else(|| in_table("model")).context("no model is named")?;
        let tally = match self.options.oracle {
            Oracle::Misrank => misranked(&reader)?,
            Oracle::Broken => {
                let expected = self.expected(&reader)?;
                broken(&reader, self.models.at(&model)?.tokenizer(), &expected)?
            }
            Oracle::Finding => self.findings(reader, &model, in_table("draft-model").as_deref())?,
        };
        Ok((tally, summary))
    }

    fn expected(&mut self, reader: &CaptureReader) -> anyhow::Result<ExpectedCalls> {
        if let (None, Some(path)) = (&self.expected, &self.options.expected) {
            self.expected = Some(expected_calls(path, reader)?);
        }
        Ok(self.expected.clone().unwrap_or_default())
    }

    fn findings(&mut self, reader: CaptureReader, model: &Path, draft: Option<&Path>) -> anyhow::Result<Tally> {
        let requests: Vec<_> = reader.requests().collect();
        let recording = CaptureRecording::new(reader);
        let header = recording.header();
        let model = Found::Model(self.models.at(model)?);
        // A draft model may be named that no drafter reads.
        let has_draft = header.configuration.iter().any(|setting| setting.name == "draft-model.name");
        let draft = match draft.filter(|_| has_draft) {
            Some(path) => Some(self.draft_models.at(path)?),
            None => None,
        };
        let report = replay_recording("run", &recording, &model, draft, &CheckName::ALL)?;
        match with_findings(&report, requests) {
            Ok(tally) => Ok(tally),
            Err(words) => bail!(words),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// On a terminal, which run begins.
    fn tell(&self, subset: &[usize]) {
        if std::io::stderr().is_terminal() {
            let number = self.done.len() + 1;
            eprintln!("run {number}: {}", super::render::applied(subset, &self.configurations.differences));
        }
    }
}
