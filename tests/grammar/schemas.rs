//! Schemas of real shapes: each leads to documents that an independent validator accepts, or is refused with a reason.
//!
//! `tests/schemas/schemas.jsonl` holds them with what is expected: `refused` is the reason, its absence means accepted.
//! With `STEPSCOPE_SCHEMA_OUTCOMES=FILE` the test writes what it found in the same form.

use std::fmt::Write as _;

use serde_json::{Value, json};
use stepscope::grammar::{Constraint, GrammarError};

use crate::support::{PLAIN, Random, SMALL, Vocabulary, walk};

struct Case {
    name: String,
    schema: Value,
    refused: Option<String>,
}

fn cases() -> Vec<Case> {
    let case = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let refused = line["refused"].as_str().map(str::to_owned);
        Case { name: line["name"].as_str().unwrap().to_owned(), schema: line["schema"].take(), refused }
    };
    include_str!("../schemas/schemas.jsonl").lines().map(case).collect()
}

/// What was wrong with a document that the grammar led to.
fn documents(vocabulary: &Vocabulary, schema: &Value, seeds: u64) -> Result<Option<String>, String> {
    let grammar = match vocabulary.factory.compile(&Constraint::JsonSchema(schema.clone())) {
        Ok(grammar) => grammar,
        Err(GrammarError::Refused { place, expected, found }) => {
            return Ok(Some(format!("{place}: expected {expected}, found {found}")));
        }
        Err(other) => return Err(other.to_string()),
    };
    let validator =
        jsonschema::options().should_validate_formats(true).build(schema).map_err(|error| error.to_string())?;
    for seed in 0..seeds {
        let tokens = walk(vocabulary, &mut grammar.matcher(), &mut Random(seed)).ok_or("a walk without an end")?;
        let text = vocabulary.text(&tokens[..tokens.len() - 1]);
        let document = serde_json::from_str::<Value>(&text).map_err(|error| format!("{text}: {error}"))?;
        validator.validate(&document).map_err(|error| format!("{text}: {error}"))?;
    }
    Ok(None)
}

#[test]
fn documents_are_valid_and_refusals_say_why() {
    let cases = cases();
    assert!(cases.len() >= 200);
    let (mut outcomes, mut wrong, mut accepted) = (String::new(), String::new(), 0);
    for Case { name, schema, refused } in &cases {
        match documents(&SMALL, schema, 12) {
            Ok(found) => {
                accepted += usize::from(found.is_none());
                if found != *refused {
                    writeln!(wrong, "{name}: expected {refused:?}, found {found:?}").unwrap();
                }
                let mut outcome = json!({"name": name, "schema": schema});
                if let Some(reason) = found {
                    outcome["refused"] = reason.into();
                }
                writeln!(outcomes, "{outcome}").unwrap();
            }
            Err(error) => writeln!(wrong, "{name}: {error}").unwrap(),
        }
    }
    if let Some(path) = std::env::var_os("STEPSCOPE_SCHEMA_OUTCOMES") {
        std::fs::write(path, outcomes).unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(accepted >= 150, "{accepted} of {} accepted", cases.len());
}

#[test]
fn documents_without_white_space_are_valid_too() {
    for Case { name, schema, refused } in cases().into_iter().filter(|case| case.refused.is_none()) {
        let found = documents(&PLAIN, &schema, 5).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found, refused, "{name}");
    }
}

/// A key that is spelled with an escape is the same key, and must not escape the property's schema.
#[test]
fn a_declared_property_does_not_come_in_disguise() {
    let schema =
        json!({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}, "type": "object"});
    let mut matcher = SMALL.compile(&Constraint::JsonSchema(schema)).matcher();
    for (text, length) in [("{\"\\u0061\":\"x\"}", 3), ("{\"a\":\"x\"}", 5), ("{\"a\":1}", 7), ("{\"aa\":\"x\"}", 10)] {
        let tokens = SMALL.tokenizer.encode(text, false).unwrap();
        let valid = matcher.validate(&tokens).unwrap();
        assert_eq!(SMALL.text(&tokens[..valid]).len(), length, "{text}");
    }
}
