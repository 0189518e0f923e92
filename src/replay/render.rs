//! A report for people, and for machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::preflight::Level;
use super::remarks::Remark;
use super::report::{Finding, Report};
use super::verdict::Skip;

/// Findings that the summary shows; `--json` has them all.
const SHOWN: usize = 10;

/// One object: `records`, `rows`, `checks`, `findings`, `guarantees`, `damage`, `remarks`.
pub fn json(report: &Report) -> Value {
    let checks: Map<String, Value> = report
        .checks
        .iter()
        .map(|(check, tally)| {
            let reasons: Vec<Value> = tally
                .reasons
                .iter()
                .map(|(skip, count)| json!({"reason": skip.reason, "missing": skip.missing, "count": count}))
                .collect();
            let tally = json!({
                "checked": tally.checked,
                "skipped": tally.skipped,
                "findings": tally.findings,
                "reasons": reasons,
            });
            (check.as_str().to_owned(), tally)
        })
        .collect();
    let findings: Vec<Value> = report.findings.iter().map(finding_json).collect();
    let guarantees: Vec<Value> = report
        .guarantees
        .iter()
        .map(|guarantee| {
            json!({
                "capture": guarantee.capture,
                "check": guarantee.check.as_str(),
                "level": guarantee.level.to_string(),
                "why": guarantee.why,
            })
        })
        .collect();
    json!({
        "captures": report.captures,
        "records": report.records,
        "rows": report.rows,
        "checks": checks,
        "findings": findings,
        "findings_left_out": report.finding_count().saturating_sub(report.findings.len() as u64),
        "guarantees": guarantees,
        "damage": report.damage,
        "remarks": report.remarks.iter().map(remark_json).collect::<Vec<_>>(),
        "remarks_left_out": report.more_remarks,
    })
}

fn remark_json(remark: &Remark) -> Value {
    json!({
        "capture": remark.capture,
        "request": remark.request,
        "client_id": remark.client_id,
        "choice": remark.choice,
        "words": remark.words,
    })
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "capture": finding.capture,
        "request": finding.request,
        "client_id": finding.client_id,
        "choice": finding.choice,
        "step": finding.step,
        "row": finding.row,
        "check": finding.check.as_str(),
        "fact": finding.fact,
        "expected": finding.expected,
        "found": finding.found,
    })
}

/// A summary that says what was checked, what was not and why, and the first findings.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let captures = report.captures.join(", ");
    let _ = writeln!(text, "{captures}: {} records, {} logits rows\n", report.records, report.rows);
    let _ = writeln!(text, "{:<12} {:>9} {:>9} {:>9}  question", "check", "checked", "skipped", "findings");
    for (check, tally) in &report.checks {
        let (checked, skipped, findings) = (tally.checked, tally.skipped, tally.findings);
        let _ = writeln!(text, "{check:<12} {checked:>9} {skipped:>9} {findings:>9}  {}", check.question());
    }
    reasons(&mut text, report);
    for damage in &report.damage {
        let _ = writeln!(text, "\nthe capture itself: {damage}");
    }
    findings(&mut text, report);
    remarks(&mut text, report);
    let above = if report.finding_count() == 0 && report.is_missing_data() { ": see above" } else { "" };
    let _ = writeln!(text, "\n{}{above}", conclusion(report));
    text
}

/// What is not exact here, and what was skipped, each reason once.
fn reasons(text: &mut String, report: &Report) {
    let reasons = unchecked(report);
    let is_exact = reasons.iter().all(|reason| reason.levels.is_empty());
    let _ = writeln!(text, "\n{}", if is_exact { "every check is exact here: bit for bit" } else { "not exact here:" });
    for Unchecked { why, levels, skipped } in reasons {
        if levels.is_empty() {
            for (outcome, counts) in skipped {
                let _ = writeln!(text, "  {outcome} ({counts}): {why}");
            }
            continue;
        }
        let _ = writeln!(text, "  {}\n    {why}", levels.join(", "));
        for (outcome, counts) in skipped {
            let _ = writeln!(text, "    {outcome}: {counts}");
        }
    }
}

/// A reason why checks reach less far than exactly, or skipped something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchecked<'a> {
    /// The reason, in words.
    pub why: &'a str,
    /// How far checks reach because of it, each with its check; none if it only made facts be skipped.
    pub levels: Vec<String>,
    /// What came of skipped facts (`missing` or `not checked`), and how many there are of each check.
    pub skipped: Vec<(&'static str, String)>,
}

