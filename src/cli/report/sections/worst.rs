//! The steps whose forced token stood lowest.

use super::super::document::{Block, Line, Section, Table, code, columns, counted, shown, text};
use super::super::gather::{Gathered, name};
use super::{recorded_or_unknown, unknown};
use crate::capture::records::{StepRecord, VerdictReason};
use crate::forensics::localize::render::conditions;
use crate::forensics::report::WorstStep;
use crate::model::Tokenizer;
use crate::types::{RequestId, TokenId};

/// Tokens of a list that are told.
const MOST_TOKENS: usize = 16;

pub(super) fn section(gathered: &Gathered) -> Section {
    let worst = &gathered.worst;
    let (told, seen) = (worst.steps().len(), worst.seen());
    let mut blocks = Vec::new();
    if told == 0 {
        blocks.push(Block::Paragraph(text("No forced token was misranked, as far as ranks are recorded.")));
        return Section { anchor: "worst", title: "Worst steps", blocks };
    }
    let tokens = match gathered.model {
        Some(_) => "Tokens are told as the model's tokenizer has them; ids stand in brackets.",
        None => "Tokens are told by their ids; with --model they are told as text.",
    };
    blocks.push(Block::Paragraph(text(format!(
        "The steps whose forced token stood lowest in its row, {told} of {}, those after the first of an answer among them. {tokens}",
        counted(seen, "step"),
    ))));
    let has_several = gathered.input.captures.len() > 1;
    let mut names =
        vec!["#step", "#row", "request", "#position", "#rank", "#margin", "had to come", "best of the row", "emitted"];
    names.extend(["drafts", "accepted", "conditions"]);
    if has_several {
        names.insert(0, "capture");
    }
    let rows = worst.steps().map(|worst| row(gathered, worst, has_several)).collect();
    blocks.push(Block::Table(Table { columns: columns(&names), rows }));
    Section { anchor: "worst", title: "Worst steps", blocks }
}

fn row(gathered: &Gathered, worst: &WorstStep, has_several: bool) -> Vec<Line> {
    let tokens = Tokens { tokenizer: gathered.model.as_ref().map(|model| model.tokenizer()) };
    let step = &worst.step;
    let recorded = step.rows.get(worst.row);
    let forced = recorded.and_then(|row| row.forced);
    let best = recorded.and_then(|row| row.statistics?.argmax);
    let capture = gathered.input.captures.get(worst.capture);
    let request = capture.and_then(|(_, reader)| reader.request(RequestId(step.request)).ok()?.admission?.client_id);
    let request = request.map_or_else(|| format!("request {}", step.request), |id| shown(&id));
    let choice = if step.choice > 0 { format!(" choice {}", step.choice) } else { String::new() };
    let held = conditions(step);
    let mut row = vec![
        text(step.step.to_string()),
        text(worst.row.to_string()),
        code(format!("{request}{choice}")),
        recorded.map_or_else(unknown, |row| text(row.position.to_string())),
        text(worst.rank.to_string()),
        forced.and_then(|forced| forced.margin).map_or_else(unknown, |margin| text(format!("{margin:.3}"))),
        recorded_or_unknown(forced.map(|forced| tokens.one(forced.token))),
        recorded_or_unknown(best.map(|best| tokens.one(best))),
        code(tokens.list(step.emitted.iter().map(|token| i64::from(*token)))),
        code(tokens.list(step.drafts.iter().copied())),
        verdicts(step),
        if held.is_empty() { unknown() } else { code(held) },
    ];
    if has_several {
        row.insert(0, capture.map_or_else(unknown, |(path, _)| code(shown(&name(path)))));
    }
    row
}

/// How many drafts were accepted, and why the first of the others was not.
fn verdicts(step: &StepRecord) -> Line {
    let Some(verdicts) = &step.verdicts else { return unknown() };
    let accepted = verdicts.iter().filter(|verdict| verdict.accepted).count();
    let line = format!("{accepted} of {}", verdicts.len());
    let refused = verdicts.iter().find(|verdict| !verdict.accepted).map(|verdict| match verdict.reason {
        VerdictReason::Match => "match",
        VerdictReason::Mismatch => "mismatch",
        VerdictReason::Ratio => "ratio",
        VerdictReason::Grammar => "grammar",
        VerdictReason::AfterRejection => "after rejection",
        VerdictReason::AfterEnd => "after the end",
        VerdictReason::Missing => "missing",
    });
    text(refused.map_or(line.clone(), |reason| format!("{line}, then {reason}")))
}

/// Tokens as text, as far as there is a tokenizer.
struct Tokens<'a> {
    tokenizer: Option<&'a Tokenizer>,
}

impl Tokens<'_> {
    fn one(&self, token: u32) -> String {
        match self.text(&[TokenId(token)]) {
            Some(text) => format!("{text} ({token})"),
            None => token.to_string(),
        }
    }

    /// Those of a list, as one text where there is a tokenizer; a negative one was withheld.
    fn list(&self, tokens: impl ExactSizeIterator<Item = i64>) -> String {
        let more = tokens.len().saturating_sub(MOST_TOKENS);
        let mut told: Vec<String> = Vec::new();
        let mut text: Vec<TokenId> = Vec::new();
        for token in tokens.take(MOST_TOKENS) {
            let id = u32::try_from(token).ok();
            let has_text =
                |id: &u32| self.tokenizer.is_some_and(|tokenizer| !tokenizer.token_bytes(TokenId(*id)).is_empty());
            match id.filter(has_text) {
                Some(id) => text.push(TokenId(id)),
                None => {
                    told.extend(self.text(&std::mem::take(&mut text)));
                    told.push(id.map_or_else(|| "withheld".to_owned(), |id| id.to_string()));
                }
            }
        }
        told.extend(self.text(&text));
        if more > 0 {
            told.push(format!("and {more} more"));
        }
        if told.is_empty() { "none".to_owned() } else { told.join(" ") }
    }

    /// Tokens as one text in quotes; none without a tokenizer, and of tokens without text.
    fn text(&self, tokens: &[TokenId]) -> Option<String> {
        let text = self.tokenizer?.decode_with_special_tokens(tokens);
        (!text.is_empty()).then(|| shown(&format!("{text:?}")))
    }
}
