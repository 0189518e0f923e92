//! What was recorded: by whom, under which rules and settings, and how much.

use super::super::document::{Block, Line, Section, Table, code, columns, counted, shown, text};
use super::super::gather::name;
use crate::capture::records::Setting;
use crate::forensics::report::{Recorded, guarantees, made_by};

/// Settings of a capture that are told.
const MOST_SETTINGS: usize = 200;
/// Lines of one fact, and redacted fields.
const MOST_LINES: usize = 40;
/// Captures that are told in full.
const MOST_CAPTURES: usize = 16;

pub(super) fn section(recorded: &[Recorded<'_>]) -> Section {
    let mut blocks = Vec::new();
    for capture in recorded.iter().take(MOST_CAPTURES) {
        if recorded.len() > 1 {
            blocks.push(Block::Heading(code(shown(&name(capture.reader.path())))));
        }
        blocks.extend(of_capture(capture));
    }
    let more = recorded.len().saturating_sub(MOST_CAPTURES);
    if more > 0 {
        blocks.push(Block::Paragraph(text(format!("{} more: see stepscope info.", counted(more as u64, "capture")))));
    }
    Section { anchor: "recorded", title: "What was recorded", blocks }
}

fn of_capture(recorded: &Recorded<'_>) -> Vec<Block> {
    let header = recorded.reader.header();
    let mut rows: Vec<Vec<Line>> = vec![vec![text("capture"), code(shown(&recorded.file()))]];
    for fact in made_by(header) {
        rows.extend(bounded(fact.name, &fact.lines));
    }
    if header.components.is_empty() {
        rows.push(vec![text("components"), text("unknown")]);
    }
    rows.push(vec![text("requests"), code(recorded.requests.to_string())]);
    let redactions = header.redactions.iter().map(|redaction| format!("{} ({})", redaction.field, redaction.how));
    rows.extend(bounded("redacted", &redactions.collect::<Vec<_>>()));
    let mut blocks = vec![Block::Table(Table { columns: columns(&["fact", "what is known"]), rows })];
    let channels = recorded.survey.channels.iter().map(|(topic, totals)| {
        let counts = [totals.messages, totals.bytes, totals.missing].map(|count| text(count.to_string()));
        [vec![code(topic.name())], counts.to_vec()].concat()
    });
    blocks.push(Block::Table(Table {
        columns: columns(&["channel", "#messages", "#bytes before compression", "#missing"]),
        rows: channels.collect(),
    }));
    blocks.extend(settings(recorded));
    blocks.push(Block::Heading(text("What such a capture allows")));
    blocks.push(Block::List(guarantees(header).into_iter().map(text).collect()));
    blocks
}

/// A row per line, the first one named; of very many, how many are not told.
fn bounded(name: &'static str, lines: &[String]) -> Vec<Vec<Line>> {
    let named = |(index, line): (usize, &String)| vec![text(if index == 0 { name } else { "" }), code(shown(line))];
    let mut rows: Vec<Vec<Line>> = lines.iter().take(MOST_LINES).enumerate().map(named).collect();
    let more = lines.len().saturating_sub(MOST_LINES);
    if more > 0 {
        rows.push(vec![text(""), text(format!("{more} more: see stepscope info"))]);
    }
    rows
}

/// What somebody set, and folded away what is at its default or from nobody knows where.
fn settings(recorded: &Recorded<'_>) -> Vec<Block> {
    let configuration = &recorded.reader.header().configuration;
    let heading = Block::Heading(text("Configuration"));
    if configuration.is_empty() {
        return vec![heading, Block::Paragraph(text("The recorder says nothing of its configuration."))];
    }
    let told = configuration.iter().take(MOST_SETTINGS);
    let is_set = |setting: &&Setting| setting.source.as_deref().is_some_and(|source| source != "default");
    let (set, others): (Vec<&Setting>, Vec<&Setting>) = told.partition(is_set);
    let mut blocks = vec![heading];
    if !set.is_empty() {
        blocks.push(Block::Table(table(&set)));
    }
    if !others.is_empty() {
        let is_default = |setting: &&Setting| setting.source.is_some();
        let whence = match (others.iter().all(is_default), others.iter().any(is_default)) {
            (true, _) => "at their default",
            (false, true) => "of unrecorded source or at their default",
            (false, false) => "of unrecorded source",
        };
        let title = format!("{} {whence}", counted(others.len() as u64, "setting"));
        blocks.push(Block::Folded(text(title), vec![Block::Table(table(&others))]));
    }
    let more = configuration.len().saturating_sub(MOST_SETTINGS);
    blocks.extend((more > 0).then(|| Block::Paragraph(text(format!("{more} more settings: see stepscope info.")))));
    blocks
}

fn table(settings: &[&Setting]) -> Table {
    let row = |setting: &&Setting| {
        let source = setting.source.as_deref().map_or_else(|| text("unknown"), |source| code(shown(source)));
        vec![code(shown(&setting.name)), code(shown(&setting.value)), source]
    };
    Table { columns: columns(&["setting", "value", "set by"]), rows: settings.iter().map(row).collect() }
}