/// Every reason once: those that weaken a check first, in the order of the checks.
pub fn unchecked(report: &Report) -> Vec<Unchecked<'_>> {
    let mut skipped: BTreeMap<&Skip, Vec<String>> = BTreeMap::new();
    for (check, tally) in &report.checks {
        for (skip, count) in &tally.reasons {
            skipped.entry(skip).or_default().push(format!("{check} {count}"));
        }
    }
    let mut reasons: Vec<Unchecked<'_>> = Vec::new();
    for guarantee in report.guarantees.iter().filter(|guarantee| guarantee.level != Level::Exact) {
        let capture = if report.captures.len() > 1 { format!(" of {}", guarantee.capture) } else { String::new() };
        let level = format!("{}{capture}: {}", guarantee.check, guarantee.level);
        match reasons.iter_mut().find(|reason| reason.why == guarantee.why) {
            Some(reason) => reason.levels.push(level),
            None => reasons.push(Unchecked { why: &guarantee.why, levels: vec![level], skipped: Vec::new() }),
        }
    }
    for (skip, counts) in skipped {
        let counts = (outcome(skip), counts.join(", "));
        match reasons.iter_mut().find(|reason| reason.why == skip.reason && !reason.levels.is_empty()) {
            Some(reason) => reason.skipped.push(counts),
            None => reasons.push(Unchecked { why: &skip.reason, levels: Vec::new(), skipped: vec![counts] }),
        }
    }
    reasons
}

fn outcome(skip: &Skip) -> &'static str {
    if skip.missing { "missing" } else { "not checked" }
}

fn findings(text: &mut String, report: &Report) {
    if report.findings.is_empty() {
        return;
    }
    let shown = report.findings.len().min(SHOWN);
    let _ = writeln!(text, "\nfindings ({shown} of {}):", report.finding_count());
    for finding in report.findings.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}: {}", place(report, finding), finding.check);
        let _ = writeln!(text, "    {}: expected {}, found {}", finding.fact, finding.expected, finding.found);
    }
}

/// Where a finding stands.
pub fn place(report: &Report, finding: &Finding) -> String {
    let request = (finding.request, finding.client_id.as_deref());
    let mut parts: Vec<String> = captured(report, &finding.capture, request).collect();
    let numbers =
        [("choice", finding.choice.map(u64::from)), ("step", finding.step), ("row", finding.row.map(u64::from))];
    parts.extend(numbers.into_iter().filter_map(|(name, number)| Some(format!("{name} {}", number?))));
    parts.join(", ")
}

/// The capture, if there are several, and the request.
fn captured(report: &Report, capture: &str, request: (Option<u64>, Option<&str>)) -> impl Iterator<Item = String> {
    let capture = (report.captures.len() > 1).then(|| capture.to_owned());
    let request = match request {
        (Some(request), Some(client_id)) => format!("request {request} (`{client_id}`)"),
        (Some(request), None) => format!("request {request}"),
        (None, _) => "the whole capture".to_owned(),
    };
    capture.into_iter().chain([request])
}

/// What is worth a look, and changes no exit status.
fn remarks(text: &mut String, report: &Report) {
    if report.remarks.is_empty() {
        return;
    }
    let (shown, all) = (report.remarks.len().min(SHOWN), report.remarks.len() as u64 + report.more_remarks);
    let _ = writeln!(text, "\nworth a look, and no finding ({shown} of {all}):");
    for remark in report.remarks.iter().take(SHOWN) {
        let request = (Some(remark.request), remark.client_id.as_deref());
        let place: Vec<String> = captured(report, &remark.capture, request).collect();
        let _ = writeln!(text, "  {}, choice {}: {}", place.join(", "), remark.choice, remark.words);
    }
}

/// What it comes to, in a sentence.
pub fn conclusion(report: &Report) -> String {
    match (report.finding_count(), report.is_missing_data()) {
        (0, false) => "clean: every recorded decision that was checked follows from its recorded inputs".to_owned(),
        (0, true) => "nothing wrong was found, but data is missing".to_owned(),
        (1, _) => "1 finding: a recorded fact does not follow from its recorded inputs".to_owned(),
        (count, _) => format!("{count} findings: recorded facts do not follow from their recorded inputs"),
    }
}
