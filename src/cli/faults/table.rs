//! The table, for people and for machines.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};

use super::cause::{Condition, Correlated, Operation};
use super::teeth::{Bite, Honest};
use crate::engine::faults::Fault;
use crate::replay::FINDINGS_KEPT;

pub(super) fn table_json(bites: &[Bite], honest: &Honest) -> Value {
    let line = |bite: &Bite| {
        let correlated = bite.correlated.as_ref();
        let condition = correlated.and_then(|correlated| correlated.condition.as_ref());
        let operation = bite.operation.as_ref();
        let caught: BTreeMap<&str, u64> = bite.caught.iter().map(|(check, count)| (check.as_str(), *count)).collect();
        json!({
            "fault": bite.fault.name(),
            "check": bite.fault.check(),
            "is_caught": bite.way.is_some(),
            "way": bite.way,
            "answers_changed": bite.changed,
            "caught_in": bite.caught_in,
            "findings_elsewhere": bite.elsewhere,
            "findings": caught,
            "first": bite.first,
            "label": correlated.map(|correlated| correlated.label.to_string()),
            "bad_steps": correlated.map(|correlated| correlated.bad_steps),
            "condition": condition.map(|found| found.predicate.as_str()),
            "condition_counts": condition.map(|found| {
                let counts = found.counts;
                json!({"true": [counts.failing_true, counts.all_true], "false": [counts.failing_false, counts.all_false]})
            }),
            "condition_equivalents": condition.map(|found| &found.equivalents),
            "condition_expected": bite.fault.condition().map(|expected| expected.predicate),
            "condition_is_own": bite.fault.condition().map(|expected| expected.is_own),
            "layer": operation.and_then(|found| found.layer),
            "operation": operation.map(|found| json!([found.name, found.how])),
            "operation_expected": bite.fault.operation(),
            "is_explained": bite.is_explained(),
        })
    };
    json!({
        "clean": {"step_records": honest.steps, "rows": honest.rows, "findings": honest.findings,
            "conditions": honest.conditions, "operations": honest.operations},
        "faults": bites.iter().map(line).collect::<Vec<_>>(),
    })
}

pub(super) fn table(out: &mut dyn Write, bites: &[Bite], honest: &Honest) -> anyhow::Result<()> {
    let Honest { steps, rows, findings, conditions, operations } = honest;
    let caught = bites.iter().filter(|bite| bite.way.is_some()).count();
    writeln!(out, "# The teeth table\n")?;
    writeln!(
        out,
        "Made by `stepscope faults --teeth`: {caught} of {} planted faults change an answer and are caught where they do, by the \
         check that should catch them; clean runs of the same requests, {steps} step records and {rows} logits rows, have \
         {findings} findings, and there {} go with any bad steps and {} differ.\n",
        bites.len(),
        told(conditions.len(), "conditions"),
        told(operations.len(), "operations"),
    )?;
    writeln!(
        out,
        "A finding counts in a request whose answer differs from that of the clean run, from the first step on that the \
         clean run's capture does not have so (admission and end included). `caught in` is the number of such requests in which \
         the check has one, and `elsewhere` the number of findings of any check in requests, or before steps, that the fault did \
         not touch; both among the first {FINDINGS_KEPT} findings that a report keeps.\n"
    )?;
    writeln!(
        out,
        "`condition` is what `correlate` ranks first, with the bad steps among those where it holds and where it does not. Bad are \
         the steps in which the check that should catch the fault has findings (`finding:CHECK`); where that is `forward` or `logits`, \
         those that are not what the model gives (`diverged`). Of each answer the first bad step counts, and so `beside` marks a condition that \
         holds where the fault acts first and is not what decides whether it does: that is no column, or tells less of these few steps. `none` stands where no condition goes with them, and `-` where the \
         findings are not of steps, but of how a request was taken in or what was told of its answer. `operation` is what `localize` \
         names; `none` where every row is what the model gives. Of the clean runs, the bad steps are those of `finding`, of `diverged`, \
         and of `forced-misrank`.\n"
    )?;
    writeln!(
        out,
        "| fault | what goes wrong | shows in | answers changed | should be caught by | caught in | elsewhere | findings | condition | operation |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for bite in bites {
        let found: Vec<String> = bite.caught.iter().map(|(check, count)| format!("{check} {count}")).collect();
        let way_is_known = bite.way.is_some();
        let way = bite.way.unwrap_or("**nothing: MISSED**");
        let Bite { fault, changed, caught_in, elsewhere, correlated, operation, .. } = bite;
        writeln!(
            out,
            "| `{fault}` | {} | {way} | {changed} | {} | {caught_in} | {elsewhere} | {} | {} | {} |",
            fault.description(),
            fault.check(),
            found.join(", "),
            correlated.as_ref().map_or("-".to_owned(), |correlated| condition_cell(*fault, correlated)),
            if way_is_known { operation_cell(operation.as_ref()) } else { "-".to_owned() },
        )?;
    }
    Ok(())
}

fn told(count: usize, what: &str) -> String {
    if count == 0 { format!("no {what}") } else { format!("{count} {what}") }
}

/// The condition with its counts; a vertical bar would end the cell, and no expression has one.
fn condition_cell(fault: Fault, correlated: &Correlated) -> String {
    match &correlated.condition {
        Some(Condition { predicate, counts, .. }) => {
            let beside = if fault.condition().is_some_and(|expected| expected.is_own) { "" } else { "beside: " };
            format!(
                "{beside}`{predicate}`: {} of {} against {} of {}, by `{}`",
                counts.failing_true, counts.all_true, counts.failing_false, counts.all_false, correlated.label
            )
        }
        None if correlated.bad_steps > 0 => format!("none, by `{}`", correlated.label),
        None => "-".to_owned(),
    }
}

fn operation_cell(operation: Option<&Operation>) -> String {
    match operation {
        Some(Operation { layer: Some(layer), name, how }) => format!("layer {layer}, {name}: {how}"),
        Some(Operation { layer: None, name, how }) => format!("{name}: {how}"),
        None => "none".to_owned(),
    }
}
