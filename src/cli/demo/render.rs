//! The story, for people and for machines.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::Story;
use super::cause::{Cause, Condition};
use super::runs::Run;
use super::table::{Split, Steps, Table};
use crate::cli::bisect::Difference;
use crate::forensics::localize::{self, Difference as Departure};
use crate::forensics::repetition::Call;
use crate::incident;

/// One object: `requests`, `broken`, `outcomes`, `records`, `rows`, `findings` and `findings_by_check` by run, `table`
/// and `end_token` of the run with the fault as [misranked, all], and of each run as `tables`; of that run `correlate.first` and
/// `localize`, and beside `defaults` `bisect.minimal`; `cost`.
pub(super) fn json(story: &Story) -> Value {
    let by_run = |value: &dyn Fn(&Run) -> Value| -> Value {
        story.runs.iter().map(|run| (run.setup.name.to_owned(), value(run))).collect::<Map<String, Value>>().into()
    };
    let table = |name: &str| story.run(name).map(|run| run.table).unwrap_or_default();
    let clean = story.run("clean").map(|run| &run.summary);
    json!({
        "requests": story.requests,
        "broken": by_run(&|run| run.broken().into()),
        "outcomes": by_run(&|run| json!(counts(run))),
        "records": by_run(&|run| run.report.records.into()),
        "rows": by_run(&|run| run.report.rows.into()),
        "findings": by_run(&|run| run.report.finding_count().into()),
        "findings_by_check": by_run(&|run| json!(by_check(run))),
        "table": table("faulty").tokens.json(),
        "end_token": table("faulty").end.json(),
        "tables": by_run(&|run| {
            let Table { tokens, end } = run.table;
            json!({"tokens": tokens.json(), "end_token": end.json()})
        }),
        "correlate": {"first": story.cause.condition.as_ref().map(|Condition { predicate, counts }| json!({
            "predicate": predicate,
            "true": [counts.failing_true, counts.all_true],
            "false": [counts.failing_false, counts.all_false],
        }))},
        "localize": localize::render::json(&story.cause.localized),
        "bisect": {"minimal": story.minimal.iter().map(Difference::json).collect::<Vec<_>>()},
        "cost": {
            "seconds_recorded": story.cost.recorded_seconds,
            "seconds_unrecorded": story.cost.bare_seconds,
            "bytes": clean.map(|summary| summary.capture_bytes),
            "rows": clean.map(|summary| summary.rows),
        },
    })
}

/// How many calls came out how.
fn counts(run: &Run) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    run.outcomes.iter().for_each(|(_, outcome)| *counts.entry(outcome.name()).or_default() += 1);
    counts
}

/// The checks with findings, and how many.
fn by_check(run: &Run) -> BTreeMap<&'static str, u64> {
    let found = run.report.checks.iter().filter(|(_, tally)| tally.findings > 0);
    found.map(|(check, tally)| (check.as_str(), tally.findings)).collect()
}

/// The story in a screenful, and what to do next.
pub(super) fn text(out: &mut dyn Write, story: &Story, folder: &Path) -> anyhow::Result<()> {
    let requests = story.requests;
    writeln!(
        out,
        "{requests} requests that have to call one tool each; every run recorded, and replayed with every check\n"
    )?;
    // The clean run's calls beside those that were asked for, the others' beside the clean run's.
    writeln!(
        out,
        "{:<9} {:>6} {:>6} {:<6} {:>12} {:>8} {:>9}  disagreeing",
        "run", "drafts", "mode", "fault", "broken calls", "records", "findings"
    )?;
    for run in &story.runs {
        let setup = run.setup;
        let fault = if setup.has_fault { "yes" } else { "no" };
        let checks = by_check(run).into_keys().collect::<Vec<_>>().join(", ");
        let checks = if checks.is_empty() { "none".to_owned() } else { checks };
        writeln!(
            out,
            "{:<9} {:>6} {:>6} {fault:<6} {:>12} {:>8} {:>9}  {checks}",
            setup.name,
            setup.drafts,
            setup.scheduling,
            format!("{} of {requests}", run.broken()),
            run.report.records,
            run.report.finding_count(),
        )?;
    }
    if let Some(faulty) = story.run("faulty") {
        broken(out, story, faulty)?;
        disagreement(out, faulty)?;
        table(out, faulty)?;
    }
    cause(out, &story.cause)?;
    minimal(out, &story.minimal)?;
    cost(out, story)?;
    let file = |name: &str| shell_word(&folder.join(name).display().to_string());
    writeln!(out, "\neverything is in {}; go on with", folder.display())?;
    let (faulty, target, draft) = (file("faulty.mcap"), file("target.gguf"), file("draft.gguf"));
    writeln!(out, "  stepscope replay {faulty} --model {target} --draft-model {draft}")?;
    writeln!(out, "  stepscope dump {faulty} | less")?;
    Ok(())
}

