//! The sequence ended when it had to, and for the recorded reason.

use crate::capture::records::{Completion, StepRecord, StopReason};
use crate::replay::context::Sequence;
use crate::replay::ending::{Ending, Limits, ending};
use crate::replay::report::Report;
use crate::replay::verdict::{CheckName, Skip, Verdict};

/// Judges every step of a choice, and its completion.
pub(in crate::replay) fn check(sequence: &Sequence<'_>, report: &mut Report) {
    let expected = expected(sequence);
    let mut before = 0;
    for (index, step) in sequence.recorded.steps.iter().enumerate() {
        let verdict = match &expected {
            _ if index >= sequence.joined => Verdict::skipped(Sequence::not_joined()),
            Ok(expected) => judge_step(sequence.context.is_own(), step, before, expected.as_ref()),
            Err(skip) => Verdict::skipped(skip.clone()),
        };
        report.enter(CheckName::Termination, sequence.place(Some(step.step), None), verdict);
        before += step.emitted.len();
    }
    for completion in &sequence.recorded.completions {
        let verdict = match &expected {
            _ if sequence.joined < sequence.recorded.steps.len() => Verdict::skipped(Sequence::not_joined()),
            Ok(expected) => judge_completion(sequence, completion, before, expected.as_ref()),
            Err(skip) => Verdict::skipped(skip.clone()),
        };
        let last = sequence.recorded.steps.last().map(|step| step.step);
        report.enter(CheckName::Termination, sequence.place(last, None), verdict);
    }
}

/// Where the emitted tokens end the sequence, by its parameters; `None` if they do not.
fn expected(sequence: &Sequence<'_>) -> Result<Option<Ending>, Skip> {
    let rules = sequence.rules()?;
    let context = sequence.context;
    let end_tokens = context.end_tokens().ok_or_else(|| Skip::not_recorded("the model's end tokens are not known"))?;
    let tokenizer = context.model().map(|model| &*model.tokenizer);
    if tokenizer.is_none() && !rules.stop.is_empty() {
        return Err(context.preflight.no_model());
    }
    let room = context.room(sequence.admission);
    // Only of a request that has end tokens as ordinary ones does its grammar say more than the tokens do.
    let grammar_end = match &sequence.grammar {
        Some(Err(skip)) if rules.ignore_eos => return Err(skip.clone()),
        Some(Ok(trace)) => trace.ended_after,
        Some(Err(_)) | None => None,
    };
    let limits = Limits { rules, end_tokens: &end_tokens, room, tokenizer, grammar_end };
    let ending = ending(&sequence.known_output(), &limits);
    let is_string = |stop: &StopReason| matches!(stop, StopReason::StopString(_));
    let is_recorded = || sequence.recorded.steps.iter().filter_map(|step| step.stop.as_ref()).any(is_string);
    // The step that completes a stop string may be followed by others until the one who looks for it has spoken.
    if !context.is_own() && ending.as_ref().is_some_and(|ending| is_string(&ending.reason)) && !is_recorded() {
        return Err(Skip::not_recorded("this engine looks for stop strings apart from its steps"));
    }
    Ok(ending)
}

fn judge_step(is_own: bool, step: &StepRecord, before: usize, expected: Option<&Ending>) -> Verdict {
    let mut verdict = Verdict::new();
    let after = before + step.emitted.len();
    let ends_here = expected.filter(|ending| before < ending.tokens && ending.tokens <= after);
    if let Some(ending) = expected.filter(|ending| ending.tokens < after) {
        let expected = format!("nothing after token {}, where {:?} ends the sequence", ending.tokens, ending.reason);
        verdict.mismatch("emitted", expected, format!("{:?}", step.emitted));
    }
    match (&step.stop, ends_here) {
        // What comes from outside of the tokens.
        (Some(StopReason::Cancelled), None) => verdict.agrees(),
        (Some(StopReason::GrammarEnd), None) if !is_own => verdict.agrees(),
        (Some(StopReason::Failed(_)), None) => {
            // Another engine may fail after it has committed.
            let some_row_gave_none = !is_own || step.emitted.len() < step.rows.len();
            let found = format!("{} rows, {} tokens", step.rows.len(), step.emitted.len());
            verdict.holds(some_row_gave_none, "stop", "a failure has a row that gave no token", found);
        }
        (found, ends_here) => verdict.equal("stop", ends_here.map(|ending| &ending.reason), found.as_ref()),
    }
    verdict
}

fn judge_completion(
    sequence: &Sequence<'_>,
    completion: &Completion,
    emitted: usize,
    expected: Option<&Ending>,
) -> Verdict {
    let mut verdict = Verdict::new();
    let Some(stop) = &completion.stop else {
        return Verdict::skipped(Skip::not_recorded("the stop reason is not recorded"));
    };
    match (stop, expected) {
        (StopReason::Cancelled, None) => verdict.agrees(),
        (StopReason::GrammarEnd, None) if !sequence.context.is_own() => verdict.agrees(),
        (StopReason::Failed(_), None) => {
            let expected = "a failure that a step of the request shows, or no step at all";
            let shown = sequence.request_failed || sequence.recorded.steps.is_empty();
            if !shown && sequence.context.gaps.records {
                verdict.skip(Skip::missing("the step that failed may be missing"));
                return verdict;
            }
            verdict.holds(shown, "stop", expected, format!("{stop:?}"));
        }
        (stop, Some(ending)) => verdict.equal("stop", &ending.reason, stop),
        (stop, None) if sequence.context.gaps.records => {
            verdict.skip(Skip::missing(format!("{stop:?} cannot be derived: steps may be missing")));
        }
        (stop, None) => {
            let expected = format!("no end yet: nothing in the {emitted} tokens ends the sequence");
            verdict.mismatch("stop", expected, format!("{stop:?}"));
        }
    }
    verdict
}
