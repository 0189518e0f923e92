//! Expressions in the words of XGrammar, with the meaning that Rust's `regex` crate gives them.
//!
//! The library's own reading is another: `\d` is ASCII alone, anchors inside are passed over, flags are unknown.

use std::fmt::Write;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

/// Nesting of one expression.
const MAX_DEPTH: u32 = 200;
/// Ranges of all classes together: a named Unicode class has hundreds, and a repetition stands for many.
const MAX_RANGES: usize = 20_000;

/// What an expression is to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The text as it is, all of it.
    Text,
    /// The inside of a JSON string, whose value has a match somewhere. Characters that JSON spells with a backslash are
    /// written so where they have to come, and left out of classes.
    JsonString,
}

/// The expression for the library, made of literals, classes, groups and repetitions alone; `flags` are those of Lark.
///
/// # Errors
/// In words, if it is none, or has what the library cannot do.
pub(super) fn translate(source: &str, flags: &str, subject: Subject) -> Result<String, String> {
    let mut parser = regex_syntax::ParserBuilder::new()
        .nest_limit(MAX_DEPTH)
        .case_insensitive(flags.contains('i'))
        .dot_matches_new_line(flags.contains('s'))
        .multi_line(flags.contains('m'))
        .ignore_whitespace(flags.contains('x'))
        .build();
    if let Some(other) = flags.chars().find(|flag| !"isumx".contains(*flag)) {
        return Err(format!("the flag `{other}`"));
    }
    let expression = parser.parse(source).map_err(|error| error.to_string())?;
    let mut writer = Writer { out: String::new(), ranges: 0, subject };
    if subject == Subject::JsonString {
        writer.out += NO_AUTOMATON;
    }
    let anchors = expression.properties();
    let free = |is_anchored: bool| if is_anchored || subject == Subject::Text { "" } else { JSON_CHARACTERS };
    writer.out += free(anchors.look_set_prefix().contains(Look::Start));
    writer.group(&expression, Place { starts: true, ends: true })?;
    writer.out += free(anchors.look_set_suffix().contains(Look::End));
    Ok(writer.out)
}

/// So many characters of a JSON string, none of them an escape.
pub(super) fn json_characters(least: u64, most: Option<u64>) -> String {
    let class = JSON_CHARACTERS.trim_end_matches('*');
    match most {
        Some(most) => format!("{NO_AUTOMATON}{class}{{{least},{most}}}"),
        None => format!("{NO_AUTOMATON}{class}{{{least},}}"),
    }
}

/// Nothing, in a way that keeps the library from making its own automaton of a pattern: it makes rules of one that is not
/// ASCII. In the automaton of `a(x[0-9]+)?c`, the `x` may be left out (XGrammar 0.2.8).
const NO_AUTOMATON: &str = "(?:é){0}";

/// What a JSON string holds without a backslash.
const JSON_CHARACTERS: &str = "[ !#-\\[\\]-\\u{10FFFF}]*";

/// Where in the whole expression something stands: an anchor at the very start or end says nothing more.
#[derive(Clone, Copy)]
struct Place {
    starts: bool,
    ends: bool,
}

struct Writer {
    out: String,
    ranges: usize,
    subject: Subject,
}

