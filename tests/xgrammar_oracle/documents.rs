//! Random walks under XGrammar lead to documents that an independent validator accepts, or the schema is refused.

use serde_json::Value;
use stepscope::grammar::{Backend, Constraint, GrammarError, Whitespace};

use crate::settings;
use crate::support::{Random, Vocabulary, walk};

/// Schemas that are accepted at least: most of those that llguidance accepts.
const ACCEPTED: usize = 150;

#[test]
fn documents_are_valid_and_everything_else_is_refused() {
    let mut wrong = Vec::new();
    let mut accepted = 0;
    for whitespace in Whitespace::ALL {
        let vocabulary = Vocabulary::small(settings(Backend::Xgrammar, whitespace));
        accepted = 0;
        for line in include_str!("../schemas/schemas.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let (name, schema) = (case["name"].as_str().unwrap(), &case["schema"]);
            match documents(&vocabulary, schema) {
                Ok(is_accepted) => accepted += usize::from(is_accepted),
                Err(error) => wrong.push(format!("{name} ({}): {error}", whitespace.name())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{accepted} schemas accepted");
    assert!(accepted >= ACCEPTED, "{accepted} accepted");
}

/// Whether the schema is accepted; an error if it leads to what it does not allow.
fn documents(vocabulary: &Vocabulary, schema: &Value) -> Result<bool, String> {
    let grammar = match vocabulary.factory.compile(&Constraint::JsonSchema(schema.clone())) {
        Ok(grammar) => grammar,
        Err(GrammarError::Refused { .. }) => return Ok(false),
        Err(other) => return Err(other.to_string()),
    };
    let validator =
        jsonschema::options().should_validate_formats(true).build(schema).map_err(|error| error.to_string())?;
    for seed in 0..12 {
        let tokens = walk(vocabulary, &mut grammar.matcher(), &mut Random(seed)).ok_or("a walk without an end")?;
        let bytes = tokens[..tokens.len() - 1].iter().flat_map(|token| vocabulary.tokenizer.token_bytes(*token));
        let text = String::from_utf8(bytes.copied().collect()).map_err(|error| error.to_string())?;
        let document = match serde_json::from_str::<Value>(&text) {
            Ok(document) => document,
            // JSON's grammar has half of a surrogate pair, which no text has.
            Err(error) if error.to_string().contains("surrogate") || error.to_string().contains("hex escape") => {
                continue;
            }
            Err(error) => return Err(format!("{text}: {error}")),
        };
        validator.validate(&document).map_err(|error| format!("{text}: {error}"))?;
    }
    Ok(true)
}
