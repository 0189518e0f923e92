//! Free text up to a marker, as an expression: the library ends such a text anywhere where it is asked for by `lazy`.

use std::fmt::Write;

/// The parts of a text that does not hold a marker, whose first character comes again in it at most at its end.
///
/// The automaton of the search has one state per character of the marker that is matched; a character that does not go on
/// leads to the state after the first one, if it is the first one, and else to the beginning.
pub(super) struct Marker {
    /// Text that ends with nothing of the marker begun.
    before: String,
    /// The first character.
    first: String,
    /// From the state after the first character back to it, any number of times.
    again: String,
    /// From there, more characters of the marker, but not all.
    begun: String,
    /// From there, all of them.
    rest: String,
}

impl Marker {
    /// `None` for a marker that begins anew within itself, or has less than two characters.
    pub(super) fn of(marker: &str) -> Option<Self> {
        let characters: Vec<char> = marker.chars().collect();
        let (first, [inner @ .., _]) = characters.split_first()? else { return None };
        if inner.contains(first) {
            return None;
        }
        let (mut again, mut left, mut begun, mut matched) = (Vec::new(), Vec::new(), Vec::new(), String::new());
        for next in &characters[1..] {
            if next != first {
                again.push(format!("{matched}{}", number(*first)));
                left.push(format!("{matched}[^{}{}]", number(*first), number(*next)));
            } else {
                left.push(format!("{matched}[^{}]", number(*first)));
            }
            begun.push(matched.clone());
            matched += &number(*next);
        }
        let first = number(*first);
        let again = format!("({})*", again.join("|"));
        let before = format!("([^{first}]|{first}{again}({}))*", left.join("|"));
        Some(Self { before, first, again, begun: format!("({})", begun.join("|")), rest: matched })
    }

    /// An expression of the text up to the first marker, and the marker.
    pub(super) fn up_to(&self) -> String {
        let Self { before, first, again, rest, .. } = self;
        format!("{before}{first}{again}{rest}")
    }

    /// An expression of the text that does not hold it.
    pub(super) fn without(&self) -> String {
        let Self { before, first, again, begun, .. } = self;
        format!("{before}({first}{again}{begun})?")
    }
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

    #[test]
    fn text_goes_up_to_the_first_marker_and_no_further() {
        for marker in ["<tool_call>", "\n</parameter>\n", "ab", "aa"] {
            let parts = Marker::of(marker).unwrap();
            let whole = |expression: String| regex::Regex::new(&format!("^(?:{expression})$")).unwrap();
            let (up_to, without) = (whole(parts.up_to()), whole(parts.without()));
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
            assert!(seen.iter().all(|count| *count > 200), "{marker:?} {seen:?}");
        }
    }

    #[test]
    fn a_marker_that_begins_anew_within_itself_is_none_of_these() {
        for marker in ["", "a", "aab", "<a<b"] {
            assert!(Marker::of(marker).is_none(), "{marker:?}");
        }
    }
}
