//! XGrammar's EBNF, as far as it is one of characters.

use crate::grammar::GrammarError;

/// Bytes of a grammar.
const MAX_BYTES: usize = 256 * 1024;
/// Names that stand for more than rules of characters, wherever they stand for a rule.
const MACROS: &[&str] = &["TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex", "Substring"];

/// Whether the grammar is one of characters alone, with no options.
///
/// # Errors
/// If it is not.
pub(super) fn check(source: &str) -> Result<(), GrammarError> {
    let refused =
        |expected: String, found: String| Err(GrammarError::Refused { place: "grammar".to_owned(), expected, found });
    if source.len() > MAX_BYTES {
        return refused(format!("at most {MAX_BYTES} bytes"), source.len().to_string());
    }
    // The library reads up to the first one.
    if source.contains('\0') {
        return refused("no U+0000".to_owned(), "one".to_owned());
    }
    let mut rest = source;
    let mut is_behind_class = false;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '#' => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            ' ' | '\t' | '\n' | '\r' => 1,
            '"' => delimited(rest, '"'),
            '[' => delimited(rest, ']'),
            first if is_name(first) && !first.is_ascii_digit() => {
                rest.find(|character| !is_name(character)).unwrap_or(rest.len())
            }
            other => other.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        if MACROS.contains(&piece) {
            return refused("rules of characters alone".to_owned(), format!("`{piece}`"));
        }
        if is_behind_class && rest.starts_with("::=") {
            return refused("rules without options".to_owned(), "`]` before `::=`".to_owned());
        }
        is_behind_class = first == '[' || is_behind_class && "# \t\n\r".contains(first);
        rest = after;
    }
    Ok(())
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-.".contains(character)
}

/// Bytes of a string or a class, both delimiters included; to the end, if the second is missing.
fn delimited(rest: &str, end: char) -> usize {
    let mut escaped = false;
    for (index, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            other if other == end => return index + other.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_and_options_are_found_wherever_white_space_stands() {
        for source in [
            "root ::= \"a\" Token(2)",
            "root ::= Token (1)",
            "root ::= \"a\" Token\n(2) \"b\"",
            "root ::= \"a\" ExcludeToken # a comment\n (2)",
            "root ::= TagDispatch\t((\"<f>\", b), loop_after_dispatch=false)\nb ::= \"x\"",
            "root ::= [\"]Regex(\"a\")",
            "root ::= \"\\\"\" Substring(\"ab\")",
            "root ::= [\\]\"] TokenTagDispatch((1, b))",
            "root ::= 1Token(2)",
            "root ::= b\nb[lazy] ::= [a]",
            "root ::= b\nb[lazy] # why\n ::= [a]",
            "root ::= \"a\"\0 | Token(2)",
        ] {
            assert!(check(source).is_err(), "{source:?}");
        }
        for source in [
            "root ::= \"Token (2)\" | [Token(2)] # Token(2)\n| MyToken | Token-2\nMyToken ::= [a]\nToken-2 ::= \"] ::= \"",
            "# b[lazy] ::= [a]\r\nroot ::= \"a\"\r\n",
        ] {
            assert!(check(source).is_ok(), "{source:?}");
        }
    }
}
