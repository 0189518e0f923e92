//! The steps of a sequence join up, and so does what the client was told.

use crate::capture::records::{Completion, SchedulerMode, StepPath, StepRecord, StopReason, Timings};
use crate::replay::context::{Context, Sequence};
use crate::replay::ending::{self, Limits};
use crate::replay::recording::RecordedRequest;
use crate::replay::report::Report;
use crate::replay::verdict::{CheckName, Skip, Verdict};

/// Judges every step of a choice against the one before it, and the completion against all of them.
pub(in crate::replay) fn check(sequence: &Sequence<'_>, report: &mut Report) {
    let mut progress = Progress::new(sequence);
    for step in &sequence.recorded.steps {
        let mut verdict = Verdict::new();
        progress.judge(&mut verdict, step);
        progress.advance(step);
        report.enter(CheckName::Commit, sequence.place(Some(step.step), None), verdict);
    }
    let last = sequence.recorded.steps.last().map(|step| step.step);
    report.enter(CheckName::Commit, sequence.place(last, None), judge_end(sequence));
}

/// What the steps so far have come to.
struct Progress<'a> {
    sequence: &'a Sequence<'a>,
    previous: Option<&'a StepRecord>,
    /// Positions that the model has read and that were not taken back.
    computed: usize,
    output: Vec<u32>,
    /// Whether the prompt's end has given its row.
    past_prompt: bool,
    /// Whether the sequence was ended by a step.
    stopped: bool,
}

impl<'a> Progress<'a> {
    fn new(sequence: &'a Sequence<'a>) -> Self {
        Self { sequence, previous: None, computed: 0, output: Vec::new(), past_prompt: false, stopped: false }
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
        batch(verdict, self.sequence, step);
        time(verdict, self.sequence, step);
        failure(verdict, self.sequence, step);
        if self.sequence.context.is_own() {
            nothing_speculative(verdict, step);
        }
    }

