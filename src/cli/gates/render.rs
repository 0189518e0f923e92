//! What the gates said, for people and for machines.

use std::io::Write;

use serde_json::{Value, json};

use crate::gates::{Composed, DRAWS, Gate, Line, QUANTILE, Report, SETS, Verdict};

/// One object; its fields stand in the command's help.
pub(super) fn json(report: &Report) -> Value {
    let gate = |gate: Gate| {
        let lines: Vec<&Line> = report.of(gate).collect();
        json!({
            "gate": gate.name(),
            "passed": lines.iter().all(|line| line.is_expected()),
            "lines": lines.into_iter().map(line_json).collect::<Vec<_>>(),
        })
    };
    let not_run = report.lines.iter().filter_map(|line| match &line.verdict {
        Verdict::NotRun(why) => Some(json!({"gate": line.gate.name(), "case": line.case, "reason": why})),
        _ => None,
    });
    json!({
        "passed": report.is_as_it_should_be(),
        "quantile": QUANTILE,
        "simulated_sets": SETS,
        "gates": Gate::ALL.map(gate),
        "not_run": not_run.collect::<Vec<_>>(),
    })
}

fn line_json(line: &Line) -> Value {
    let reason = match &line.verdict {
        Verdict::Passed => None,
        Verdict::Failed(why) | Verdict::DoesNotApply(why) | Verdict::NotRun(why) => Some(why),
    };
    json!({
        "fault": line.fault.map(|fault| fault.name()),
        "case": line.case,
        "checked": line.checked,
        "verdict": verdict(line),
        "as_expected": line.is_expected(),
        "reason": reason,
        "composition": line.composed.as_ref().map(|composed| json!({
            "rule": composed.rule.name(),
            "drafting": composed.drafting,
            "target": composed.target,
            "verified": composed.verified,
            "accepted": composed.accepted,
            "total_variation": {"found": composed.found.total_variation, "at_most": composed.bounds.total_variation},
            "greatest_difference": {"found": composed.found.greatest, "at_most": composed.bounds.greatest},
        })),
    })
}

fn verdict(line: &Line) -> &'static str {
    match line.verdict {
        Verdict::Passed => "passed",
        Verdict::Failed(_) => "failed",
        Verdict::DoesNotApply(_) => "does-not-apply",
        Verdict::NotRun(_) => "not-run",
    }
}

/// Tables, gate by gate, then what could not be run, then what it comes to.
pub(super) fn text(out: &mut dyn Write, report: &Report) -> anyhow::Result<()> {
    for gate in Gate::ALL {
        writeln!(out, "{}: {}", gate.name(), gate.question())?;
        if gate == Gate::Composition {
            let percent = QUANTILE * 100.0;
            writeln!(
                out,
                "  {DRAWS} draws a line; at most: the {percent:.1}% quantile of {SETS} simulated sets of right draws"
            )?;
            composition(out, report)?;
        } else {
            plain(out, report, gate)?;
        }
        for line in report.of(gate) {
            match &line.verdict {
                Verdict::DoesNotApply(why) => {
                    writeln!(out, "  {} does not apply to {}: {why}", faults(line), line.case)?;
                }
                Verdict::Failed(why) if line.fault.is_none() => writeln!(out, "  {}: {why}", line.case)?,
                _ => {}
            }
        }
        writeln!(out)?;
    }
    for line in &report.lines {
        if let Verdict::NotRun(why) = &line.verdict {
            writeln!(out, "not run here: {}, {}: {why}", line.gate.name(), line.case)?;
        }
    }
    writeln!(out, "{}", summary(report))?;
    Ok(())
}

/// The fault, or that there is none.
fn faults(line: &Line) -> &'static str {
    line.fault.map_or("none", |fault| fault.name())
}

/// How a line ended, and whether that is as it should be.
fn ended(line: &Line) -> &'static str {
    match (&line.verdict, line.fault, line.is_expected()) {
        (Verdict::Failed(_), Some(_), _) => "caught",
        (_, Some(_), false) => "MISSED",
        (_, None, false) => "FAILED",
        _ => "passed",
    }
}

fn is_run(line: &&Line) -> bool {
    !matches!(line.verdict, Verdict::DoesNotApply(_) | Verdict::NotRun(_))
}

fn composition(out: &mut dyn Write, report: &Report) -> anyhow::Result<()> {
    let width = report.of(Gate::Composition).map(|line| faults(line).len()).max().unwrap_or(0).max("fault".len());
    writeln!(
        out,
        "  {:<width$}  {:<9}  {:<7}  {:<8}  {:>8}  {:>9}  {:>7}  {:>9}  {:>7}",
        "fault", "rule", "drafts", "target", "accepted", "variation", "at most", "one token", "at most"
    )?;
    for line in report.of(Gate::Composition) {
        let Some(composed) = &line.composed else { continue };
        let Composed { rule, drafting, target, found, bounds, .. } = composed;
        let acceptance = composed.acceptance().map_or("-".to_owned(), |share| format!("{share:.3}"));
        writeln!(
            out,
            "  {:<width$}  {:<9}  {drafting:<7}  {target:<8}  {acceptance:>8}  {:>9.4}  {:>7.4}  {:>9.4}  {:>7.4}  {}",
            faults(line),
            rule.name(),
            found.total_variation,
            bounds.total_variation,
            found.greatest,
            bounds.greatest,
            ended(line)
        )?;
    }
    Ok(())
}

fn plain(out: &mut dyn Write, report: &Report, gate: Gate) -> anyhow::Result<()> {
    let lines: Vec<&Line> = report.of(gate).filter(is_run).collect();
    let width = |of: fn(&Line) -> usize| lines.iter().map(|line| of(line)).max().unwrap_or(0);
    let (fault_width, case_width) =
        (width(|line| faults(line).len()).max("fault".len()), width(|line| line.case.len()));
    writeln!(out, "  {:<fault_width$}  {:<case_width$}  {:>8}", "fault", "what was run", "compared")?;
    for line in lines {
        writeln!(
            out,
            "  {:<fault_width$}  {:<case_width$}  {:>8}  {}",
            faults(line),
            line.case,
            line.checked,
            ended(line)
        )?;
        if let (Verdict::Failed(why), Some(_)) = (&line.verdict, line.fault) {
            writeln!(out, "  {:<fault_width$}    {why}", "")?;
        }
    }
    Ok(())
}

/// What it all comes to, in a sentence.
fn summary(report: &Report) -> String {
    let count =
        |is_wanted: fn(&Line) -> bool| report.lines.iter().filter(is_run).filter(|line| is_wanted(line)).count();
    let (clean, planted) = (count(|line| line.fault.is_none()), count(|line| line.fault.is_some()));
    let passed = count(|line| line.fault.is_none() && line.is_expected());
    let caught = count(|line| line.fault.is_some() && line.is_expected());
    let teeth = match planted {
        0 => String::new(),
        _ => format!("; {caught} of {planted} parts with a planted fault failed, as they should"),
    };
    let verdict = if report.is_as_it_should_be() { "right" } else { "NOT right" };
    format!("{verdict}: {passed} of {clean} parts of the gates passed{teeth}")
}
