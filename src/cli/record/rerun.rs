//! One request run again, alone, as it was recorded; and, from a place in its answer on, with something changed.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::{Assembly, Options, Settings};
use crate::capture::tap::CaptureTap;
use crate::capture::{CaptureWriter, WriterOptions};
use crate::engine::faults::Fault;
use crate::engine::{Clock, Received, Submission};
use crate::model::Model;
use crate::params::Request;
use crate::types::{RequestId, SequenceId, TokenId};

/// A request as it was recorded.
pub(in crate::cli) struct Asked {
    pub(in crate::cli) number: RequestId,
    pub(in crate::cli) received: Received,
    /// With every parameter as it was resolved.
    pub(in crate::cli) request: Request,
    /// As the model read it.
    pub(in crate::cli) prompt: Vec<TokenId>,
}

/// A change, and where it is made.
pub(in crate::cli) struct Turn {
    /// The sequence, and how many tokens it has emitted by then.
    pub(in crate::cli) sequence: SequenceId,
    pub(in crate::cli) emitted: usize,
    /// The settings from there on.
    pub(in crate::cli) options: Options,
    /// The request from there on.
    pub(in crate::cli) request: Request,
    /// Whether nothing constrains the output any more.
    pub(in crate::cli) is_free: bool,
    /// Whether the grammar begins anew, and takes what was emitted.
    pub(in crate::cli) changes_grammar: bool,
    /// The token that comes next.
    pub(in crate::cli) token: Option<TokenId>,
    /// The planted fault from there on, where that is what changes.
    pub(in crate::cli) fault: Option<Option<Fault>>,
}

/// Records a request anew into the capture that `options` name, with the change if there is one.
///
/// # Errors
/// If the settings do not go together, the engine fails, or the answer never stands where the change is to be made.
pub(in crate::cli) fn rerun(options: &Options, asked: &Asked, turn: Option<&Turn>) -> anyhow::Result<()> {
    let (settings, run) = Settings::resolve(options)?;
    let other = turn.map(|turn| Settings::resolve(&turn.options)).transpose()?.map(|(other, _)| other);
    let clock = Clock::start();
    let model = Model::load(&settings.model)?;
    let room = other.as_ref().map_or(0, |other| other.speculation.room()).max(settings.speculation.room());
    let assembly = Assembly::with_room(&settings, &model, &clock, room)?;
    let prepared = |settings: &Settings, request: &Request| -> anyhow::Result<Submission> {
        let preparation = assembly.preparation(settings, &model, &clock)?;
        let mut submission = preparation.submission(request, asked.received.clone())?;
        // A template may have rendered it at another time.
        submission.prompt.tokens = asked.prompt.clone();
        Ok(submission)
    };
    let submission = prepared(&settings, &asked.request)?;
    let mut pending = match (turn, &other) {
        (Some(turn), Some(other)) => {
            let mut changed = prepared(other, &turn.request)?;
            if turn.is_free {
                changed.grammar = None;
            }
            let vocabulary = model.config.vocabulary_size;
            if let Some(token) = turn.token.filter(|token| token.index() >= vocabulary) {
                anyhow::bail!("--set token={}: accepted: ids below {vocabulary}", token.0);
            }
            let (was, is) = (submission.sampling.max_tokens, changed.sampling.max_tokens);
            ensure!(
                turn.emitted == 0 || is <= was,
                "--set max_tokens={is}: room was set aside for {was} tokens; accepted: up to {was}, or any number at the first step"
            );
            Some((turn, changed, assembly.drafter(other, &model)?, other.speculation.speculation()))
        }
        _ => None,
    };
    let writer = CaptureWriter::create(&run.out, assembly.header.clone(), WriterOptions::default())?;
    let tap = CaptureTap::new(writer, settings.tier);
    let mut engine = assembly.engine(&settings, &model, clock, tap)?.number_from(asked.number);
    let (request, admitted) = engine.submit(submission);
    admitted?;
    while !engine.is_idle() {
        let stands_there = |turn: &Turn| {
            turn.emitted == 0 || engine.emitted(turn.sequence).is_some_and(|emitted| emitted == turn.emitted)
        };
        if let Some((turn, changed, drafter, speculation)) = pending.take_if(|(turn, ..)| stands_there(turn)) {
            engine.change_submission(request, changed, turn.changes_grammar).context("the changed grammar")?;
            engine.change_speculation(drafter, speculation)?;
            if let Some(token) = turn.token {
                engine.force(turn.sequence, token);
            }
            match turn.fault {
                Some(Some(fault)) => engine = engine.inject(fault),
                Some(None) => engine.end_fault(),
                None => {}
            }
        }
        engine.step()?;
        if let Some(error) = engine.tap_mut().take_error() {
            return Err(error).context("recording stopped");
        }
    }
    engine.into_tap().finish().context("the capture is incomplete")?;
    ensure!(pending.is_none(), "the answer never stands where the change is to be made");
    Ok(())
}

/// The options of a run by a `--config` file, written to `out`.
pub(in crate::cli) fn options(config: PathBuf, model: PathBuf, out: PathBuf, fault: Option<Fault>) -> Options {
    Options {
        model: Some(model),
        requests: Some(out.clone()),
        out: Some(out),
        config: Some(config),
        inject: fault.map(super::FaultOption),
        quiet: true,
        ..Options::default()
    }
}
