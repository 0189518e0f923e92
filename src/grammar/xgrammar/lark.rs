//! Lark grammars in XGrammar's dialect.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::expression::{self, Subject};
use super::marker::Marker;
use super::vocabulary::SpecialTokens;
use crate::grammar::GrammarError;
use crate::grammar::lark::{Foreign, rewrite, up_to_marker};
use crate::types::TokenId;

/// Attributes of rules that change what may come, or that the library means otherwise: text up to a marker may end without
/// it there.
const REFUSED_ATTRIBUTES: &[&str] =
    &["max_tokens", "max_chars", "stop", "stop_capture", "temperature", "lazy", "suffix"];
/// How a grammar begins under which text may come, or text up to a marker and calls; the marker follows. llguidance gives
/// `lead` precedence: the text alone does not hold the marker.
const TEXT_OR_CALLS: &str = "start: text | lead calls\ntext: /(.|\\n)*/\n";

/// A grammar for the library, and the schemas that it names.
pub(super) struct Prepared {
    pub(super) source: String,
    pub(super) names: Vec<String>,
    pub(super) schemas: Vec<Json>,
}

/// The grammar with expressions in the library's words, special tokens by number and schemas by name.
///
/// # Errors
/// If it has what the library cannot do, or names an end token.
pub(super) fn prepare(source: &str, tokens: &SpecialTokens) -> Result<Prepared, GrammarError> {
    let mut schemas = Vec::new();
    let refused = |expected: &str, found: String| GrammarError::Refused {
        place: "grammar".to_owned(),
        expected: expected.to_owned(),
        found,
    };
    // The library reads up to the first one.
    if source.contains('\0') {
        return Err(refused("no U+0000", "one".to_owned()));
    }
    let source = &text_without_marker(source);
    let rewritten = rewrite(source, REFUSED_ATTRIBUTES, &mut |foreign| match foreign {
        Foreign::Schema(schema) => {
            schemas.push(schema.clone());
            Ok(Some(format!("@schema_{}", schemas.len() - 1)))
        }
        Foreign::Expression(inside, flags) => {
            let translated = expression::translate(&inside.replace("\\/", "/"), flags, Subject::Text);
            let translated = translated.map_err(|found| refused("an expression that xgrammar can follow", found))?;
            // An expression of nothing is a text of nothing.
            Ok(Some(if translated.is_empty() { "\"\"".to_owned() } else { format!("/{translated}/") }))
        }
        Foreign::UpTo { rule, marker } => {
            let Some(marker) = Marker::of(marker) else { return Ok(None) };
            let translated = expression::translate(&marker.up_to(), "", Subject::Text);
            let translated = translated.map_err(|found| refused("an expression that xgrammar can follow", found))?;
            Ok(Some(format!("{rule}: /{translated}/")))
        }
        Foreign::Special(name) => {
            let ids = ids(name, tokens);
            let ids = ids.ok_or_else(|| refused("a special token, or ids and ranges of ids", format!("`{name}`")))?;
            let is_end =
                |(first, last): &(u32, u32)| tokens.ends.iter().any(|token| (*first..=*last).contains(&token.0));
            if ids.iter().any(is_end) {
                let expected = "no end token, which comes by itself where the grammar is complete";
                return Err(refused(expected, format!("`{name}`")));
            }
            let range = |(first, last): &(u32, u32)| format!("{first}-{last}");
            Ok(Some(format!("<[{}]>", ids.iter().map(range).collect::<Vec<_>>().join(","))))
        }
    })?;
    let names = (0..schemas.len()).map(|index| format!("schema_{index}")).collect();
    Ok(Prepared { source: rewritten, names, schemas })
}

/// The grammar with text alone that does not hold the marker, where it is of the form in which that is meant.
fn text_without_marker(source: &str) -> Cow<'_, str> {
    let rest = source.strip_prefix(TEXT_OR_CALLS);
    let found = rest.and_then(|rest| Some((rest, up_to_marker("lead", rest.strip_prefix("lead")?)?)));
    match found.and_then(|(rest, (marker, _))| Some((rest, Marker::of(&marker)?))) {
        Some((rest, marker)) => format!("start: text | lead calls\ntext: /{}/\n{rest}", marker.without()).into(),
        None => source.into(),
    }
}

/// The tokens that a name in brackets stands for, as ranges.
fn ids(name: &str, tokens: &SpecialTokens) -> Option<Vec<(u32, u32)>> {
    let Some(list) = name.strip_prefix("<[").and_then(|name| name.strip_suffix("]>")) else {
        return tokens.ids.get(name.as_bytes()).map(|TokenId(id)| vec![(*id, *id)]);
    };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    list.split(',').map(range).collect()
}
