//! Regular expressions and choices.

use crate::grammar::GrammarError;

/// Bytes of an expression.
const MAX_BYTES: usize = 64 * 1024;

/// The expression, if the library reads all of it.
pub(super) fn checked(source: &str) -> Result<&str, GrammarError> {
    let backslashes = source.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if backslashes % 2 == 1 {
        return Err(refused("regular expression", "a character after the last `\\`", "the end"));
    }
    if source.is_empty() {
        return Err(refused("regular expression", "an expression", "an empty text"));
    }
    within_limit("regular expression", source.len())?;
    Ok(source)
}

/// An expression that matches exactly these texts.
pub(super) fn any_of(texts: &[String]) -> Result<String, GrammarError> {
    if texts.is_empty() {
        return Err(refused("choice", "at least one text", "none"));
    }
    if texts.iter().any(String::is_empty) {
        return Err(refused("choice", "texts of at least one character", "an empty text"));
    }
    within_limit("choice", texts.iter().map(String::len).sum())?;
    Ok(texts.iter().map(|text| escape(text)).collect::<Vec<_>>().join("|"))
}

fn within_limit(place: &str, bytes: usize) -> Result<(), GrammarError> {
    if bytes > MAX_BYTES {
        return Err(refused(place, &format!("at most {MAX_BYTES} bytes"), &bytes.to_string()));
    }
    Ok(())
}

/// A text as an expression that matches it alone.
fn escape(text: &str) -> String {
    let escaped = |character: char| match character {
        '0'..='9' | 'a'..='z' | 'A'..='Z' | '_' | ' ' => character.to_string(),
        other => format!("\\u{{{:X}}}", u32::from(other)),
    };
    text.chars().map(escaped).collect()
}

fn refused(place: &str, expected: &str, found: &str) -> GrammarError {
    GrammarError::Refused { place: place.to_owned(), expected: expected.to_owned(), found: found.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_has_to_end_where_its_text_does() {
        assert_eq!(checked("a\\\\").unwrap(), "a\\\\");
        assert_eq!(
            checked("a\\").unwrap_err().to_string(),
            "regular expression: expected a character after the last `\\`, found the end; the request is refused, \
             because output under a part of its constraint would not be what it asks for"
        );
        assert!(checked("").is_err());
    }

    #[test]
    fn every_character_of_a_choice_stands_for_itself() {
        let texts = [".*", "a b", "é\n"].map(str::to_owned);
        assert_eq!(any_of(&texts).unwrap(), "\\u{2E}\\u{2A}|a b|\\u{E9}\\u{A}");
        assert!(any_of(&[]).is_err());
        assert!(any_of(&[String::new()]).is_err());
    }
}
