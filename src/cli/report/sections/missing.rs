//! What could not be checked, and what was lost.

use super::super::document::{Block, Line, Section, Table, code, columns, counted, shown, text};
use super::super::gather::Gathered;
use crate::forensics::report::Recorded;
use crate::replay::render::unchecked;

/// Reasons, and things lost, that are told one by one.
const MOST: usize = 50;

pub(super) fn section(gathered: &Gathered, recorded: &[Recorded<'_>]) -> Section {
    let mut blocks = vec![Block::Heading(text("Facts that were not compared"))];
    let reasons = unchecked(&gathered.replayed);
    let rows = reasons.iter().flat_map(|reason| {
        let skipped = reason.skipped.iter();
        skipped.map(|(outcome, counts)| vec![text(*outcome), code(counts.as_str()), text(shown(reason.why))])
    });
    let mut rows: Vec<Vec<Line>> = rows.collect();
    let more_reasons = rows.len().saturating_sub(MOST);
    rows.truncate(MOST);
    blocks.push(match rows.is_empty() {
        true => Block::Paragraph(text("None: whatever the checks that were run look at was compared.")),
        false => Block::Table(Table { columns: columns(&["what", "check and facts", "why"]), rows }),
    });
    if more_reasons > 0 {
        blocks.push(Block::Paragraph(text(format!("{more_reasons} more reasons: see stepscope replay."))));
    }
    blocks.push(Block::Heading(text("Lost or damaged")));
    let lost = lost(gathered, recorded);
    blocks.push(match lost.is_empty() {
        true => Block::Paragraph(text(
            "Nothing: each capture was finished, its bytes are what they were, and no loss is on record.",
        )),
        false => Block::List(lost.iter().take(MOST).map(|words| text(shown(words))).collect()),
    });
    if lost.len() > MOST {
        blocks.push(Block::Paragraph(text(format!("{} more: see stepscope verify.", lost.len() - MOST))));
    }
    Section { anchor: "missing", title: "What could not be checked, and what was lost", blocks }
}

/// Damage, losses and messages that are gone, each once.
pub(super) fn lost(gathered: &Gathered, recorded: &[Recorded<'_>]) -> Vec<String> {
    let mut lost = gathered.replayed.damage.clone();
    let mut add = |words: String| {
        // The same is told with the name of the capture before it, or as a part of what it comes from.
        let unnamed = words.split_once(": ").map_or(words.as_str(), |(_, unnamed)| unnamed);
        if !lost.iter().any(|told| told.contains(unnamed)) {
            lost.push(words);
        }
    };
    for capture in recorded {
        let path = capture.reader.path().display();
        for (topic, totals) in capture.survey.channels.iter().filter(|(_, totals)| totals.missing > 0) {
            add(format!("{path}: {} are not in the file", counted(totals.missing, &format!("message of `{topic}`"))));
        }
        capture.issues().for_each(|issue| add(issue.to_string()));
    }
    gathered.input.notes.iter().for_each(|note| add(note.clone()));
    let unreadable = gathered.input.table.reading.unreadable;
    if unreadable > 0 {
        add(format!("{} cannot be read", counted(unreadable, "step record")));
    }
    lost
}
