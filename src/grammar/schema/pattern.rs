//! ECMA-262 regular expressions, as schemas have them, in the words of the library.
//!
//! The two syntaxes overlap, and where they part, the same text can mean something else. What both have is translated,
//! with the meaning of ECMA-262; everything else is refused.

use std::iter::Peekable;
use std::str::Chars;

use crate::grammar::GrammarError;
use crate::grammar::schema::refused;

/// What `\s` matches.
const SPACE: &str =
    "\\t\\n\\x0B\\x0C\\r \\u{A0}\\u{1680}\\u{2000}-\\u{200A}\\u{2028}\\u{2029}\\u{202F}\\u{205F}\\u{3000}\\u{FEFF}";
const WORD: &str = "0-9a-zA-Z_";
const DIGIT: &str = "0-9";
/// What `.` does not match.
const LINE_ENDS: &str = "\\n\\r\\u{2028}\\u{2029}";

/// Translates a pattern.
///
/// # Errors
/// If it uses what the library cannot do.
pub(super) fn translate(place: &str, pattern: &str) -> Result<String, GrammarError> {
    let mut out = String::new();
    let mut rest = pattern.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\\' => escape(place, &mut rest, &mut out)?,
            '[' => class(place, &mut rest, &mut out)?,
            '.' => out += &format!("[^{LINE_ENDS}]"),
            '(' if rest.peek() == Some(&'?') => {
                rest.next();
                match rest.next() {
                    Some(':') => out += "(?:",
                    other => {
                        return Err(unsupported(
                            place,
                            &format!("`(?{}`", other.map(String::from).unwrap_or_default()),
                        ));
                    }
                }
            }
            '{' if !rest.peek().is_some_and(char::is_ascii_digit) => {
                return Err(unsupported(place, "`{` that begins no repetition"));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

/// An escape outside of a class.
fn escape(place: &str, rest: &mut Peekable<Chars>, out: &mut String) -> Result<(), GrammarError> {
    match rest.next() {
        Some('b' | 'B') => Err(unsupported(place, "a word boundary")),
        Some(letter) => {
            match set(letter) {
                Some((members, false)) => *out += &format!("[{members}]"),
                Some((members, true)) => *out += &format!("[^{members}]"),
                None => literal(place, letter, rest, out)?,
            }
            Ok(())
        }
        None => Err(unsupported(place, "`\\` at the end")),
    }
}

/// A class, up to its bracket.
fn class(place: &str, rest: &mut Peekable<Chars>, out: &mut String) -> Result<(), GrammarError> {
    out.push('[');
    if rest.peek() == Some(&'^') {
        rest.next();
        out.push('^');
    }
    if rest.peek() == Some(&']') {
        return Err(unsupported(place, "an empty class"));
    }
    loop {
        match rest.next() {
            Some(']') => break,
            Some('\\') => match rest.next() {
                Some('b') => *out += "\\x08",
                Some(letter) => match set(letter) {
                    Some((members, false)) => *out += &format!("[{members}]"),
                    Some((members, true)) => *out += &format!("[^{members}]"),
                    None => literal(place, letter, rest, out)?,
                },
                None => return Err(unsupported(place, "`\\` at the end")),
            },
            // These have a meaning of their own in the library's classes.
            Some(special @ ('[' | '&' | '~' | '^')) => *out += &format!("\\{special}"),
            Some('-') if rest.peek() == Some(&'-') => return Err(unsupported(place, "`--` in a class")),
            Some(other) => out.push(other),
            None => return Err(unsupported(place, "a class without its bracket")),
        }
    }
    out.push(']');
    Ok(())
}

/// The members of a named set, and whether it is their complement.
fn set(letter: char) -> Option<(&'static str, bool)> {
    let members = match letter.to_ascii_lowercase() {
        'd' => DIGIT,
        'w' => WORD,
        's' => SPACE,
        _ => return None,
    };
    Some((members, letter.is_ascii_uppercase()))
}

/// An escape that stands for one character.
fn literal(place: &str, letter: char, rest: &mut Peekable<Chars>, out: &mut String) -> Result<(), GrammarError> {
    match letter {
        't' | 'n' | 'r' => *out += &format!("\\{letter}"),
        'f' => *out += "\\x0C",
        'v' => *out += "\\x0B",
        '0' if !rest.peek().is_some_and(char::is_ascii_digit) => *out += "\\x00",
        'x' => *out += &code_point(place, rest, 2)?,
        'u' if rest.peek() != Some(&'{') => *out += &code_point(place, rest, 4)?,
        punctuation if punctuation.is_ascii_punctuation() && !"<>".contains(punctuation) => {
            *out += &format!("\\{punctuation}");
        }
        other => return Err(unsupported(place, &format!("`\\{other}`"))),
    }
    Ok(())
}

fn code_point(place: &str, rest: &mut Peekable<Chars>, digits: usize) -> Result<String, GrammarError> {
    let digits = rest.by_ref().take(digits).collect::<String>();
    let character = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
    match character {
        Some(character) => Ok(format!("\\u{{{:X}}}", u32::from(character))),
        None => Err(unsupported(place, &format!("the code {digits:?}"))),
    }
}

fn unsupported(place: &str, found: &str) -> GrammarError {
    refused(place, "a regular expression without look-around, boundaries, back references and the like", found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_syntaxes_have_keeps_its_meaning() {
        for (pattern, translated) in [
            ("^[a-z]+$", "^[a-z]+$"),
            ("\\d{2}\\W", "[0-9]{2}[^0-9a-zA-Z_]"),
            ("a.b", "a[^\\n\\r\\u{2028}\\u{2029}]b"),
            ("[[&~]", "[\\[\\&\\~]"),
            ("[^\\d\\]-]", "[^[0-9]\\]-]"),
            ("\\x41\\u00e9\\/\\.\\v", "\\u{41}\\u{E9}\\/\\.\\x0B"),
            ("(?:a|(b))??", "(?:a|(b))??"),
        ] {
            assert_eq!(translate("", pattern).unwrap(), translated, "{pattern}");
        }
    }

    #[test]
    fn what_the_library_cannot_do_is_refused() {
        for pattern in [
            "(?=a)", "(?<!a)b", "(?i)a", "(?<n>a)", "\\bx", "\\1", "\\k<n>", "\\cJ", "a\\", "[a", "[]", "x{,3}",
            "\\uD83D", "[a--b]",
        ] {
            assert!(translate("", pattern).is_err(), "{pattern}");
        }
    }
}