    fn advance(&mut self, step: &'a StepRecord) {
        let first = step.first_position as usize;
        self.computed = if is_prefill(step, self.prompt().len()) {
            first + step.q_len.map_or(0, |length| length as usize)
        } else {
            first + step.emitted.len()
        };
        self.output.extend(&step.emitted);
        self.past_prompt |= !step.emitted.is_empty();
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
        let cached = step.cached_prefix.unwrap_or(0) as usize;
        verdict.equal("first_position", self.computed + cached, step.first_position as usize);
        if self.sequence.context.is_own() {
            verdict.equal("whether cached_prefix is recorded", true, step.cached_prefix.is_some());
            verdict.holds(self.previous.is_none() || cached == 0, "cached_prefix", "0 after the first step", cached);
        }
        verdict.holds(
            cached < self.prompt().len().max(1),
            "cached_prefix",
            format!("less than the prompt's {} tokens", self.prompt().len()),
            cached,
        );
        let first = step.first_position as usize;
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
        let end = step.first_position as usize + step.q_len.map_or(0, |length| length as usize);
        let gives_none = is_prefill(step, self.prompt().len()) && end < self.prompt().len();
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
        let end = step.first_position as usize + step.q_len.map_or(1 + step.drafts.len(), |length| length as usize);
        let expected = if is_prefill(step, prompt) { usize::from(end == prompt) } else { step.drafts.len() + 1 };
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

/// Whether the step reads the prompt: it starts before the prompt's end.
fn is_prefill(step: &StepRecord, prompt: usize) -> bool {
    (step.first_position as usize) < prompt
}

/// The batch as this step saw it is the batch as the others saw it.
fn batch(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord) {
    let members = sequence.context.batches.members(step.step);
    let myself = (sequence.admission.request, sequence.recorded.choice);
    let index = members.iter().position(|member| (member.request, member.choice) == myself);
    let once = members.iter().filter(|member| (member.request, member.choice) == myself).count();
    verdict.equal("records of this step", 1, once);
    if let Some(place) = &step.batch {
        let others: Vec<(u64, u32)> =
            members.iter().map(|member| (member.request, member.choice)).filter(|&member| member != myself).collect();
        if sequence.context.has_gaps() {
            verdict.skip(Skip::missing("the damaged capture may lack records of neighbours"));
        } else {
            verdict.equal("slot in the batch", index, Some(place.slot as usize));
            verdict.equal("neighbours", &others, &place.neighbours);
        }
    } else if sequence.context.is_own() {
        verdict.mismatch("batch", "recorded".to_owned(), "absent".to_owned());
    }
    for other in members.iter().filter(|member| (member.request, member.choice) != myself) {
        if let (Some(place), Some(others)) = (&step.batch, other.slot) {
            let expected = format!("not {others}, where {}.{} is", other.request, other.choice);
            verdict.holds(place.slot != others, "slot in the batch", expected, place.slot);
        }
        if let (Some(slot), Some(others)) = (step.state.map(|state| state.slot), other.state_slot) {
            let expected = format!("not {others}, which {}.{} has", other.request, other.choice);
            verdict.holds(slot != others, "slot of state", expected, slot);
        }
        if let (Some(time), Some(others)) = (step.time_ns, other.time_ns) {
            verdict.holds(
                time == others,
                "time_ns",
                format!("{others}, as {}.{} has", other.request, other.choice),
                time,
            );
        }
        if let (Some(timings), Some(others)) = (step.timings, other.timings) {
            verdict.equal("timings", others, timings);
        }
    }
}

/// The step's work fits between the end of the step before it, whoever was in that, and its own.
fn time(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord) {
    let before = step.step.checked_sub(1).and_then(|before| sequence.context.batches.time_ns(before));
    let (Some(timings), Some(time), Some(before)) = (step.timings, step.time_ns, before) else { return };
    let Timings { schedule_ns, forward_ns, sample_ns } = timings;
    let work = [schedule_ns, forward_ns, sample_ns].into_iter().fold(0, u64::saturating_add);
    let most = time.saturating_sub(before);
    verdict.holds(work <= most, "timings", format!("{most} ns at most: the step before ended at {before} ns"), work);
}

/// A failure is an event, in the same words, and such an event is a failure.
fn failure(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord) {
    if !sequence.context.is_own() || sequence.context.has_gaps() {
        return;
    }
    let place = (sequence.admission.request, sequence.recorded.choice, step.step);
    let events = sequence.context.failures.get(&place).map_or(&[][..], Vec::as_slice);
    let failures: Vec<&str> = match &step.stop {
        Some(StopReason::Failed(message)) => vec![message],
        _ => Vec::new(),
    };
    verdict.equal("events of a failure", failures, events.iter().map(|(_, message)| message.as_str()).collect());
    for (time, _) in events {
        verdict.equal("time_ns of the event", step.time_ns, Some(*time));
    }
}

/// Stepscope's engine neither drafts nor constrains yet: nothing of the kind may stand in its records.
fn nothing_speculative(verdict: &mut Verdict, step: &StepRecord) {
    let empty = |name: &'static str, is_empty: bool, verdict: &mut Verdict| {
        verdict.holds(is_empty, name, "nothing: there are no drafts and no grammar", "something");
    };
    let has_drafts = !step.drafts.is_empty();
    verdict.equal("scheduler", Some(SchedulerMode::Sync), step.scheduler);
    empty("drafts_raw", has_drafts || step.drafts_raw.as_ref().is_none_or(Vec::is_empty), verdict);
    empty("withheld", has_drafts || step.withheld.as_ref().is_none_or(Vec::is_empty), verdict);
    empty("verdicts", has_drafts || step.verdicts.as_ref().is_none_or(Vec::is_empty), verdict);
    empty("bonus", has_drafts || step.bonus != Some(true), verdict);
    empty("grammar", step.grammar.is_none(), verdict);
    for (index, row) in step.rows.iter().enumerate() {
        let unmasked = row.scheduler_mask.is_none() && row.applied_mask.is_none() && row.mask_population.is_none();
        verdict.holds(unmasked, format!("mask of row {index}"), "no mask: there is no grammar", "a mask");
    }
}

/// The choice ended once, with as many tokens and the text that its steps emitted.
fn judge_end(sequence: &Sequence<'_>) -> Verdict {
    let mut verdict = Verdict::new();
    let context = sequence.context;
    let steps = &sequence.recorded.steps;
    let completion = match sequence.recorded.completions.as_slice() {
        [completion] => completion,
        [] if context.has_gaps() => {
            return Verdict::skipped(Skip::missing("the choice's end is not in the damaged capture"));
        }
        completions => {
            verdict.mismatch("completion", "one".to_owned(), completions.len().to_string());
            return verdict;
        }
    };
    let failed = matches!(completion.stop, Some(StopReason::Failed(_) | StopReason::Cancelled));
    verdict.holds(failed || !steps.is_empty(), "steps", "at least one for a choice that did not fail", steps.len());
    if let Some(last) = steps.last() {
        match &last.stop {
            Some(stop) => verdict.equal("stop of the completion", Some(stop), completion.stop.as_ref()),
            None if context.has_gaps() => verdict.skip(Skip::missing("the last step may be missing")),
            None => {
                let expected = "a stop reason in the last step, as the completion has";
                verdict.holds(failed || !context.is_own(), "stop of the last step", expected, "none");
            }
        }
        if let Some(time) = last.time_ns {
            verdict.holds(
                completion.time_ns >= time,
                "time_ns of the completion",
                format!("{time} or later"),
                completion.time_ns,
            );
        }
    }
    let emitted = sequence.recorded.emitted();
    if context.has_gaps() {
        verdict.skip(Skip::missing("the damaged capture may lack steps of the choice"));
        return verdict;
    }
    verdict.equal("emitted_tokens", emitted.len() as u32, completion.emitted_tokens);
    same_text(&mut verdict, sequence, completion, &emitted);
    verdict
}

/// The text is that of the emitted tokens, without what ended it.
fn same_text(verdict: &mut Verdict, sequence: &Sequence<'_>, completion: &Completion, emitted: &[u32]) {
    let Some(found) = completion.text.as_deref() else {
        verdict.skip(Skip::not_recorded("the choice's text is not recorded"));
        return;
    };
    let Some(model) = sequence.context.model() else {
        verdict.skip(sequence.context.preflight.no_model());
        return;
    };
    let tokenizer = &model.tokenizer;
    let (rules, end_tokens) = match (sequence.rules(), sequence.context.end_tokens()) {
        (Ok(rules), Some(end_tokens)) => (rules, end_tokens),
        (Err(skip), _) => return verdict.skip(skip),
        (_, None) => return verdict.skip(Skip::not_recorded("the model's end tokens are not known")),
    };
    let room = sequence.context.room(sequence.admission);
    let limits = Limits { rules, end_tokens: &end_tokens, room, tokenizer: Some(tokenizer) };
    match ending::ending(emitted, &limits) {
        Some(ending) => verdict.equal("text", ending::text(emitted, &ending, tokenizer).as_str(), found),
        // A failure cuts the text where it was certain.
        None => {
            let whole = ending::lossy_text(emitted, tokenizer);
            verdict.holds(whole.starts_with(found), "text", format!("a beginning of {whole:?}"), format!("{found:?}"));
        }
    }
}

/// The request's choices are there, and its records agree on whose it is.
pub(in crate::replay) fn check_request(context: &Context<'_>, request: &RecordedRequest) -> Verdict {
    let mut verdict = Verdict::new();
    let admission = &request.admission;
    let choices: Vec<u32> = request.sequences.iter().map(|sequence| sequence.choice).collect();
    if context.has_gaps() {
        verdict.skip(Skip::missing("the damaged capture may lack choices"));
    } else {
        verdict.equal("choices", (0..admission.choices).collect(), choices);
    }
    // An owner that is a request is the request itself.
    let number = admission.owner.as_deref().and_then(|owner| owner.strip_prefix("request "));
    if let Some(number) = number.filter(|_| context.is_own()) {
        verdict.equal("owner", admission.request.to_string().as_str(), number);
    }
    verdict
}
