//! Free text around a marker, as grammar rules.

use std::fmt::Write;

use serde_json::json;

use crate::grammar::Backend;

/// A rule of the text up to the first `marker`, and the marker.
pub(super) fn up_to(rule: &str, marker: &str, backend: Backend) -> String {
    match backend {
        Backend::Llguidance => format!("{rule}[lazy]: /(.|\\n)*/ {}\n", json!(marker)),
        Backend::Xgrammar => {
            let Escape { before, first, again, .. } = Escape::of(marker);
            format!("{rule}: /{before}{first}{again}{}/\n", spelled(&marker[char_length(marker)..]))
        }
    }
}

/// An expression of the text that goes on to the end.
///
/// llguidance reads it beside [`up_to`], which has precedence; for XGrammar it must not hold the marker.
pub(super) fn without(marker: &str, backend: Backend) -> String {
    match backend {
        Backend::Llguidance => "/(.|\\n)*/".to_owned(),
        Backend::Xgrammar => {
            let Escape { before, first, again, begun } = Escape::of(marker);
            format!("/{before}({first}{again}{begun})?/")
        }
    }
}

/// The parts of a text that does not hold a marker, whose first character comes again in it at most at its end.
///
/// The automaton of the search has one state per character of the marker that is matched; a character that does not go on
/// leads to the state after the first one, if it is the first one, and else to the beginning.
struct Escape {
    /// Text that ends with nothing of the marker begun.
    before: String,
    /// The first character.
    first: String,
    /// From the state after the first character back to it, any number of times.
    again: String,
    /// From there, more characters of the marker, but not all.
    begun: String,
}

impl Escape {
    fn of(marker: &str) -> Self {
        let characters: Vec<char> = marker.chars().collect();
        let first = characters[0];
        debug_assert!(!characters[1..].iter().rev().skip(1).any(|character| *character == first), "{marker:?}");
        let (mut again, mut left, mut begun) = (Vec::new(), Vec::new(), Vec::new());
        for (index, next) in characters.iter().enumerate().skip(1) {
            let matched: String = characters[1..index].iter().map(|character| number(*character)).collect();
            if *next != first {
                again.push(format!("{matched}{}", number(first)));
                left.push(format!("{matched}[^{}{}]", number(first), number(*next)));
            } else {
                left.push(format!("{matched}[^{}]", number(first)));
            }
            begun.push(matched);
        }
        let first = number(first);
        let again = format!("({})*", again.join("|"));
        let before = format!("([^{first}]|{first}{again}({}))*", left.join("|"));
        Self { before, first, again, begun: format!("({})", begun.join("|")) }
    }
}

fn char_length(marker: &str) -> usize {
    marker.chars().next().map_or(0, char::len_utf8)
}

fn spelled(text: &str) -> String {
    text.chars().map(number).collect()
}

/// A character by its number.
fn number(character: char) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "\\x{{{:X}}}", u32::from(character));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(lark: &str) -> &str {
        lark.trim_end().split_once('/').unwrap().1.strip_suffix('/').unwrap()
    }

    #[test]
    fn text_goes_up_to_the_first_marker_and_no_further() {
        for marker in ["<tool_call>", "\n</parameter>\n", "ab"] {
            let up_to = up_to("rule", marker, Backend::Xgrammar);
            let up_to = regex::Regex::new(&format!("^(?:{})$", inside(&up_to))).unwrap();
            let without = without(marker, Backend::Xgrammar);
            let without = regex::Regex::new(&format!("^(?:{})$", inside(&without))).unwrap();
            let letters: Vec<char> = marker.chars().chain(['x', '\n', '<']).collect();
            let mut state = 7_u64;
            let mut below = |bound: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % bound
            };
            let mut seen = [0; 2];
            for _ in 0..20_000 {
                let mut text = String::new();
                for _ in 0..below(8) {
                    match below(4) {
                        0 => text.push(letters[below(letters.len())]),
                        1 => text += marker,
                        _ => text.extend(marker.chars().take(below(marker.len()))),
                    }
                }
                let is_up_to = text.find(marker).is_some_and(|at| at + marker.len() == text.len());
                seen[0] += usize::from(is_up_to);
                seen[1] += usize::from(!text.contains(marker));
                assert_eq!(up_to.is_match(&text), is_up_to, "{marker:?} {text:?}");
                assert_eq!(without.is_match(&text), !text.contains(marker), "{marker:?} {text:?}");
            }
            assert!(seen.iter().all(|count| *count > 500), "{marker:?} {seen:?}");
        }
    }
}