impl Writer {
    /// Something that can be repeated or put beside others as it is.
    fn group(&mut self, expression: &Hir, place: Place) -> Result<(), String> {
        match expression.kind() {
            HirKind::Class(class) => return self.class(class),
            HirKind::Capture(capture) => return self.group(&capture.sub, place),
            HirKind::Empty => return Ok(()),
            HirKind::Look(look) => {
                return match look {
                    Look::Start if place.starts => Ok(()),
                    Look::End if place.ends => Ok(()),
                    _ => Err("an anchor or a boundary inside the expression".to_owned()),
                };
            }
            _ => {}
        }
        self.out += "(?:";
        match expression.kind() {
            HirKind::Literal(literal) => {
                let text = str::from_utf8(&literal.0).map_err(|_| NO_TEXT.to_owned())?;
                text.chars().for_each(|character| self.literal(character));
            }
            HirKind::Repetition(repetition) => self.repetition(repetition)?,
            HirKind::Concat(parts) => {
                let last = parts.len().saturating_sub(1);
                for (index, part) in parts.iter().enumerate() {
                    // An anchor stays at the start behind another one.
                    let starts = place.starts && parts[..index].iter().all(is_anchor);
                    let ends = place.ends && parts[(index + 1).min(last + 1)..].iter().all(is_anchor);
                    self.group(part, Place { starts, ends })?;
                }
            }
            HirKind::Alternation(parts) => {
                // An anchor of one branch alone would have to hold for that branch alone.
                let inside = match self.subject {
                    Subject::Text => place,
                    Subject::JsonString => self.anchored(expression, place),
                };
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        self.out.push('|');
                    }
                    self.group(part, inside)?;
                }
            }
            _ => {}
        }
        self.out.push(')');
        Ok(())
    }

    fn anchored(&self, expression: &Hir, place: Place) -> Place {
        let anchors = expression.properties();
        Place {
            starts: place.starts && anchors.look_set_prefix().contains(Look::Start),
            ends: place.ends && anchors.look_set_suffix().contains(Look::End),
        }
    }

    fn repetition(&mut self, repetition: &Repetition) -> Result<(), String> {
        let before = self.out.len();
        self.group(&repetition.sub, Place { starts: false, ends: false })?;
        if self.out.len() == before {
            return Ok(());
        }
        // Writing to a string cannot fail.
        let _ = match (repetition.min, repetition.max) {
            (0, None) => write!(self.out, "*"),
            (1, None) => write!(self.out, "+"),
            (0, Some(1)) => write!(self.out, "?"),
            (least, None) => write!(self.out, "{{{least},}}"),
            (least, Some(most)) => write!(self.out, "{{{least},{most}}}"),
        };
        Ok(())
    }

    fn class(&mut self, class: &Class) -> Result<(), String> {
        let Class::Unicode(class) = class else { return Err(NO_TEXT.to_owned()) };
        let mut class = class.clone();
        if self.subject == Subject::JsonString {
            class.intersect(&ClassUnicode::new(
                [(' ', '!'), ('#', '['), (']', char::MAX)].map(|(first, last)| ClassUnicodeRange::new(first, last)),
            ));
        }
        let ranges = class.ranges();
        self.ranges += ranges.len();
        if ranges.is_empty() {
            return Err("a class of which no character can come".to_owned());
        }
        if self.ranges > MAX_RANGES {
            return Err(format!("classes of more than {MAX_RANGES} ranges together"));
        }
        // The library reads `^` at the beginning as a negation, escaped as well: it goes to the end.
        let others = ranges.iter().flat_map(|range| without_caret(range.start(), range.end()));
        let others: Vec<(char, char)> = others.filter(|(first, last)| first <= last).collect();
        let has_caret = ranges.iter().any(|range| (range.start()..=range.end()).contains(&'^'));
        if others.is_empty() {
            self.number('^');
            return Ok(());
        }
        self.out.push('[');
        for (first, last) in others {
            self.number(first);
            if first != last {
                self.out.push('-');
                self.number(last);
            }
        }
        if has_caret {
            self.number('^');
        }
        self.out.push(']');
        Ok(())
    }

    /// A character that has to come.
    fn literal(&mut self, character: char) {
        let needs_escape = character < ' ' || character == '"' || character == '\\';
        if self.subject == Subject::Text || !needs_escape {
            return self.number(character);
        }
        let spelled = serde_json::Value::from(character.to_string()).to_string();
        spelled.trim_matches('"').chars().for_each(|character| self.number(character));
        if character == '"' {
            self.number('"');
        }
    }

    /// A character by its number, but for letters and digits.
    fn number(&mut self, character: char) {
        if character.is_ascii_alphanumeric() {
            self.out.push(character);
        } else {
            let _ = write!(self.out, "\\u{{{:X}}}", u32::from(character));
        }
    }
}

/// A range without `^`, as two ranges of which either may be empty.
fn without_caret(first: char, last: char) -> [(char, char); 2] {
    match (first..=last).contains(&'^') {
        true => [(first, ']'), ('_', last)],
        false => [(first, last), ('b', 'a')],
    }
}

fn is_anchor(expression: &Hir) -> bool {
    matches!(expression.kind(), HirKind::Look(_))
}

const NO_TEXT: &str = "bytes that are no UTF-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_keeps_its_meaning() {
        for (source, subject, translated) in [
            ("^[a-c]+x?$", Subject::Text, "(?:(?:[a-c]+)(?:(?:x)?))"),
            ("a{2,3}|.", Subject::Text, "(?:(?:(?:a){2,3})|[\\u{0}-\\u{9}\\u{B}-\\u{5D}\\u{5F}-\\u{10FFFF}\\u{5E}])"),
            ("[\\^-b]|[x^]|\\^", Subject::Text, "(?:[\\u{5F}-b\\u{5E}]|[x\\u{5E}]|(?:\\u{5E}))"),
            ("^a$", Subject::JsonString, "(?:é){0}(?:(?:a))"),
            ("a", Subject::JsonString, "(?:é){0}[ !#-\\[\\]-\\u{10FFFF}]*(?:a)[ !#-\\[\\]-\\u{10FFFF}]*"),
            ("^\\\\\"\\n$", Subject::JsonString, "(?:é){0}(?:(?:\\u{5C}\\u{5C}\\u{5C}\\u{22}\\u{5C}n))"),
        ] {
            assert_eq!(translate(source, "", subject).as_deref(), Ok(translated), "{source}");
        }
        let any = "(?:[Aa][\\u{0}-\\u{5D}\\u{5F}-\\u{10FFFF}\\u{5E}])";
        assert_eq!(translate("a.", "is", Subject::Text).as_deref(), Ok(any));
    }

    #[test]
    fn what_the_library_cannot_do_is_refused() {
        for source in ["a\\b", "a^b", "(?m)^a", "(a", "[a&&b]", "(?-u)\\xFF", "(?:^a|b)c^"] {
            assert!(translate(source, "", Subject::Text).is_err(), "{source}");
        }
        // A branch of its own cannot be anchored while the other is free.
        assert!(translate("^a|b", "", Subject::JsonString).is_err());
        assert!(translate("a", "l", Subject::Text).is_err());
    }
}
