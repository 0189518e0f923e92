//! Lark grammars, and the schemas in them.

use serde_json::Value as Json;

use crate::grammar::{GrammarError, Whitespace, schema};

/// Bytes of a grammar.
const MAX_BYTES: usize = 256 * 1024;
/// Nesting of groups, which the library goes down by recursion.
const MAX_DEPTH: usize = 256;

/// Attributes of a rule that rollback, or the settings of the request, cannot go with.
const REFUSED_ATTRIBUTES: &[&str] = &["max_tokens", "stop", "stop_capture", "temperature"];

/// What in a grammar is written in another language, or in words that another library does not know.
#[cfg_attr(not(feature = "xgrammar"), allow(dead_code, reason = "llguidance takes most of them as they are"))]
pub(super) enum Foreign<'a> {
    /// A schema after `%json`.
    Schema(&'a Json),
    /// A regular expression without its slashes, and its flags.
    Expression(&'a str, &'a str),
    /// A special token, in its brackets.
    Special(&'a str),
    /// A rule of the text up to a marker, and the marker: `rule[lazy]: /(.|\n)*/ "marker"`.
    UpTo { rule: &'a str, marker: &'a str },
}

/// The grammar as llguidance is to compile it: every schema after `%json` prepared.
///
/// # Errors
/// If a schema in it cannot be enforced, or it is too large, or it sets an option under which masks would not be what
/// their settings say.
pub(super) fn prepare(source: &str, whitespace: Whitespace) -> Result<String, GrammarError> {
    rewrite(source, REFUSED_ATTRIBUTES, &mut |foreign| match foreign {
        Foreign::Schema(value) => Ok(Some(format!("%json {}", schema::prepare(value, whitespace)?))),
        Foreign::Expression(..) | Foreign::Special(_) | Foreign::UpTo { .. } => Ok(None),
    })
}

/// The grammar with what `replace` puts in the places of foreign parts; `None` leaves a part as it is.
///
/// # Errors
/// Those of `replace`, with the place; if the grammar is too large, or has an attribute in `refused_attributes`, or options.
pub(super) fn rewrite(
    source: &str,
    refused_attributes: &[&str],
    replace: &mut dyn FnMut(Foreign<'_>) -> Result<Option<String>, GrammarError>,
) -> Result<String, GrammarError> {
    if source.len() > MAX_BYTES {
        return Err(refused(source, 0, format!("at most {MAX_BYTES} bytes"), source.len().to_string()));
    }
    let mut prepared = String::with_capacity(source.len());
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(piece) = Piece::at(source, at) {
        if let Piece::Word(rule) = piece
            && let Some((marker, length)) = up_to_marker(rule, &source[at + rule.len()..])
            && let Some(own) =
                replace(Foreign::UpTo { rule, marker: &marker }).map_err(|error| within(source, at, error))?
        {
            prepared += &own;
            at += rule.len() + length;
            continue;
        }
        match piece {
            Piece::Open if depth == MAX_DEPTH => {
                return Err(refused(
                    source,
                    at,
                    format!("at most {MAX_DEPTH} groups in each other"),
                    "more".to_owned(),
                ));
            }
            Piece::Unclosed => {
                let (expected, found) = ("strings and expressions that are closed", "one that goes on to the end");
                return Err(refused(source, at, expected.to_owned(), found.to_owned()));
            }
            Piece::Open => depth += 1,
            Piece::Close => depth = depth.saturating_sub(1),
            Piece::Json(keyword) => {
                let start = at + keyword.len();
                let (value, length) = json(source, start)?;
                match keyword {
                    "%json" => {
                        let own = replace(Foreign::Schema(&value)).map_err(|error| within(source, at, error))?;
                        prepared += &own.unwrap_or_else(|| format!("{keyword} {value}"));
                    }
                    _ if value == Json::Object(serde_json::Map::new()) => prepared += &format!("{keyword} {value}"),
                    _ => {
                        let found = format!("{keyword} {value}");
                        return Err(refused(source, at, "no options of the grammar library".to_owned(), found));
                    }
                }
                at = start + length;
                continue;
            }
            Piece::Word(word) if is_attribute(word, refused_attributes, &source[at + word.len()..]) => {
                let expected = format!("no rule attributes {}", refused_attributes.join(", "));
                return Err(refused(source, at, expected, format!("`{word}`")));
            }
            Piece::Expression(length) => {
                let flags = &source[at + length..];
                let flags =
                    &flags[..flags.len() - flags.trim_start_matches(|flag: char| flag.is_ascii_lowercase()).len()];
                let inside = &source[at + 1..at + length - 1];
                let own = replace(Foreign::Expression(inside, flags)).map_err(|error| within(source, at, error))?;
                prepared += &own.unwrap_or_else(|| source[at..at + length + flags.len()].to_owned());
                at += length + flags.len();
                continue;
            }
            Piece::Special(length) => {
                let own =
                    replace(Foreign::Special(&source[at..at + length])).map_err(|error| within(source, at, error))?;
                prepared += &own.unwrap_or_else(|| source[at..at + length].to_owned());
                at += length;
                continue;
            }
            Piece::Word(_) | Piece::Text(_) => {}
        }
        let length = piece.length();
        prepared += &source[at..at + length];
        at += length;
    }
    Ok(prepared)
}

/// A grammar in another notation.
pub(super) fn not_ebnf() -> GrammarError {
    GrammarError::Refused {
        place: "grammar".to_owned(),
        expected: "a grammar in Lark, which llguidance reads".to_owned(),
        found: "one in EBNF (`::=`), which the grammar backend xgrammar reads".to_owned(),
    }
}

/// What stands at one place of a grammar, as far as it matters here.
enum Piece<'a> {
    Open,
    Close,
    /// A directive that a JSON value follows.
    Json(&'static str),
    /// The name of a rule, a terminal or an attribute.
    Word(&'a str),
    /// So many bytes of a regular expression, both slashes included, without its flags.
    Expression(usize),
    /// A string or an expression that goes on to the end.
    Unclosed,
    /// So many bytes of the name of a special token, or of ids.
    Special(usize),
    /// So many bytes of anything else: a string or a comment as a whole.
    Text(usize),
}

impl<'a> Piece<'a> {
    fn at(source: &'a str, at: usize) -> Option<Self> {
        let rest = &source[at..];
        let first = rest.chars().next()?;
        Some(match first {
            '(' | '[' | '{' => Self::Open,
            ')' | ']' | '}' => Self::Close,
            '"' => quoted(rest, '"').map_or(Self::Unclosed, Self::Text),
            '<' if special(rest) == 1 => Self::Text(1),
            '<' => Self::Special(special(rest)),
            '/' if rest.starts_with("//") => Self::Text(rest.find('\n').unwrap_or(rest.len())),
            '/' => quoted(rest, '/').map_or(Self::Unclosed, Self::Expression),
            '#' => Self::Text(rest.find('\n').unwrap_or(rest.len())),
            '%' if rest.starts_with("%json") => Self::Json("%json"),
            '%' if rest.starts_with("%llguidance") => Self::Json("%llguidance"),
            first if is_word(first) => Self::Word(rest.split(|character| !is_word(character)).next().unwrap_or(rest)),
            other => Self::Text(other.len_utf8()),
        })
    }

    fn length(&self) -> usize {
        match self {
            Self::Open | Self::Close | Self::Unclosed => 1,
            Self::Json(keyword) => keyword.len(),
            Self::Word(word) => word.len(),
            Self::Text(length) | Self::Expression(length) | Self::Special(length) => *length,
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-".contains(character)
}

/// Whether this is one of the attributes: `name=`, or `lazy` in its brackets.
fn is_attribute(word: &str, attributes: &[&str], rest: &str) -> bool {
    let after = if word == "lazy" { [']', ',', '='].as_slice() } else { &['='] };
    attributes.contains(&word) && rest.trim_start().starts_with(after)
}

/// The marker of a rule `name[lazy]: /(.|\n)*/ "marker"`, and the bytes behind the name; `rest` is what stands there.
pub(super) fn up_to_marker(rule: &str, rest: &str) -> Option<(String, usize)> {
    let text = rest.strip_prefix("[lazy]: /(.|\\n)*/ ").filter(|text| text.starts_with('"'))?;
    let (text, after) = text.split_at(quoted(text, '"')?);
    let is_all = after.is_empty()
        || after.starts_with('\n') && after.trim_start().chars().next().is_none_or(|next| is_word(next) || next == '%');
    let starts_rule = rule.starts_with(|first: char| first.is_ascii_lowercase());
    let marker = serde_json::from_str(text).ok().filter(|_| is_all && starts_rule)?;
    Some((marker, rest.len() - after.len()))
}

/// Bytes of the name of a special token, which may hold a slash.
fn special(rest: &str) -> usize {
    let end = rest[1..].find(|character: char| character.is_whitespace() || "<>".contains(character));
    match end {
        Some(end) if rest[1 + end..].starts_with('>') => end + 2,
        _ => 1,
    }
}

/// Bytes of a string or regular expression, both delimiters included; `None` if the second is missing.
fn quoted(rest: &str, delimiter: char) -> Option<usize> {
    let mut escaped = false;
    for (index, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            other if other == delimiter => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// The JSON value at a place, and how many bytes it takes.
fn json(source: &str, start: usize) -> Result<(Json, usize), GrammarError> {
    let mut values = serde_json::Deserializer::from_str(&source[start..]).into_iter::<Json>();
    let expected = "a JSON value".to_owned();
    match values.next() {
        Some(Ok(value)) => Ok((value, values.byte_offset())),
        Some(Err(error)) => Err(refused(source, start, expected, error.to_string())),
        None => Err(refused(source, start, expected, "nothing".to_owned())),
    }
}

/// An error of a schema, with the place of the schema.
fn within(source: &str, at: usize, error: GrammarError) -> GrammarError {
    match error {
        GrammarError::Refused { place, expected, found } => {
            GrammarError::Refused { place: format!("{}, {place}", line_and_column(source, at)), expected, found }
        }
        other => other,
    }
}

fn refused(source: &str, at: usize, expected: String, found: String) -> GrammarError {
    GrammarError::Refused { place: line_and_column(source, at), expected, found }
}

fn line_and_column(source: &str, at: usize) -> String {
    let before = &source[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("grammar line {line}, column {column}")
}
