//! What a run's capture tells of a cause, without a word of the fault: the condition of the bad steps, and the operation that
//! went wrong first.

use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::capture::CaptureReader;
use crate::forensics::correlate::{Correlation, Counts, Judge, Label, Settings, TableBuilder, UnitOfTable, correlate};
use crate::forensics::localize::{Divergence, Job, Localized, divergence, localize};
use crate::replay::forward::PlainModel;
use crate::replay::{CaptureRecording, CheckName, Report};

/// What goes with the bad steps of a capture.
#[derive(Debug)]
pub(super) struct Correlated {
    /// What makes a step a bad one.
    pub(super) label: Label,
    /// How many there are: of a fault that is over before the first step, none.
    pub(super) bad_steps: u64,
    /// The condition that goes with most of them, if one does.
    pub(super) condition: Option<Condition>,
}

/// A condition that goes with bad steps.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) predicate: String,
    /// Others that are true of the same steps.
    pub(super) equivalents: Vec<String>,
    pub(super) counts: Counts,
}

/// An operation that did not give what the model gives.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) layer: Option<u32>,
    pub(super) name: String,
    /// How it is wrong, in a word.
    pub(super) how: &'static str,
}

/// The label by which the steps are bad that a check has findings in. What the model gives is judged by a run of its own, which
/// says of every step whether it is wrong; a report keeps some findings only.
pub(super) fn label_of(check: CheckName) -> Label {
    match check {
        CheckName::Forward | CheckName::Logits => Label::Diverged,
        check => Label::Finding(Some(check)),
    }
}

/// The operation that differs first in the capture at `path`, which was recorded of the model `plain`; `None` if every row is what it
/// gives.
///
/// # Errors
/// If the capture cannot be read, or does not have all of it.
pub(super) fn operation(path: &Path, plain: &PlainModel<'_>) -> anyhow::Result<Option<Operation>> {
    let name = &path.display().to_string();
    let recording = &CaptureRecording::new(CaptureReader::open(path)?);
    let Localized { difference, missing, .. } = localize(&job(name, recording, plain)).context("localize")?;
    ensure!(missing.is_empty(), "localize: not everything could be compared: {}", missing.join("; "));
    Ok(difference.map(|difference| Operation {
        layer: difference.layer,
        how: difference.how.name(),
        name: difference.operation,
    }))
}

/// What goes with the bad steps of the capture at `path`, which `report` is of and was recorded of the model `plain`.
///
/// # Errors
/// If it cannot be read, or it is not known of every step whether it is a bad one.
pub(super) fn correlated(
    path: &Path,
    label: Label,
    report: &Report,
    plain: &PlainModel<'_>,
) -> anyhow::Result<Correlated> {
    let diverged = match label {
        Label::Diverged => {
            let name = &path.display().to_string();
            let recording = &CaptureRecording::new(CaptureReader::open(path)?);
            divergence(&job(name, recording, plain)).context("localize every step")?
        }
        _ => Divergence::default(),
    };
    let missing = &diverged.missing;
    ensure!(missing.is_empty(), "localize every step: not everything could be compared: {}", missing.join("; "));
    let (correlation, bad_steps) = correlation(path, &label, report, diverged)?;
    let condition = correlation.ranked.into_iter().next().map(|first| Condition {
        predicate: first.predicate,
        equivalents: first.equivalents,
        counts: first.counts,
    });
    Ok(Correlated { label, bad_steps, condition })
}

fn job<'a>(name: &'a str, recording: &'a CaptureRecording, plain: &'a PlainModel<'a>) -> Job<'a> {
    Job { name, recording, plain, request: None, step: None, progress: &|| {} }
}

/// What goes with the bad steps, and how many there are.
fn correlation(
    path: &Path,
    label: &Label,
    report: &Report,
    diverged: Divergence,
) -> anyhow::Result<(Correlation, u64)> {
    let reader = CaptureReader::open(path)?;
    let mut judge = Judge::new(label, &reader, Vec::new());
    if let Label::Finding(check) = label {
        let is_of_it = |of: CheckName| check.is_none_or(|check| of == check);
        let counted: u64 = report.checks.iter().filter(|(of, _)| is_of_it(**of)).map(|(_, tally)| tally.findings).sum();
        let findings = report.findings.iter().filter(|finding| is_of_it(finding.check));
        ensure!(
            counted == findings.clone().count() as u64,
            "{label}: the report does not keep all of {counted} findings, and which steps the others are of is not known"
        );
        judge.found = findings.filter_map(|found| Some((found.request?, found.choice?, found.step?))).collect();
    }
    judge.diverged = diverged.steps;
    let mut table = TableBuilder::new(UnitOfTable::Step, true, &label.conditions());
    for sequence in reader.sequences() {
        table.begin(0, sequence, reader.header().format_version, None);
        judge.begin();
        for step in reader.steps(sequence) {
            let step = step?;
            table.add(&step, judge.judge(&step));
        }
    }
    let table = table.finish();
    let failing = table.reading.failing;
    Ok((correlate(&table, Settings { permutations: 0, seed: 0 }), failing))
}
