//! What a step verified follows from what was proposed, and what was proposed from the tokens so far.

use crate::capture::records::{SchedulerMode, StepRecord, WithheldReason};
use crate::replay::constraint::StepTrace;
use crate::replay::context::Sequence;
use crate::replay::drafting::{self, Scheduled};
use crate::replay::report::Report;
use crate::replay::verdict::{CheckName, Skip, Verdict};

/// How the engine that recorded drafts, as its header has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Drafting {
    drafter: String,
    most: usize,
}

/// Checks every step of the choice that is not prefill.
pub(in crate::replay) fn check(sequence: &Sequence<'_>, report: &mut Report) {
    let prompt = &sequence.admission.prompt_tokens;
    let drafting = drafting_of(sequence);
    let mut tokens = prompt.clone();
    for (index, step) in sequence.recorded.steps.iter().enumerate() {
        let grammar = grammar_of(sequence, index);
        if index >= sequence.joined {
            let verdict = Verdict::skipped(Sequence::not_joined());
            report.enter(CheckName::Drafts, sequence.place(Some(step.step), None), verdict);
        } else if step.first_position as usize >= prompt.len() {
            let verdict = check_step(sequence, step, &tokens, drafting.as_ref(), grammar);
            report.enter(CheckName::Drafts, sequence.place(Some(step.step), None), verdict);
        }
        tokens.extend(&step.emitted);
    }
}

fn check_step(
    sequence: &Sequence<'_>,
    step: &StepRecord,
    tokens: &[u32],
    drafting: Option<&Drafting>,
    grammar: Result<Option<&StepTrace>, Skip>,
) -> Verdict {
    let mut verdict = Verdict::new();
    let Some(raw) = &step.drafts_raw else {
        return Verdict::skipped(Skip::not_recorded("what the drafter proposed is not recorded"));
    };
    if sequence.context.is_like_vllm() {
        foreign(&mut verdict, step, raw, &grammar);
        return verdict;
    }
    let Some(drafting) = drafting else {
        return Verdict::skipped(Skip::not_recorded("how the engine drafts is not recorded"));
    };
    proposed(&mut verdict, sequence, step, drafting, tokens, raw, &grammar);
    match scheduled(sequence, step, drafting, tokens, raw, &grammar) {
        Ok(expected) => {
            verdict.equal("drafts", &expected.drafts, &step.drafts);
            match &step.withheld {
                Some(found) => verdict.equal("withheld", &expected.withheld, found),
                None => verdict.skip(Skip::not_recorded("why drafts were withheld is not recorded")),
            }
            let reads_otherwise = expected.drafts.contains(&-1);
            let input = tokens.last().copied().into_iter().chain(expected.read).collect();
            verdict.equal("input_tokens", reads_otherwise.then_some(input), step.input_tokens.clone());
        }
        Err(skip) => verdict.skip(skip),
    }
    verdict
}

/// Runs the drafter again, where its proposals follow from the tokens alone.
fn proposed(
    verdict: &mut Verdict,
    sequence: &Sequence<'_>,
    step: &StepRecord,
    drafting: &Drafting,
    tokens: &[u32],
    raw: &[u32],
    grammar: &Result<Option<&StepTrace>, Skip>,
) {
    let expected = match drafting.drafter.as_str() {
        "none" => Vec::new(),
        "ngram" => drafting::ngram(tokens, drafting.most),
        "grammar" => match grammar {
            Ok(grammar) => grammar.map_or_else(Vec::new, |grammar| grammar.forced.clone()),
            Err(skip) => return verdict.skip(skip.clone()),
        },
        "random" => match sequence.context.vocabulary_size() {
            Some(vocabulary) => drafting::chaos(tokens, sequence.recorded.choice, drafting.most, vocabulary),
            None => return verdict.skip(Skip::not_recorded("the model's vocabulary size is not known")),
        },
        "model" => match sequence.proposals_of(step.step) {
            Ok(proposed) => proposed.iter().map(|&(token, _)| token).collect(),
            Err(skip) => return verdict.skip(skip),
        },
        "scripted" => return verdict.skip(Skip::not_recorded("a script is no part of a capture")),
        other => return verdict.skip(Skip::not_recorded(format!("the drafter `{other}` is not known here"))),
    };
    verdict.equal("drafts_raw", expected.as_slice(), raw);
}

