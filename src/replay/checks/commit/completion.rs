//! The end of a choice, and the choices of a request.

use crate::capture::records::{Completion, StopReason};
use crate::replay::checks::params::asked_for;
use crate::replay::context::{Context, Sequence};
use crate::replay::ending::{self, Limits};
use crate::replay::recording::RecordedRequest;
use crate::replay::tools::{self, Answer, Callable, Judgement, Spelled, format_of, tools_of};
use crate::replay::verdict::{Skip, Verdict};
use crate::tools::ToolChoice;

/// The choice ended once, with as many tokens and the text that its steps emitted.
pub(super) fn judge_end(sequence: &Sequence<'_>) -> Verdict {
    let mut verdict = Verdict::new();
    let context = sequence.context;
    let steps = &sequence.recorded.steps;
    let completion = match sequence.recorded.completions.as_slice() {
        [completion] => completion,
        [] if context.gaps.records => {
            return Verdict::skipped(Skip::missing("the choice's end is not in the capture"));
        }
        completions => {
            verdict.mismatch("completion", "one".to_owned(), completions.len().to_string());
            return verdict;
        }
    };
    let failed = matches!(completion.stop, Some(StopReason::Failed(_) | StopReason::Cancelled));
    let may_be_empty = failed || context.gaps.records;
    verdict.holds(
        may_be_empty || !steps.is_empty(),
        "steps",
        "at least one for a choice that did not fail",
        steps.len(),
    );
    if let Some(last) = steps.last() {
        match &last.stop {
            Some(stop) => verdict.equal("stop of the completion", Some(stop), completion.stop.as_ref()),
            None if context.gaps.records => verdict.skip(Skip::missing("the last step may be missing")),
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
    if context.gaps.records {
        verdict.skip(Skip::missing("steps of the choice may be missing"));
        return verdict;
    }
    verdict.equal("emitted_tokens", emitted.len() as u32, completion.emitted_tokens);
    same_text(&mut verdict, sequence, completion, &emitted);
    same_calls(&mut verdict, sequence, completion, &emitted);
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
    // Whether the grammar was complete there is for the check `termination`.
    let grammar_end = matches!(completion.stop, Some(StopReason::GrammarEnd)).then_some(emitted.len());
    let limits = Limits { rules, end_tokens: &end_tokens, room, tokenizer: Some(tokenizer), grammar_end };
    match ending::ending(emitted, &limits) {
        Some(ending) => verdict.equal("text", ending::text(emitted, &ending, tokenizer).as_str(), found),
        // A failure cuts the text where it was certain.
        None => {
            let whole = ending::lossy_text(emitted, tokenizer);
            verdict.holds(whole.starts_with(found), "text", format!("a beginning of {whole:?}"), format!("{found:?}"));
        }
    }
}

/// The calls are those that the emitted tokens spell.
fn same_calls(verdict: &mut Verdict, sequence: &Sequence<'_>, completion: &Completion, emitted: &[u32]) {
    let context = sequence.context;
    if !context.is_own() {
        return;
    }
    if ["body", "tool_calls", "emitted"].into_iter().any(|field| context.is_redacted(field)) {
        return verdict.skip(Skip::missing("calls are redacted in the capture, or what they answer"));
    }
    let body = sequence.admission.body.as_deref().and_then(|body| serde_json::from_str(body).ok());
    let failed = matches!(completion.stop, Some(StopReason::Failed(_) | StopReason::Cancelled));
    let Some(tools) = body.as_ref().and_then(tools_of).filter(|_| !failed) else {
        return verdict.equal("tool_calls", None, completion.tool_calls.as_deref());
    };
    let Some(model) = context.model() else { return verdict.skip(context.preflight.no_model()) };
    let format = match format_of(context) {
        Ok(format) => format,
        Err(skip) => return verdict.skip(skip),
    };
    let Some(end_tokens) = context.end_tokens() else {
        return verdict.skip(Skip::not_recorded("the model's end tokens are not known"));
    };
    let told = tools::without_end(emitted, &end_tokens, completion.stop.as_ref());
    let callable = Callable::new(&tools.tools);
    let calls = tools::calls_json(&Spelled::new(told, &model.tokenizer), format, &callable);
    verdict.equal("tool_calls", Some(calls.to_string()), completion.tool_calls.clone());
    if tools.choice == ToolChoice::None || body.as_ref().is_none_or(|body| asked_for(body).is_some()) {
        return;
    }
    let Some(begins) = tools::begins(sequence.admission, emitted) else { return };
    // The grammar takes an end token at its end alone.
    let last_ends = emitted.last().is_some_and(|token| end_tokens.contains(token));
    let spelled = Spelled::new(told.get(begins..).unwrap_or_default(), &model.tokenizer);
    let answer = Answer { spelled: &spelled, is_complete: last_ends, tools: &tools, callable: &callable, format };
    // What a reasoning section spells is read, too, and no part of what was asked for.
    let told_calls = (begins == 0).then_some(completion.tool_calls.as_deref());
    as_asked(verdict, &answer, told_calls);
}

/// An answer that a request's tools constrained is text, or calls as they were asked for; one that was cut short begins so.
/// `told_calls` is what its client was told that it calls, where nothing but the answer can have called that.
fn as_asked(verdict: &mut Verdict, answer: &Answer<'_>, told_calls: Option<Option<&str>>) {
    match tools::judge(answer) {
        Judgement::AsAsked { calls, not_judged } => {
            verdict.agrees();
            if let (Some(calls), Some(told)) = (calls, told_calls) {
                verdict.equal("tool_calls of an answer as asked", Some(calls.to_string().as_str()), told);
            }
            for what in not_judged {
                verdict.skip(Skip::not_recorded(format!("of an answer with tools, it is not judged: {what}")));
            }
        }
        Judgement::Breach { expected, found } => verdict.mismatch("answer with tools", expected, found),
        Judgement::Beyond(what) => {
            verdict.skip(Skip::not_recorded(format!("an answer with tools is beyond what this reader reads: {what}")));
        }
    }
}

/// The request's choices are there, and its records agree on whose it is.
pub(in crate::replay) fn check_request(context: &Context<'_>, request: &RecordedRequest) -> Verdict {
    let mut verdict = Verdict::new();
    let admission = &request.admission;
    let choices: Vec<u32> = request.sequences.iter().map(|sequence| sequence.choice).collect();
    if context.gaps.records {
        verdict.skip(Skip::missing("choices may be missing"));
    } else {
        // Counted first: a file may claim any number.
        verdict.equal("choices", u64::from(admission.choices), choices.len() as u64);
        let misplaced = choices.iter().zip(0..).find(|(choice, place)| **choice != *place);
        verdict.equal("choice out of order", None, misplaced.map(|(choice, _)| *choice));
    }
    if let Some(error) = &request.refusal {
        verdict.mismatch("refusal", "none: the request was admitted".to_owned(), format!("{error:?}"));
    }
    // An owner that is a request is the request itself.
    let number = admission.owner.as_deref().and_then(|owner| owner.strip_prefix("request "));
    if let Some(number) = number.filter(|_| context.is_own()) {
        verdict.equal("owner", admission.request.to_string().as_str(), number);
    }
    verdict
}
