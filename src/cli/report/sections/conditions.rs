//! The conditions that go with misranked forced tokens.

use super::super::document::{Block, Line, Section, Table, code, columns, counted, shown, text};
use super::super::gather::Gathered;
use crate::cli::correlate::{Correlated, increase, of, way};
use crate::cli::output::chance;
use crate::forensics::correlate::Ranked;

/// Conditions that are told, and of these the ones that are told closely.
const MOST: usize = 20;
const MOST_CLOSELY: usize = 5;
/// Equivalent conditions and example steps of one.
const MOST_EQUIVALENTS: usize = 8;
const MOST_EXAMPLES: usize = 8;

pub(super) fn section(gathered: &Gathered) -> Section {
    let correlated = gathered.correlated();
    let (reading, correlation) = (gathered.input.table.reading, &gathered.correlation);
    let judged = format!(
        "Of {} in {}, {} could be judged: {} fail, {} pass. Left out: {}.",
        counted(reading.steps, "step"),
        counted(reading.sequences, "answer"),
        reading.failing + reading.passing,
        reading.failing,
        reading.passing,
        correlated.left_out()
    );
    let mut blocks = vec![
        Block::Paragraph(
            text("A step fails by the label ")
                .code(correlated.label.to_string())
                .text(format!(": {}. End tokens are not looked at.", correlated.label.meaning())),
        ),
        Block::Paragraph(text(judged)),
    ];
    if let Some(why) = correlated.nothing() {
        blocks.push(Block::Paragraph(text("Nothing to correlate: ").text(why).text(".")));
        return Section { anchor: "conditions", title: "Conditions that go with bad steps", blocks };
    }
    blocks.push(Block::Paragraph(text(format!(
        "Conditions that were made of the engine's state: {}.",
        correlated.conditions()
    ))));
    let doubt = match correlated.is_doubtful() {
        true => " That is more than chance explains: what follows may be the work of how the steps are spread.",
        false => "",
    };
    blocks.push(Block::Paragraph(text(format!("Control: {}.{doubt}", correlated.control()))));
    if correlation.ranked.is_empty() {
        blocks.push(Block::Paragraph(text("No condition of the engine's state goes with the failing steps.")));
    } else {
        blocks.push(Block::Table(table(&correlation.ranked)));
    }
    blocks.push(Block::Paragraph(text(format!(
        "Not explained: {} of {}.",
        correlation.not_explained,
        counted(reading.failing, "failing step")
    ))));
    for (index, ranked) in correlation.ranked.iter().take(MOST_CLOSELY).enumerate() {
        blocks.push(Block::Heading(text(format!("{}. ", index + 1)).code(ranked.predicate.as_str())));
        blocks.push(Block::List(closely(&correlated, ranked)));
    }
    Section { anchor: "conditions", title: "Conditions that go with bad steps", blocks }
}

fn table(ranked: &[Ranked]) -> Table {
    let row = |(index, ranked): (usize, &Ranked)| {
        let (failing, all) = ranked.not_known;
        vec![
            text((index + 1).to_string()),
            code(ranked.predicate.as_str()),
            Line::default().strong(of(ranked.counts, true)),
            Line::default().strong(of(ranked.counts, false)),
            text(format!("{failing} of {all}")),
            text(increase(ranked)),
            text(format!("{} ({})", chance(ranked.q), way(ranked.way))),
            text(ranked.explains.len().to_string()),
        ]
    };
    Table {
        columns: columns(&[
            "##",
            "condition",
            "#fail where it holds",
            "#fail elsewhere",
            "#fail where not known",
            "#Increase (95% interval)",
            "q",
            "#explains",
        ]),
        rows: ranked.iter().take(MOST).enumerate().map(row).collect(),
    }
}

fn closely(correlated: &Correlated<'_>, ranked: &Ranked) -> Vec<Line> {
    let mut lines = Vec::new();
    if !ranked.equivalents.is_empty() {
        let mut line = text("True of the same steps: ");
        for (index, equivalent) in ranked.equivalents.iter().take(MOST_EQUIVALENTS).enumerate() {
            line = line.text(if index == 0 { "" } else { ", " }).code(equivalent.as_str());
        }
        let more = ranked.equivalents.len().saturating_sub(MOST_EQUIVALENTS);
        lines.push(if more > 0 { line.text(format!(", and {more} more")) } else { line });
    }
    for (predicate, counts) in &ranked.close {
        let counts = format!(" ({} against {})", of(*counts, true), of(*counts, false));
        lines.push(text("Close to it: ").code(predicate.as_str()).text(counts));
    }
    for within in ranked.within_content.iter().filter(|within| within.strata > 0) {
        lines.push(text("Among steps of like ").code(within.column).text(format!(": p {}", chance(within.p))));
    }
    let examples = correlated.examples(ranked, MOST_EXAMPLES);
    let mut line = text("Steps that fail: ");
    for (index, example) in examples.iter().enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        line = line.text(separator).code(shown(&correlated.example_in_words(example)));
    }
    let more = ranked.explains.len().saturating_sub(MOST_EXAMPLES);
    lines.push(if more > 0 { line.text(format!("; and {more} more")) } else { line });
    lines
}
