//! The steps of a sequence join up, and so does what the client was told.

mod batch;
mod completion;

pub(in crate::replay) use completion::check_request;

use crate::capture::records::{SchedulerMode, StepPath, StepRecord, StopReason};
use crate::replay::context::Sequence;
use crate::replay::joined::{cached_prefix, ends_prompt, is_prefill, read_by};
use crate::replay::report::Report;
use crate::replay::verdict::{CheckName, Skip, Verdict};

/// Judges every step of a choice against the one before it, and the completion against all of them.
pub(in crate::replay) fn check(sequence: &Sequence<'_>, report: &mut Report) {
    let mut progress = Progress::new(sequence);
    for (index, step) in sequence.recorded.steps.iter().enumerate() {
        let mut verdict = Verdict::new();
        if index < sequence.joined {
            progress.judge(&mut verdict, step);
            progress.advance(step);
        } else {
            verdict.skip(Sequence::not_joined());
        }
        among_others(&mut verdict, sequence, step);
        report.enter(CheckName::Commit, sequence.place(Some(step.step), None), verdict);
    }
    let last = sequence.recorded.steps.last().map(|step| step.step);
    report.enter(CheckName::Commit, sequence.place(last, None), completion::judge_end(sequence));
}

/// The step in its batch, its time and its events.
fn among_others(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord) {
    batch::batch(verdict, sequence, step);
    batch::time(verdict, sequence, step);
    batch::failure(verdict, sequence, step);
}

/// What the steps so far have come to.
struct Progress<'a> {
    sequence: &'a Sequence<'a>,
    previous: Option<&'a StepRecord>,
    /// Positions that the model has read and that were not taken back; `None` where that is not recorded.
    computed: Option<usize>,
    output: Vec<u32>,
    /// Whether the sequence was ended by a step.
    stopped: bool,
}

impl<'a> Progress<'a> {
    fn new(sequence: &'a Sequence<'a>) -> Self {
        Self { sequence, previous: None, computed: Some(0), output: Vec::new(), stopped: false }
    }