fn scheduled(
    sequence: &Sequence<'_>,
    step: &StepRecord,
    drafting: &Drafting,
    tokens: &[u32],
    raw: &[u32],
    grammar: &Result<Option<&StepTrace>, Skip>,
) -> Result<Scheduled, Skip> {
    let prompt = sequence.admission.prompt_tokens.len();
    let rules = sequence.rules()?;
    let room = sequence.context.room(sequence.admission);
    let most_emitted = match (rules.max_tokens, room) {
        (Some(most), Some(room)) => most.min(room),
        (Some(most), None) => most,
        (None, Some(room)) => room,
        (None, None) => return Err(Skip::not_recorded("neither `max_tokens` nor the context's length is known")),
    };
    let limit = (most_emitted as usize).saturating_sub(tokens.len() - prompt + 1);
    let unknown = || Skip::not_recorded("when queries get their length is not recorded");
    let mode = step.scheduler.ok_or_else(unknown)?;
    let last = *tokens.last().ok_or_else(|| Skip::not_recorded("there is no token that drafts could follow"))?;
    let legal = grammar.as_ref().map_err(Clone::clone)?.map_or(raw.len(), |grammar| grammar.legal);
    Ok(drafting::schedule(raw, legal, limit, drafting.most, mode, last))
}

/// Under vLLM's rules: what was verified is a beginning of what was proposed (sync), or that with -1 from some place on
/// (async), and it ends where the grammar does not go on, or at a limit.
fn foreign(verdict: &mut Verdict, step: &StepRecord, raw: &[u32], grammar: &Result<Option<&StepTrace>, Skip>) {
    let verified: Vec<i64> = step.drafts.iter().copied().take_while(|draft| *draft != -1).collect();
    let begins: Vec<i64> = raw.iter().take(verified.len()).map(|draft| i64::from(*draft)).collect();
    verdict.equal("drafts", begins, verified.clone());
    let after = &step.drafts[verified.len()..];
    verdict.holds(
        after.iter().all(|draft| *draft == -1),
        "drafts",
        "-1 after the first -1",
        format!("{:?}", step.drafts),
    );
    if step.scheduler == Some(SchedulerMode::Sync) {
        verdict.holds(
            after.is_empty(),
            "drafts",
            "none withheld: illegal drafts are trimmed",
            format!("{:?}", step.drafts),
        );
    }
    let withheld = step.withheld.iter().flatten().find(|withheld| withheld.index as usize == verified.len());
    let by_grammar = withheld.is_some_and(|withheld| withheld.reason == WithheldReason::Grammar);
    match grammar {
        Ok(Some(grammar)) => {
            let is_legal = verified.len() <= grammar.legal;
            verdict.holds(
                is_legal,
                "drafts",
                format!("at most the {} that the grammar accepts", grammar.legal),
                verified.len(),
            );
            if by_grammar {
                verdict.equal("number of legal drafts", grammar.legal, verified.len());
            }
        }
        Ok(None) => verdict.holds(!by_grammar, "withheld", "no grammar to withhold a draft", format!("{withheld:?}")),
        Err(skip) => verdict.skip(skip.clone()),
    }
    verdict.skip(Skip::not_recorded("how vLLM drafts is not repeated here: proposals are taken as they are"));
}

/// What the grammar says of a step; `None` where there is no grammar.
fn grammar_of<'a>(sequence: &'a Sequence<'_>, index: usize) -> Result<Option<&'a StepTrace>, Skip> {
    let Some(grammar) = &sequence.grammar else { return Ok(None) };
    let trace = grammar.as_ref().map_err(Clone::clone)?;
    trace.steps.get(index).map(Some).ok_or_else(|| trace.lost())
}

/// The header's word on drafting.
fn drafting_of(sequence: &Sequence<'_>) -> Option<Drafting> {
    let context = sequence.context;
    if !context.is_own() {
        return None;
    }
    let drafter = context.setting("drafter")?.as_str()?.to_owned();
    let most = match drafter.as_str() {
        "none" => 0,
        _ => context.most_drafts()?,
    };
    Some(Drafting { drafter, most })
}
