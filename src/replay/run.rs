//! The replay of one capture: every request by itself, its checks in order.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::batches::Batches;
use super::checks::seeds::ForeignDraws;
use super::checks::{
    accept, applied_mask, commit, drafts, forward, logits, masks, params, prompt, sampler, seeds, signs, termination,
    validity, whole,
};
use super::context::{Context, Masking, Row, Sequence, request_place};
use super::execution::{Execution, run_prompt};
use super::forward::{FeedError, Memory, PlainModel};
use super::gaps::Gaps;
use super::grammars::Grammars;
use super::preflight::{Preflight, PreflightError};
use super::recording::{RecordedRequest, Recording, RequestFault};
use super::recover::{Recovered, recover};
use super::redaction;
use super::remarks;
use super::report::{Place, Report};
use super::rules::{Rules, RulesError};
use super::verdict::{CheckName, Skip, Verdict};
use crate::capture::records::{EventRecord, StopReason};

/// What a replay is to do.
pub struct Job<'a> {
    /// Name of the capture, for reports.
    pub name: &'a str,
    /// The capture.
    pub recording: &'a dyn Recording,
    /// The model, if there is one here.
    pub plain: Option<&'a PlainModel<'a>>,
    /// Why there is none, if there is none.
    pub no_model: &'a str,
    /// The draft model, if the capture was recorded with one and it is here.
    pub draft: Option<&'a PlainModel<'a>>,
    /// The checks to run.
    pub checks: &'a [CheckName],
    /// Called after each request.
    pub progress: &'a (dyn Fn() + Sync),
}

/// Why a capture could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It does not fit to what was given.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
}

/// Runs the checks over every request, in parallel on the current rayon pool.
///
/// Holds the step records of as many requests as there are threads (256 MiB each at most), one row of each, loss
/// records and events (64 MiB each at most), and some 100 bytes per step record of the capture. What does not fit or
/// cannot be read is told in [`Report::damage`] or with the request, and the rest is checked.
///
/// # Errors
/// If the capture was recorded with another model than the one given, or in a format that is not known.
pub fn replay(job: &Job<'_>) -> Result<Report, ReplayError> {
    let model = job.plain.map(PlainModel::model);
    let preflight = Preflight::new(job.name, job.recording.header(), model, job.no_model)?;
    let batches = Batches::of(job.recording);
    let gaps = Gaps::of(job.recording, &batches.unreadable);
    let context = Context {
        name: job.name,
        recording: job.recording,
        plain: job.plain,
        draft: job.draft,
        preflight: &preflight,
        batches,
        gaps,
        grammars: Grammars::new(job.recording.header(), model, preflight.blocked.get(&CheckName::Masks).cloned()),
        failures: failures(job.recording.events()),
        grammar_failures: grammar_failures(job.recording.events()),
        foreign_draws: ForeignDraws::of(job.recording.events()),
        checks: job.checks,
    };
    let requests = job.recording.requests();
    let mut report = context.report();
    report.records = job.recording.record_count().saturating_sub(context.batches.unreadable.total());
    report.damage = context.gaps.in_words.clone();
    if report.records == 0 {
        report.damage.push("it holds no request and no step".to_owned());
    }
    report.guarantees =
        preflight.guarantees.iter().filter(|guarantee| job.checks.contains(&guarantee.check)).cloned().collect();
    let replay_one = |&request: &u64| {
        let report = replay_request(&context, request);
        (job.progress)();
        report
    };
    let merge = |mut before: Report, after: Report| {
        before.merge(after);
        before
    };
    report.enter(CheckName::Commit, Place::default(), whole::check(&context));
    seeds::check_strays(&context, &requests, &mut report);
    let all = requests.par_iter().map(replay_one).reduce(|| context.report(), merge);
    report.merge(all);
    remarks::enter_alike(job.name, &mut report);
    if let Some(verdict) = losses(&context, &report) {
        report.enter(CheckName::Commit, Place::default(), verdict);
    }
    Ok(report)
}

/// The rows that loss records excuse are as many as they say; `None` where rows were not looked at, or where it is not
/// known how many there should be.
fn losses(context: &Context<'_>, report: &Report) -> Option<Verdict> {
    let losses = context.recording.losses().iter().filter(|loss| loss.channel == "logits");
    let messages =
        losses.map(|loss| loss.messages).try_fold(0_u64, |sum, messages| Some(sum.saturating_add(messages?)))?;
    let looked = ROW_CHECKS.into_iter().any(|check| report.wants(check));
    if !looked || context.gaps.records {
        return None;
    }
    let mut verdict = Verdict::new();
    verdict.equal("messages of loss records", report.lost_rows, messages);
    Some(verdict)
}

