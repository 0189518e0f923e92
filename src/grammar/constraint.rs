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
