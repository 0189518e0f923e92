//! What an output can be required to look like.

use serde_json::Value as Json;

/// What an output must look like, from its first byte to its last.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// Any JSON object.
    JsonObject,
    /// A JSON document that a schema accepts.
    JsonSchema(Json),
    /// A text that a regular expression matches as a whole; syntax and meaning are those of Rust's `regex` crate.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A text that a grammar in the Lark dialect of `llguidance` derives.
    Lark(String),
    /// A text that a grammar in the EBNF of XGrammar (the GBNF of llama.cpp) derives from its rule `root`.
    Ebnf(String),
}

impl Constraint {
    /// A grammar in the notation that its first rule has: EBNF defines a name by `::=`, Lark by `:`.
    pub fn grammar(source: &str) -> Self {
        match begins_as_ebnf(source) {
            true => Self::Ebnf(source.to_owned()),
            false => Self::Lark(source.to_owned()),
        }
    }

    /// Its kind, as captures name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::JsonObject => "json_object",
            Self::JsonSchema(_) => "json_schema",
            Self::Regex(_) => "regex",
            Self::Choice(_) => "choice",
            Self::Lark(_) => "lark",
            Self::Ebnf(_) => "ebnf",
        }
    }

    /// What stands behind the kind: a schema and choices as JSON, an expression and a grammar as they are.
    pub fn source(&self) -> String {
        match self {
            Self::JsonObject => String::new(),
            Self::JsonSchema(schema) => schema.to_string(),
            Self::Regex(source) | Self::Lark(source) | Self::Ebnf(source) => source.clone(),
            Self::Choice(texts) => Json::from(texts.as_slice()).to_string(),
        }
    }

    /// The constraint of this kind and source; `None` if there is none.
    pub fn from_source(kind: &str, source: &str) -> Option<Self> {
        Some(match kind {
            "json_object" => Self::JsonObject,
            "json_schema" => Self::JsonSchema(serde_json::from_str(source).ok()?),
            "regex" => Self::Regex(source.to_owned()),
            "choice" => Self::Choice(serde_json::from_str(source).ok()?),
            "lark" => Self::Lark(source.to_owned()),
            "ebnf" => Self::Ebnf(source.to_owned()),
            _ => return None,
        })
    }
}

fn begins_as_ebnf(source: &str) -> bool {
    let source = without_space(source);
    let rest =
        source.trim_start_matches(|character: char| character.is_ascii_alphanumeric() || "_-.".contains(character));
    let has_name = rest.len() < source.len();
    // Options of the rule.
    let rest = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(rest, |(_, rest)| rest);
    has_name && without_space(rest).starts_with("::=")
}

/// The text behind white space and the comments of either notation.
fn without_space(source: &str) -> &str {
    let mut rest = source.trim_start();
    while rest.starts_with('#') || rest.starts_with("//") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_says_which_notation_a_grammar_is_in() {
        for source in [
            "root ::= \"a\"",
            "\n  # says: so\n// or so\nroot-1.b\t# and here\n::= [:]",
            "root[max_tokens=3] ::= \"a\"",
        ] {
            assert_eq!(Constraint::grammar(source), Constraint::Ebnf(source.to_owned()));
        }
        for source in [
            "start: \"a ::= b\"",
            "// root ::= a\nstart: /::=/",
            "# root ::= a\n%ignore \" \"\nstart: \"a\"",
            "?start: a\na: \"::=\"",
            "start[capture=\"x ::= y\"]: \"a\"",
            "::= \"a\"",
            "",
        ] {
            assert_eq!(Constraint::grammar(source), Constraint::Lark(source.to_owned()));
        }
    }
}