/// A word as a shell reads it.
fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-".contains(letter);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// How calls are broken, and the first that is.
fn broken(out: &mut dyn Write, story: &Story, faulty: &Run) -> anyhow::Result<()> {
    let kinds: Vec<String> = counts(faulty).into_iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    writeln!(out, "\nthe calls of `faulty`, beside those of `clean`: {}", kinds.join(", "))?;
    let mut broken = faulty.outcomes.iter().filter(|(_, outcome)| outcome.is_broken());
    let Some((id, _)) = broken.next() else { return Ok(()) };
    let call = |call: &Call| format!("{} {}", call.name, call.arguments);
    let calls =
        |run: &Run| -> String { run.calls.get(id).into_iter().flatten().map(call).collect::<Vec<_>>().join(" and ") };
    writeln!(out, "the first, {id}: {}", calls(faulty))?;
    writeln!(out, "       instead of {}", story.run("clean").map(calls).unwrap_or_default())?;
    Ok(())
}

/// Where replay first disagrees.
fn disagreement(out: &mut dyn Write, faulty: &Run) -> anyhow::Result<()> {
    let Some(finding) = faulty.report.findings.first() else { return Ok(()) };
    let place = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let (step, row) = (place(finding.step), place(finding.row.map(u64::from)));
    let id = finding.client_id.as_deref().unwrap_or("-");
    writeln!(out, "the first disagreement, `{}` of {id}, step {step}, row {row}:", finding.check)?;
    writeln!(out, "       {}: expected {}, found {}", finding.fact, finding.expected, finding.found)?;
    Ok(())
}

fn table(out: &mut dyn Write, faulty: &Run) -> anyhow::Result<()> {
    let line = |steps: Steps| format!("{} of {}", steps.misranked, steps.all);
    let Table { tokens, end } = faulty.table;
    writeln!(
        out,
        "\nsteps of `faulty` in which a token that had to come was misranked (fault: {})",
        incident::FAULT.name()
    )?;
    writeln!(out, "{:<24}{:>14}{:>22}", "", "forced tokens", "the end token alone")?;
    let mut side = |words: &str, of: fn(Split) -> Steps| {
        let [tokens, end] = [tokens, end].map(|split| line(of(split)));
        writeln!(out, "{words:<24}{tokens:>14}{end:>22}")
    };
    side("prev_accepted > q_len", |split| split.shrunk)?;
    side("otherwise", |split| split.other)?;
    Ok(())
}

/// What the capture tells of the cause.
fn cause(out: &mut dyn Write, cause: &Cause) -> anyhow::Result<()> {
    writeln!(out, "\nthe cause, from the capture of `faulty` and its model")?;
    if let Some(Condition { predicate, counts }) = &cause.condition {
        writeln!(
            out,
            "  condition  {predicate}: {} of {} steps are bad with it, and {} of {} without, up to the first of each request",
            counts.failing_true, counts.all_true, counts.failing_false, counts.all_false
        )?;
    }
    if let Some(Departure { client_id, step, layer, operation, how, .. }) = &cause.localized.difference {
        let id = client_id.as_deref().unwrap_or("-");
        let layer = layer.map_or_else(String::new, |layer| format!("layer {layer}, "));
        writeln!(out, "  operation  {layer}{operation}: {} (first in {id}, step {})", how.name(), step.step)?;
    }
    Ok(())
}

/// Which settings matter.
fn minimal(out: &mut dyn Write, minimal: &[Difference]) -> anyhow::Result<()> {
    let value = |value: &Option<toml::Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string);
    let setting = |found: &Difference| format!("{} {} (not {})", found.setting, value(&found.bad), value(&found.good));
    let settings: Vec<String> = minimal.iter().map(setting).collect();
    if !settings.is_empty() {
        writeln!(out, "  settings   {}: together, and no less, they break calls", settings.join(" with "))?;
    }
    Ok(())
}

fn cost(out: &mut dyn Write, story: &Story) -> anyhow::Result<()> {
    let Some(clean) = story.run("clean").map(|run| &run.summary) else { return Ok(()) };
    writeln!(
        out,
        "\nrecording, sketches included: {} bytes per row; the clean run takes {:.2} s, and {:.2} s with neither rows nor sketches",
        clean.capture_bytes / clean.rows.max(1),
        story.cost.recorded_seconds,
        story.cost.bare_seconds
    )?;
    Ok(())
}
