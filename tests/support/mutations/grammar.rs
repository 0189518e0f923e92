//! Mutations of steps whose output a grammar constrains.

use stepscope::capture::Record;
use stepscope::capture::records::{Admission, ForcedToken, GrammarStep, MaskRecord, RowRecord, StepRecord, StopReason};
use stepscope::replay::CheckName::{AppliedMask, Commit, Logits, Masks, Params, Prompt, Termination};

use super::Expected::{self, Everywhere, Finding, Skipped};
use super::{Mutation, Place, mutation, of_admission, of_completion, of_first, of_header};

/// A request with a JSON schema, and one that has end tokens as ordinary ones.
pub const SCHEMA: u64 = 0;
pub const ENDLESS: u64 = 1;
/// A request that has to call a tool.
const TOOLS: u64 = 6;

/// A step that goes on in the grammar.
fn constrained(step: &StepRecord) -> bool {
    step.stop.is_none() && step.grammar.as_ref().is_some_and(|grammar| !grammar.reasoning)
}

/// A step with a row in which one token has to come.
fn forced(step: &StepRecord) -> bool {
    constrained(step) && step.rows.iter().any(|row| row.forced.is_some() && row.applied_mask.is_some())
}

fn grammar(step: &mut StepRecord) -> &mut GrammarStep {
    step.grammar.as_mut().expect("where the grammar stands is recorded")
}

fn forced_row(step: &mut StepRecord) -> &mut RowRecord {
    let row = step.rows.iter_mut().find(|row| row.forced.is_some() && row.applied_mask.is_some());
    row.expect("a row in which one token has to come")
}

fn forced_token(step: &mut StepRecord) -> &mut ForcedToken {
    forced_row(step).forced.as_mut().expect("a token that has to come")
}

fn other_tool(admission: &mut Admission) {
    admission.body = admission.body.as_ref().map(|body| body.replace("look", "took"));
}

/// Changes the mask that allows most tokens but not all of them.
fn of_mask(field: &'static str, expected: Expected, change: fn(&mut MaskRecord)) -> Mutation {
    mutation(field, expected, move |records| {
        let population = |mask: &MaskRecord| mask.bits.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let masks = records.iter_mut().filter_map(|record| match record {
            Record::Mask(mask) if population(mask) < mask.tokens => Some(mask),
            _ => None,
        });
        change(masks.max_by_key(|mask| population(mask)).expect("the capture has masks"));
        Place::default()
    })
}

fn of_setting(name: &'static str, value: &'static str, expected: Expected) -> Mutation {
    of_header(name, expected, move |header| {
        let setting = header.configuration.iter_mut().find(|setting| setting.name == name);
        setting.expect("the setting is recorded").value = value.to_owned();
    })
}

pub fn table() -> Vec<Mutation> {
    vec![
        of_first("grammar.before", constrained, Finding(Masks), |step| grammar(step).before += 1),
        of_first("grammar.after", constrained, Finding(Masks), |step| grammar(step).after += 1),
        of_first("grammar.terminated", constrained, Finding(Masks), |step| grammar(step).terminated = true),
        of_first("grammar.reasoning", constrained, Finding(Masks), |step| grammar(step).reasoning = true),
        of_first("grammar, unknown", constrained, Finding(Masks), |step| step.grammar = None),
        of_first("row.scheduler_mask", forced, Finding(Masks), |step| forced_row(step).scheduler_mask = Some([1; 32])),
        of_first("row.scheduler_mask, none", forced, Finding(Masks), |step| forced_row(step).scheduler_mask = None),
        of_first("row.applied_mask", forced, Finding(AppliedMask), |step| {
            forced_row(step).applied_mask = Some([1; 32])
        }),
        of_first("row.applied_mask, none", forced, Finding(AppliedMask), |step| forced_row(step).applied_mask = None),
        of_first("row.mask_population", forced, Finding(AppliedMask), |step| {
            forced_row(step).mask_population = Some(2)
        }),
        of_first("forced.token", forced, Finding(Masks), |step| forced_token(step).token ^= 1),
        of_first("forced, none", forced, Finding(Masks), |step| forced_row(step).forced = None),
        of_first("forced.rank", forced, Finding(Logits), |step| forced_token(step).rank = Some(1_000)),
        of_first("forced.margin", forced, Finding(Logits), |step| forced_token(step).margin = Some(-1.0)),
        of_first("emitted", forced, Finding(Masks), |step| step.emitted[0] ^= 1),
        of_first(
            "stop, at the grammar's end",
            |step| step.stop == Some(StopReason::GrammarEnd),
            Finding(Termination),
            |step| {
                step.stop = Some(StopReason::MaxTokens);
            },
        ),
        of_first("stop, before the grammar's end", constrained, Finding(Termination), |step| {
            step.stop = Some(StopReason::GrammarEnd);
        }),
        of_mask("mask.bits", Everywhere(AppliedMask), |mask| mask.bits[20] ^= 1),
        of_mask("mask.tokens", Everywhere(AppliedMask), |mask| mask.tokens -= 1),
        of_mask("mask.hash", Skipped(AppliedMask), |mask| mask.hash = [2; 32]),
        of_admission("constraint.kind", SCHEMA, Finding(Params), |admission| {
            admission.constraint.as_mut().unwrap().kind = "regex".to_owned();
        }),
        of_admission("constraint.source", SCHEMA, Finding(Params), |admission| {
            admission.constraint.as_mut().unwrap().source = "{}".to_owned();
        }),
        of_admission("constraint.begins_after", SCHEMA, Finding(Params), |admission| {
            admission.constraint.as_mut().unwrap().begins_after = None;
        }),
        of_admission("constraint, none", ENDLESS, Finding(Params), |admission| admission.constraint = None),
        mutation("constraint, none, as the steps run", Everywhere(Commit), |records| {
            (of_admission("", SCHEMA, Finding(Commit), |admission| admission.constraint = None).change)(records)
        }),
        of_admission("tool_format", TOOLS, Finding(Prompt), |admission| {
            admission.tool_format = Some("tagged".to_owned());
        }),
        of_admission("tool_format, none", TOOLS, Finding(Prompt), |admission| admission.tool_format = None),
        of_admission("body.tools, for the prompt", TOOLS, Finding(Prompt), other_tool),
        of_admission("body.tools, for the constraint", TOOLS, Finding(Params), other_tool),
        of_completion("tool_calls", TOOLS, Finding(Commit), |completion| {
            completion.tool_calls = Some(r#"[{"name":"took","arguments":"{}"}]"#.to_owned());
        }),
        of_completion("tool_calls, none", TOOLS, Finding(Commit), |completion| completion.tool_calls = None),
        of_completion("tool_calls, of a request without tools", SCHEMA, Finding(Commit), |completion| {
            completion.tool_calls = Some("[]".to_owned());
        }),
        of_setting("grammar.canonical-tokens", "false", Everywhere(Masks)),
        of_setting("grammar.whitespace", "\"none\"", Everywhere(Masks)),
        of_setting("reasoning-end", "\"a\"", Everywhere(Params)),
        of_header("components", Skipped(Masks), |header| {
            for component in &mut header.components {
                component.version = "0.0.1".to_owned();
            }
        }),
    ]
}