/// Events that say that a sequence failed, by request, choice and step.
fn failures(events: &[EventRecord]) -> HashMap<(u64, u32, u64), Vec<(u64, String)>> {
    let mut failures: HashMap<(u64, u32, u64), Vec<(u64, String)>> = HashMap::new();
    const KINDS: [&str; 3] = ["invalid_row", "nothing_to_sample", "grammar_failed"];
    for event in events.iter().filter(|event| KINDS.contains(&event.kind.as_str())) {
        if let (Some(request), Some(choice), Some(step)) = (event.request, event.choice, event.step) {
            failures.entry((request, choice, step)).or_default().push((event.time_ns, event.message.clone()));
        }
    }
    failures
}

/// Steps of which events say that the grammar library failed.
fn grammar_failures(events: &[EventRecord]) -> HashSet<(u64, u32, u64)> {
    let failures = events.iter().filter(|event| event.kind == "grammar_failed");
    failures.filter_map(|event| Some((event.request?, event.choice?, event.step?))).collect()
}

fn replay_request(context: &Context<'_>, request: u64) -> Report {
    let mut report = context.report();
    match context.recording.request(request) {
        Ok(recorded) => check_request(context, &recorded, &mut report),
        Err(fault) => enter_fault(context, request, fault, &mut report),
    }
    report
}

/// A request of which there is nothing to check: refused, damaged, too large, or never admitted.
fn enter_fault(context: &Context<'_>, request: u64, fault: RequestFault, report: &mut Report) {
    let place = Place { request: Some(request), ..Place::default() };
    seeds::check_without(context, request, &fault, report);
    match fault {
        RequestFault::Refused { .. } => {}
        RequestFault::RefusedYetRan => {
            let mut verdict = Verdict::new();
            let found = "steps or an end, and no admission";
            verdict.mismatch("refusal", "nothing after it".to_owned(), found.to_owned());
            report.enter(CheckName::Commit, place, verdict);
        }
        RequestFault::NotAdmitted if !context.gaps.records => {
            let mut verdict = Verdict::new();
            verdict.mismatch("admission", "one: other records speak of the request".to_owned(), "none".to_owned());
            report.enter(CheckName::Commit, place, verdict);
        }
        RequestFault::NotAdmitted | RequestFault::Unreadable(_) | RequestFault::TooLarge { .. } => {
            for &check in context.checks {
                report.enter(check, place, Verdict::skipped(Skip::missing(fault.to_string())));
            }
        }
    }
}

fn check_request(context: &Context<'_>, request: &RecordedRequest, report: &mut Report) {
    let admission = &request.admission;
    let place = request_place(admission);
    let rules = match &admission.params {
        Some(fields) => Rules::read(fields),
        None => Err(RulesError::Absent { name: "temperature" }),
    };
    if report.wants(CheckName::Prompt) {
        report.enter(
            CheckName::Prompt,
            place,
            unless_blocked(context, CheckName::Prompt, || prompt::check(context, admission)),
        );
    }
    if report.wants(CheckName::Params) {
        report.enter(
            CheckName::Params,
            place,
            unless_blocked(context, CheckName::Params, || params::check(context, admission)),
        );
    }
    if report.wants(CheckName::Commit) {
        report.enter(CheckName::Commit, place, commit::check_request(context, request));
    }
    let is_failure = |stop: &Option<StopReason>| matches!(stop, Some(StopReason::Failed(_)));
    seeds::check(context, request, report);
    let request_failed =
        request.sequences.iter().flat_map(|sequence| &sequence.steps).any(|step| is_failure(&step.stop));
    let mut prompt_memory = PromptMemory::default();
    for recorded in &request.sequences {
        let mut sequence = Sequence::new(context, admission, recorded, &rules, request_failed);
        // It is no cheap thing to run: the cheap checks take its proposals as they are.
        if ROW_CHECKS.into_iter().any(|check| report.wants(check)) {
            sequence.run_draft_model();
        }
        if GRAMMAR_CHECKS.into_iter().any(|check| report.wants(check)) {
            sequence.follow_grammar();
        }
        if report.wants(CheckName::Commit) {
            commit::check(&sequence, report);
        }
        if report.wants(CheckName::Drafts) && !withheld(&sequence, CheckName::Drafts, report) {
            drafts::check(&sequence, report);
        }
        if report.wants(CheckName::Masks) {
            masks::check(&sequence, report);
        }
        if report.wants(CheckName::Termination) && !withheld(&sequence, CheckName::Termination, report) {
            termination::check(&sequence, report);
        }
        if report.wants(CheckName::Signs) {
            signs::check(&sequence, report);
            remarks::enter(&sequence, report);
        }
        check_rows(&sequence, &mut prompt_memory, report);
    }
}

