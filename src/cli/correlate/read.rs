//! From captures to a table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::findings::Findings;
use crate::arith::Isa;
use crate::capture::records::StepRecord;
use crate::capture::{CaptureError, CaptureReader};
use crate::cli::expected::expected_calls;
use crate::cli::models::{Loaded, progress_bar};
use crate::cli::tokenizer::recorded_tokenizer;
use crate::forensics::correlate::{Judge, Judgement, Label, Table, TableBuilder, UnitOfTable};
use crate::forensics::localize::{Divergence, Job, divergence};
use crate::forensics::outcome::{ExpectedCalls, outcome_of_choice};
use crate::model::Tokenizer;
use crate::replay::CaptureRecording;
use crate::replay::recording::Recording;

/// What is to be read, and how it is judged.
pub(in crate::cli) struct Wanted<'a> {
    pub(in crate::cli) captures: &'a [PathBuf],
    pub(in crate::cli) label: &'a Label,
    /// The recorded model, for labels that read tokens.
    pub(in crate::cli) model: Option<&'a Path>,
    /// The calls that should come.
    pub(in crate::cli) expected: Option<&'a Path>,
    /// What `replay --json` printed.
    pub(in crate::cli) replay: Option<&'a Path>,
    /// Whether steps count after the first bad one of their sequence.
    pub(in crate::cli) every_step: bool,
    /// Whether forced end tokens count.
    pub(in crate::cli) with_end_tokens: bool,
}

/// A step as it is read.
pub(in crate::cli) struct Seen<'a> {
    /// Index of the capture.
    pub(in crate::cli) capture: usize,
    pub(in crate::cli) step: &'a StepRecord,
    pub(in crate::cli) judgement: Judgement,
    /// Forced tokens that the label does not look at.
    pub(in crate::cli) left_out: &'a [u32],
}

/// What was read.
pub(in crate::cli) struct Input {
    pub(in crate::cli) captures: Vec<(PathBuf, CaptureReader)>,
    pub(in crate::cli) table: Table,
    /// What is missing, and what was taken for granted, in words.
    pub(in crate::cli) notes: Vec<String>,
    /// Whether a capture is damaged or was not finished.
    is_damaged: bool,
}

impl Input {
    /// Whether something could not be looked at: records, labels, or every step.
    pub(in crate::cli) fn is_missing_data(&self) -> bool {
        let reading = self.table.reading;
        self.is_damaged || reading.unreadable > 0 || reading.unknown > 0 || self.table.is_empty()
    }
}

/// Closing tags, as special tokens.
const CLOSING: [&str; 3] = ["</tool_call>", "</function>", "</parameter>"];

/// Reads every step of the captures, and shows each to `see`.
pub(in crate::cli) fn read(wanted: &Wanted<'_>, see: &mut dyn FnMut(Seen<'_>)) -> anyhow::Result<Input> {
    let unit = if *wanted.label == Label::BrokenCall { UnitOfTable::Sequence } else { UnitOfTable::Step };
    let findings = match (wanted.label, wanted.replay) {
        (Label::Finding(check), Some(path)) => Some(Findings::read(path, *check)?),
        _ => None,
    };
    // Every way of computing gives the same bits, and this one is the fastest.
    let model = match (wanted.label, wanted.model) {
        (Label::Diverged, Some(path)) => Some(Loaded::load(path, Isa::detect())?),
        _ => None,
    };
    let mut builder = TableBuilder::new(unit, !wanted.every_step, &wanted.label.conditions());
    let (mut captures, mut notes) = (Vec::new(), Vec::new());
    let mut is_damaged = false;
    for (index, path) in wanted.captures.iter().enumerate() {
        let reader = CaptureReader::open(path)?;
        let told = reader.issues().iter().map(ToString::to_string);
        notes.extend(told);
        if !reader.is_finished() {
            notes.push(format!("{}: the recording was not finished", path.display()));
        }
        is_damaged |= !reader.is_finished() || !reader.issues().is_empty();
        let tokenizer = match (wanted.label, wanted.model) {
            (Label::BrokenCall | Label::MissedClose, Some(model)) => Some(recorded_tokenizer(model, reader.header())?),
            _ => None,
        };
        let left_out = left_out(wanted, &reader, &mut notes);
        let mut judge = Judge::new(wanted.label, &reader, left_out.clone());
        if let (Label::MissedClose, Some(tokenizer)) = (wanted.label, &tokenizer) {
            judge.closing = closing(tokenizer)?;
        }
        if let Some(findings) = &findings {
            judge.found = findings.of(path, &mut notes)?;
        }
        if let Some(model) = &model {
            let Divergence { steps, missing } = run_again(model, path)?;
            is_damaged |= !missing.is_empty();
            notes.extend(missing.into_iter().map(|missing| format!("{}: {missing}", path.display())));
            judge.diverged = steps;
        }
        let expected = wanted.expected.map(|path| expected_calls(path, &reader)).transpose()?;
        let of_calls = match unit {
            UnitOfTable::Sequence => tokenizer.map(|tokenizer| (tokenizer, expected.unwrap_or_default())),
            UnitOfTable::Step => None,
        };
        let mut see = |step: &StepRecord, judgement| see(Seen { capture: index, step, judgement, left_out: &left_out });
        read_capture(&mut builder, &mut judge, &reader, index, of_calls.as_ref(), &mut see)?;
        drop(judge);
        captures.push((path.clone(), reader));
    }
    notes.iter().for_each(|note| eprintln!("warning: {note}"));
    Ok(Input { captures, table: builder.finish(), notes, is_damaged })
}

