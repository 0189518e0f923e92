//! The operation that went wrong first.

use super::super::document::{Block, Section, shown, text};
use super::super::gather::Gathered;
use crate::forensics::localize::{Localized, render};

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
        Some(localized) => {
            let of_capture = |(name, localized): &(String, Result<Localized, String>)| match localized {
                Ok(localized) => Block::Verbatim(bounded(&render::text(&shown(name), localized))),
                Err(why) => Block::Paragraph(text("It cannot be said: ").text(shown(why)).text(".")),
            };
            let more = localized.len().saturating_sub(MOST_CAPTURES);
            let more = (more > 0).then(|| Block::Paragraph(text(format!("{more} more: see stepscope localize."))));
            localized.iter().take(MOST_CAPTURES).map(of_capture).chain(more).collect()
        }
    };
    Section { anchor: "operation", title: "First wrong operation", blocks }
}

/// A text, or its beginning with how much more there is.
fn bounded(text: &str) -> String {
    let more = text.chars().count().saturating_sub(MOST_TOLD);
    let beginning: String = text.chars().take(MOST_TOLD).collect();
    if more == 0 { beginning } else { format!("{beginning}... ({more} more characters: see stepscope localize)") }
}