/// Whether a check cannot be made for what was taken out of the capture, which is entered once per sequence.
fn withheld(sequence: &Sequence<'_>, check: CheckName, report: &mut Report) -> bool {
    let Some(skip) = redaction::blocks(check, sequence.context.recording.header()) else { return false };
    report.enter(check, sequence.place(None, None), Verdict::skipped(skip));
    true
}

/// The checks that ask what the grammar says.
const GRAMMAR_CHECKS: [CheckName; 3] = [CheckName::Drafts, CheckName::Masks, CheckName::Termination];

/// The checks that look at logits rows.
const ROW_CHECKS: [CheckName; 5] =
    [CheckName::Validity, CheckName::Logits, CheckName::Forward, CheckName::Sampler, CheckName::Accept];

/// The prompt's memory, once it was computed: every choice of a request begins with it.
type PromptMemory = Option<Result<Memory, FeedError>>;

/// The checks that look at logits rows, row after row, so that a row is recovered once for all of them.
fn check_rows(sequence: &Sequence<'_>, prompt_memory: &mut PromptMemory, report: &mut Report) {
    use CheckName::{Accept, AppliedMask, Forward, Logits, Sampler, Validity};
    let context = sequence.context;
    let wants_rows = ROW_CHECKS.into_iter().any(|check| report.wants(check));
    if !wants_rows && !report.wants(AppliedMask) {
        return;
    }
    let mut execution = report.wants(Forward).then(|| start(sequence, prompt_memory));
    let no_sampler = redaction::blocks(Sampler, context.recording.header());
    let mut output = Vec::new();
    for (number, step) in sequence.recorded.steps.iter().enumerate() {
        let is_joined = number < sequence.joined;
        let before = output.len();
        for (record, index) in step.rows.iter().zip(0u32..) {
            report.rows += 1;
            let masking = Masking::of(context, record);
            let row = Row { sequence, step, index, record, output: &output, masking: &masking };
            if let Some(verdict) = applied_mask::check(&row) {
                report.enter(AppliedMask, row.place(), verdict);
            }
            if !wants_rows {
                continue;
            }
            let recovered = recover(&row);
            report.lost_rows += u64::from(matches!(recovered, Recovered::Lost(_)));
            let place = row.place();
            report.enter(Validity, place, validity::check(&row, &recovered));
            report.enter(Logits, place, unless_blocked(context, Logits, || logits::check(&row, &recovered)));
            if is_joined {
                if row.is_judged() {
                    let verdict = match &no_sampler {
                        Some(skip) => Verdict::skipped(skip.clone()),
                        None => sampler::check(&row, &recovered),
                    };
                    report.enter(Sampler, place, verdict);
                }
                if let Some(verdict) = accept::check(&row, &recovered) {
                    report.enter(Accept, place, verdict);
                }
                if let Some(execution) = &mut execution {
                    let verdict = match execution {
                        Ok(execution) => forward::check(execution, &row, &recovered),
                        Err(verdict) => verdict.clone(),
                    };
                    report.enter(Forward, place, verdict);
                }
            } else {
                for check in [Sampler, Accept, Forward] {
                    report.enter(check, place, Verdict::skipped(Sequence::not_joined()));
                }
            }
            output.extend(step.emitted.get(index as usize));
        }
        output.truncate(before);
        if !is_joined {
            continue;
        }
        output.extend(&step.emitted);
        if let Some(Ok(execution)) = &mut execution {
            execution.commit(&output);
        }
    }
}

/// The plain execution of the sequence from its prompt, or the verdict on all of its rows.
fn start<'a>(sequence: &'a Sequence<'a>, prompt_memory: &mut PromptMemory) -> Result<Execution<'a>, Verdict> {
    let context = sequence.context;
    if let Some(skip) = context.blocked(CheckName::Forward) {
        return Err(Verdict::skipped(skip));
    }
    let Some(plain) = context.plain else { return Err(Verdict::skipped(context.preflight.no_model())) };
    let prompt = &sequence.admission.prompt_tokens;
    match prompt_memory.get_or_insert_with(|| run_prompt(plain, prompt)) {
        Ok(memory) => Ok(Execution::new(plain, prompt, memory.clone())),
        Err(error) => {
            let mut verdict = Verdict::new();
            verdict.mismatch("prompt_tokens", "tokens that the model can read".to_owned(), error.to_string());
            Err(verdict)
        }
    }
}

fn unless_blocked(context: &Context<'_>, check: CheckName, run: impl FnOnce() -> Verdict) -> Verdict {
    match context.blocked(check) {
        Some(skip) => Verdict::skipped(skip),
        None => run(),
    }
}