fn read_capture(
    builder: &mut TableBuilder,
    judge: &mut Judge<'_>,
    reader: &CaptureReader,
    index: usize,
    of_calls: Option<&(Arc<Tokenizer>, ExpectedCalls)>,
    see: &mut dyn FnMut(&StepRecord, Judgement),
) -> anyhow::Result<()> {
    for sequence in reader.sequences() {
        let whole = match of_calls {
            None => None,
            Some((tokenizer, expected)) => {
                Some(Judgement::of_outcome(outcome_of_choice(reader, sequence, tokenizer, expected)?.outcome))
            }
        };
        builder.begin(index, sequence, reader.header().format_version, whole);
        judge.begin();
        for step in reader.steps(sequence) {
            match step {
                Ok(step) => {
                    let judgement = judge.judge(&step);
                    see(&step, judgement);
                    builder.add(&step, judgement);
                }
                Err(error @ CaptureError::Io { .. }) => return Err(error.into()),
                Err(error) => {
                    eprintln!("warning: {error}");
                    builder.unreadable();
                    judge.begin();
                }
            }
        }
    }
    Ok(())
}

/// Which steps of a capture are not what the model gives.
fn run_again(model: &Loaded, path: &Path) -> anyhow::Result<Divergence> {
    let name = path.display().to_string();
    let recording = &CaptureRecording::new(CaptureReader::open(path)?);
    let bar = progress_bar(&name, recording.requests().len());
    let plain = &model.plain(recording.header())?;
    let divergence =
        divergence(&Job { name: &name, recording, plain, request: None, step: None, progress: &|| bar.inc(1) });
    bar.finish_and_clear();
    Ok(divergence?)
}

/// Forced tokens that are not looked at: the end tokens, unless they shall be.
fn left_out(wanted: &Wanted<'_>, reader: &CaptureReader, notes: &mut Vec<String>) -> Vec<u32> {
    if *wanted.label != Label::ForcedMisrank || wanted.with_end_tokens {
        return Vec::new();
    }
    let ends = reader.header().model.as_ref().and_then(|model| model.end_tokens.clone());
    ends.unwrap_or_else(|| {
        let path = reader.path().display();
        notes.push(format!("{path}: the header names no end tokens, so that they count like any other"));
        Vec::new()
    })
}

fn closing(tokenizer: &Tokenizer) -> anyhow::Result<Vec<u32>> {
    let token = |tag: &&str| tokenizer.token_id(tag).filter(|token| tokenizer.is_special(*token));
    let tokens: Vec<u32> = CLOSING.iter().filter_map(token).map(|token| token.0).collect();
    anyhow::ensure!(
        !tokens.is_empty(),
        "--label missed-close: the tokenizer has none of {} as a token of its own",
        CLOSING.join(", ")
    );
    Ok(tokens)
}
