//! The operation that went wrong first.

use super::super::document::{Block, Section, shown, text};
use super::super::gather::Gathered;
use crate::forensics::localize::render;

/// Captures that are told.
const MOST_CAPTURES: usize = 16;
/// Characters that are told of one.
const MOST_TOLD: usize = 8000;

pub(super) fn section(gathered: &Gathered) -> Section {
    let blocks = match &gathered.localized {
        None => vec![Block::Paragraph(
            text("Not looked for, since no model was given. ")
                .code("stepscope report ... --model M.gguf")
                .text(" runs each request again plainly and tells which layer and operation gave something else first, and how; so does ")
                .code("stepscope localize C.mcap --model M.gguf")
                .text("."),
        )],
        Some(localized) => localized
            .iter()
            .take(MOST_CAPTURES)
            .map(|(name, localized)| match localized {
                Ok(localized) => Block::Verbatim(render::text(&shown(name), localized).chars().take(MOST_TOLD).collect()),
                Err(why) => Block::Paragraph(text("It cannot be said: ").text(shown(why)).text(".")),
            })
            .collect(),
    };
    Section { anchor: "operation", title: "First wrong operation", blocks }
}