    fn prompt(&self) -> &'a [u32] {
        &self.sequence.admission.prompt_tokens
    }

    fn judge(&self, verdict: &mut Verdict, step: &'a StepRecord) {
        self.order(verdict, step);
        self.input(verdict, step);
        self.tokens(verdict, step);
        self.rows(verdict, step);
        self.state(verdict, step);
        if self.sequence.context.is_own() {
            match self.sequence.context.recording.header().format_version {
                1 => undrafted(verdict, step),
                _ => speculation(verdict, self.sequence, step, !is_prefill(step, self.prompt().len())),
            }
            let is_known = !self.sequence.context.is_redacted("constraint");
            if self.sequence.admission.constraint.is_none() && is_known {
                unconstrained(verdict, step);
            }
        }
    }

    fn advance(&mut self, step: &'a StepRecord) {
        self.computed = read_by(step, self.prompt().len());
        self.output.extend(&step.emitted);
        self.stopped |= step.stop.is_some();
        self.previous = Some(step);
    }

    /// Steps and their times go forward, and nothing follows the end.
    fn order(&self, verdict: &mut Verdict, step: &StepRecord) {
        verdict.holds(!self.stopped, "step", "no step after the one that ended the choice", step.step);
        let admitted = self.sequence.admission.time_ns;
        let (before, time_before) = match self.previous {
            Some(previous) => (Some(previous.step), previous.time_ns),
            None => (None, Some(admitted)),
        };
        let later = before.is_none_or(|before| step.step > before);
        verdict.holds(later, "step", format!("after step {}", before.unwrap_or_default()), step.step);
        if let (Some(before), Some(time)) = (time_before, step.time_ns) {
            verdict.holds(time >= before, "time_ns", format!("{before} or later"), time);
        }
    }

    /// Where the step begins, how long it is, what it read, and by which path.
    fn input(&self, verdict: &mut Verdict, step: &StepRecord) {
        let cached = cached_prefix(step, self.previous, self.prompt().len());
        let first = step.first_position as usize;
        match (self.computed, cached) {
            (Some(computed), Some(cached)) => verdict.equal("first_position", computed + cached, first),
            (Some(computed), None) => {
                verdict.holds(first >= computed, "first_position", format!("at least {computed}"), first);
                verdict.skip(Skip::not_recorded("how much came from the prefix cache is not recorded"));
            }
            (None, _) => verdict.skip(Skip::not_recorded("where the step before ended is not recorded")),
        }
        if self.sequence.context.is_own() {
            verdict.equal("whether cached_prefix is recorded", true, step.cached_prefix.is_some());
        }
        if let Some(cached) = cached {
            if self.sequence.context.is_own() {
                verdict.holds(
                    self.previous.is_none() || cached == 0,
                    "cached_prefix",
                    "0 after the first step",
                    cached,
                );
            }
            verdict.holds(
                cached < self.prompt().len().max(1),
                "cached_prefix",
                format!("less than the prompt's {} tokens", self.prompt().len()),
                cached,
            );
        }
        let (path, fed): (StepPath, Option<Vec<u32>>) = if is_prefill(step, self.prompt().len()) {
            let end = step.q_len.map(|length| first + length as usize);
            (StepPath::Prefill, end.and_then(|end| self.prompt().get(first..end)).map(<[u32]>::to_vec))
        } else {
            let last = self.output.last().or(self.prompt().last()).copied();
            let drafts = step.drafts.iter().map(|&draft| u32::try_from(draft).ok());
            let fed = std::iter::once(last).chain(drafts).collect();
            (if step.drafts.is_empty() { StepPath::Decode } else { StepPath::Verify }, fed)
        };
        if let Some(found) = step.path {
            verdict.equal("path", path, found);
        }
        match (path, step.q_len) {
            (StepPath::Prefill, Some(length)) => {
                let left = self.prompt().len().saturating_sub(first);
                let fits = (1..=left).contains(&(length as usize));
                verdict.holds(fits, "q_len", format!("1 to {left}, what is left of the prompt"), length);
            }
            (_, Some(length)) => verdict.equal("q_len", 1 + step.drafts.len() as u32, length),
            (_, None) => verdict.skip(Skip::not_recorded("q_len is not recorded")),
        }
        match (&step.input_tokens, &fed) {
            (Some(found), Some(expected)) => verdict.equal("input_tokens", expected, found),
            (None, _) if path == StepPath::Prefill && self.sequence.context.is_own() => {
                verdict.mismatch("input_tokens", "recorded for a chunk of the prompt".to_owned(), "absent".to_owned());
            }
            _ => {}
        }
        verdict.equal("prev_accepted", self.prev_accepted(step), step.prev_accepted.or(self.unknown(step)));
    }

    /// The accepted length of the step before: none in prefill, 1 after it.
    fn prev_accepted(&self, step: &StepRecord) -> Option<u32> {
        let after_prompt = !is_prefill(step, self.prompt().len());
        self.previous.filter(|_| after_prompt).map(|previous| previous.emitted.len() as u32)
    }

    /// For a foreign recorder that does not say: what is expected.
    fn unknown(&self, step: &StepRecord) -> Option<u32> {
        self.prev_accepted(step).filter(|_| !self.sequence.context.is_own())
    }

    /// What was committed follows from the drafts and the rows.
    fn tokens(&self, verdict: &mut Verdict, step: &StepRecord) {
        let failed = matches!(step.stop, Some(StopReason::Failed(_) | StopReason::Cancelled));
        let gives_none = is_prefill(step, self.prompt().len()) && !ends_prompt(step, self.prompt().len());
        let most = if gives_none { 0 } else { step.drafts.len() + 1 };
        let least = usize::from(!gives_none && !failed);
        let found = step.emitted.len();
        let expected = if least == most { format!("{most} tokens") } else { format!("{least} to {most} tokens") };
        verdict.holds((least..=most).contains(&found), "emitted", expected, format!("{:?}", step.emitted));
        let accepted = step.drafts.iter().zip(&step.emitted).take(found.saturating_sub(1));
        let differs = accepted.clone().position(|(&draft, &token)| draft != i64::from(token));
        verdict.holds(
            differs.is_none(),
            "emitted",
            "the drafts, up to the last token",
            format!("{:?} for drafts {:?}", step.emitted, step.drafts),
        );
    }

    /// One row per token that can come, each after its own position, with the token that came.
    fn rows(&self, verdict: &mut Verdict, step: &StepRecord) {
        let prompt = self.prompt().len();
        let is_prefill = is_prefill(step, prompt);
        let expected =
            if is_prefill { usize::from(ends_prompt(step, self.prompt().len())) } else { step.drafts.len() + 1 };
        if step.rows.is_empty() && !self.sequence.context.is_own() {
            verdict.skip(Skip::not_recorded("the step's rows are not recorded"));
            return;
        }
        verdict.equal("number of rows", expected, step.rows.len());
        let first = (prompt + self.output.len()).saturating_sub(1);
        for (index, row) in step.rows.iter().enumerate() {
            verdict.equal(format!("position of row {index}"), first + index, row.position as usize);
            let emitted = step.emitted.get(index).copied();
            if emitted.is_some() || self.sequence.context.is_own() {
                verdict.equal(format!("token of row {index}"), emitted, row.token);
            }
        }
    }

    /// The recurrent state is read at the column that the step before left.
    fn state(&self, verdict: &mut Verdict, step: &StepRecord) {
        if let Some(model) = self.sequence.context.model().filter(|_| self.sequence.context.is_own()) {
            let is_recurrent = model.config.convolution_width.is_some();
            verdict.equal("whether state is recorded", is_recurrent, step.state.is_some());
        }
        let Some(state) = step.state else { return };
        let column = self.prev_accepted(step).map_or(0, |accepted| accepted.saturating_sub(1));
        verdict.equal("column of state", column, state.column);
        if let Some(before) = self.previous.and_then(|previous| previous.state) {
            verdict.equal("slot of state", before.slot, state.slot);
        }
    }
}

