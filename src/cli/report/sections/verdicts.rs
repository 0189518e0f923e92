//! What replay found.

use super::super::document::{Block, Line, Section, Table, code, columns, counted, shown, text};
use super::super::gather::Gathered;
use crate::replay::render::{conclusion, place, unchecked};
use crate::replay::{CheckName, Finding, Report};

/// Findings and remarks that are told.
const MOST: usize = 10;

pub(super) fn section(gathered: &Gathered) -> Section {
    let report = &gathered.replayed;
    let counts = [counted(report.records, "record"), counted(report.rows, "logits row")].join(" and ");
    let mut blocks = vec![
        Block::Paragraph(text(format!(
            "Every recorded decision is computed again, by code of its own, from what is recorded of its inputs: {counts}."
        ))),
        Block::Paragraph(Line::default().strong(capitalized(&conclusion(report))).text(".")),
        Block::Table(checks(report)),
    ];
    let not_run: Vec<CheckName> =
        CheckName::ALL.into_iter().filter(|check| !report.checks.contains_key(check)).collect();
    if !not_run.is_empty() {
        let mut line = text("Not run without the model (");
        line = line.code("--model").text("): ");
        for (index, check) in not_run.iter().enumerate() {
            line = line.text(if index == 0 { "" } else { ", " }).code(check.as_str());
        }
        blocks.push(Block::Paragraph(line.text(".")));
    }
    blocks.extend(weaker(report));
    blocks.extend(findings(report));
    blocks.extend(remarks(report));
    Section { anchor: "verdicts", title: "Verdicts", blocks }
}

fn checks(report: &Report) -> Table {
    let row = |(check, tally): (&CheckName, &crate::replay::Tally)| {
        let findings = match tally.findings {
            0 => text("0"),
            findings => Line::default().strong(findings.to_string()),
        };
        let counts = [text(tally.checked.to_string()), text(tally.skipped.to_string()), findings];
        [vec![code(check.as_str())], counts.to_vec(), vec![text(check.question())]].concat()
    };
    let columns = columns(&["check", "#checked", "#skipped", "#findings", "question"]);
    Table { columns, rows: report.checks.iter().map(row).collect() }
}

fn weaker(report: &Report) -> Vec<Block> {
    let reasons = unchecked(report);
    let rows = reasons.iter().filter(|reason| !reason.levels.is_empty());
    let rows: Vec<Vec<Line>> =
        rows.map(|reason| vec![code(shown(&reason.levels.join(", "))), text(shown(reason.why))]).collect();
    let heading = Block::Heading(text("Guarantees that are weaker than exact"));
    match rows.is_empty() {
        true => vec![heading, Block::Paragraph(text("None: every check that was run is exact here, bit for bit."))],
        false => vec![heading, Block::Table(Table { columns: columns(&["check: how far", "why"]), rows })],
    }
}

fn findings(report: &Report) -> Vec<Block> {
    let count = report.finding_count();
    if report.findings.is_empty() {
        return Vec::new();
    }
    let told = report.findings.len().min(MOST);
    let row = |finding: &Finding| {
        vec![
            code(finding.check.as_str()),
            code(shown(&place(report, finding))),
            code(shown(&finding.fact)),
            code(shown(&finding.expected)),
            code(shown(&finding.found)),
        ]
    };
    let columns = columns(&["check", "where", "fact", "expected", "found"]);
    vec![
        Block::Heading(text(format!("Findings: the first {told} of {count}"))),
        Block::Table(Table { columns, rows: report.findings.iter().take(MOST).map(row).collect() }),
    ]
}

fn remarks(report: &Report) -> Vec<Block> {
    if report.remarks.is_empty() {
        return Vec::new();
    }
    let all = report.remarks.len() as u64 + report.more_remarks;
    let line = |remark: &crate::replay::Remark| {
        let request = remark.client_id.as_deref().map_or_else(|| remark.request.to_string(), shown);
        let line = text("request ").code(request).text(format!(", choice {}: ", remark.choice));
        line.text(shown(&remark.words))
    };
    let told = report.remarks.len().min(MOST);
    vec![
        Block::Heading(text(format!("Worth a look, and no finding: the first {told} of {all}"))),
        Block::List(report.remarks.iter().take(MOST).map(line).collect()),
    ]
}

fn capitalized(words: &str) -> String {
    let mut characters = words.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}