/// What Stepscope's own records say of speculation, and how far: everything of a step that verifies, nothing of one that
/// reads the prompt.
fn speculation(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord, decodes: bool) {
    let scheduler = match sequence.context.setting("scheduling").as_ref().and_then(|mode| mode.as_str()) {
        Some("async") => Some(SchedulerMode::Async),
        Some("sync") => Some(SchedulerMode::Sync),
        _ => None,
    };
    match scheduler {
        Some(scheduler) => verdict.equal("scheduler", Some(scheduler), step.scheduler),
        None => verdict.skip(Skip::not_recorded("how steps are scheduled (`scheduling`) is not recorded")),
    }
    verdict.equal("whether drafts_raw is recorded", decodes, step.drafts_raw.is_some());
    verdict.equal("whether withheld is recorded", decodes, step.withheld.is_some());
    verdict.equal("number of verdicts", decodes.then_some(step.drafts.len()), step.verdicts.as_ref().map(Vec::len));
    let verifies = !step.drafts.is_empty();
    verdict.equal("bonus", verifies.then_some(step.emitted.len() == step.rows.len()), step.bonus);
}

/// What wrote format version 1 did not draft, and said nothing of it.
fn undrafted(verdict: &mut Verdict, step: &StepRecord) {
    verdict.equal("scheduler", Some(SchedulerMode::Sync), step.scheduler);
    let says_nothing = step.drafts_raw.is_none() && step.withheld.is_none() && step.verdicts.is_none();
    verdict.holds(says_nothing && step.bonus.is_none(), "drafts_raw", "nothing: there are no drafts", "something");
}

/// Nothing of a grammar may stand in the records of a request that has none.
fn unconstrained(verdict: &mut Verdict, step: &StepRecord) {
    verdict.holds(step.grammar.is_none(), "grammar", "nothing: there is no grammar", "something");
    for (index, row) in step.rows.iter().enumerate() {
        let unmasked = row.scheduler_mask.is_none()
            && row.applied_mask.is_none()
            && row.mask_population.is_none()
            && row.forced.is_none();
        verdict.holds(unmasked, format!("mask of row {index}"), "no mask: there is no grammar", "a mask");
    }
}
