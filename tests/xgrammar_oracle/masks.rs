//! Masks of both libraries, step by step on the vocabulary of SmolLM2.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stepscope::grammar::{Backend, Constraint, MaskRow, Whitespace};
use stepscope::types::TokenId;

use crate::differences::{Difference, Side, explain};
use crate::settings;
use crate::support::{Random, Vocabulary};

/// Tokens of a walk.
const STEPS: usize = 40;

fn schemas() -> Vec<Value> {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    vec![
        json!({"type": "boolean"}),
        json!({"type": "null"}),
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": 1, "maximum": 9}),
        json!({"type": "integer", "minimum": -20, "maximum": 300}),
        json!({"enum": ["red", "green", "blue"]}),
        json!({"enum": [1, 2.5, null, true, "x"]}),
        json!({"const": {"a": [1, "b"]}}),
        json!({"type": "string", "pattern": "^[a-z]{2,5}-[0-9]+$"}),
        json!({"type": "string", "pattern": "^(foo|bar)?baz$"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "format": "uuid"}),
        json!({"type": "string", "format": "ipv4"}),
        json!({"type": "string", "maxLength": 6}),
        json!({"type": "string", "minLength": 2, "maxLength": 4}),
        json!({"type": "string"}),
        json!({"type": "array", "items": {"type": "boolean"}}),
        json!({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3}),
        json!({"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "null"}}]}),
        object(json!({"city": {"type": "string"}, "n": {"type": "integer"}}), json!(["city", "n"])),
        object(json!({"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"enum": [1]}}), json!(["b"])),
        object(json!({"a": {"type": "boolean"}, "b": {"type": "null"}}), json!([])),
        object(json!({"in": object(json!({"x": {"type": "integer"}}), json!(["x"]))}), json!(["in"])),
        object(json!({"tags": {"type": "array", "items": {"type": "string", "maxLength": 3}}}), json!(["tags"])),
        json!({}),
        json!({"type": "object"}),
        json!({"type": ["array", "null"]}),
        json!({"type": "array", "items": true, "minItems": 2}),
        object(json!({"a": true, "b": {"type": "array"}, "c": {"title": "any"}}), json!(["a", "b", "c"])),
        json!({"$defs": {"t": object(json!({"v": {"type": "boolean"}, "next": {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}}), json!(["v", "next"]))}, "$ref": "#/$defs/t"}),
    ]
}

fn texts() -> Vec<Constraint> {
    let expressions = [
        "[0-9]{4}-[0-9]{2}-[0-9]{2}",
        "(ab|cde)+x{2,5}(-[0-9]{3})?",
        "[^\"]{3,40}é?",
        "(yes|no)( please)?",
        "\\d{1,3}",
        "\\w+@\\w+\\.(com|org)",
        "(?i)hello world",
        "[\\^\\-\\]a]+",
        "^anchored$",
        ".{1,10}",
        "(?s).{1,10}",
        "[α-ω]+|[一-龥]{2}",
    ];
    let choices = [&["yes", "no", "maybe"][..], &["a", "ab", "abc"], &["<|im_end|>", "é\n", "\"quoted\" \\ "]];
    let choice = |texts: &&[&str]| Constraint::Choice(texts.iter().map(|text| (*text).to_owned()).collect());
    let lark = [
        "start: sum\nsum: term (\"+\" term)*\nterm: NUMBER | \"(\" sum \")\"\nNUMBER: /[0-9]+/",
        "start: <|im_start|> /[a-z]+/ <|im_start|>*",
        "start: \"<call>\" body \"</call>\"\nbody: %json {\"type\": \"array\", \"items\": {\"type\": \"boolean\"}}",
    ];
    let expressions = expressions.map(|source| Constraint::Regex(source.to_owned()));
    let lark = lark.map(|source| Constraint::Lark(source.to_owned()));
    expressions.into_iter().chain(choices.iter().map(choice)).chain(lark).collect()
}

#[test]
fn both_libraries_allow_the_same_tokens_but_for_what_is_explained() {
    let mut seen = Vec::new();
    let (mut steps, mut wrong) = (0, BTreeSet::new());
    for whitespace in [Whitespace::None, Whitespace::Single] {
        let ours = Vocabulary::real(settings(Backend::Llguidance, whitespace));
        let theirs = Vocabulary::real(settings(Backend::Xgrammar, whitespace));
        let schemas = schemas().into_iter().map(Constraint::JsonSchema);
        let constraints = schemas.chain([Constraint::JsonObject]).chain(texts());
        for (kind, constraint) in constraints.enumerate() {
            for seed in 0..2 {
                let random = &mut Random(seed * 1000 + kind as u64);
                match compare([&ours, &theirs], [&constraint, &constraint], random, &mut seen) {
                    Ok(compared) => steps += compared,
                    Err(difference) => drop(wrong.insert(difference)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{steps} rows of both are the same but for {seen:?}");
    assert!(steps > 1_000, "{steps}");
    // Every difference that is written out is there.
    for difference in Difference::OF_CHECKED {
        assert!(seen.contains(&difference), "{difference:?} was not seen");
    }
}

/// Two schemas of which one allows more by what is explained under others.
#[test]
fn a_planted_difference_is_not_explained() {
    let vocabularies =
        [Backend::Llguidance, Backend::Xgrammar].map(|backend| Vocabulary::real(settings(backend, Whitespace::None)));
    for (ours, theirs) in [
        (json!({"type": "string"}), json!({"type": "string", "pattern": "^[^\u{0}-\u{1F}\u{7F}]*$"})),
        (json!({"type": "number"}), json!({"type": "number", "minimum": 0})),
        (json!({"type": "integer"}), json!({"type": "integer", "minimum": 0})),
        (json!({"const": "a"}), json!({"const": "a/"})),
        (
            json!({"type": "array", "items": {"const": 1}}),
            json!({"type": "array", "items": {"const": 1}, "minItems": 1}),
        ),
    ] {
        let constraints = [ours, theirs].map(Constraint::JsonSchema);
        let found =
            compare([&vocabularies[0], &vocabularies[1]], constraints.each_ref(), &mut Random(0), &mut Vec::new());
        assert!(found.is_err(), "{constraints:?}");
    }
}

/// Walks along tokens that both allow, each under its constraint, and returns how many rows were compared, or what nothing
/// explains under the first.
fn compare(
    [ours, theirs]: [&Vocabulary; 2],
    constraints: [&Constraint; 2],
    random: &mut Random,
    seen: &mut Vec<Difference>,
) -> Result<usize, String> {
    let constraint = constraints[0];
    let mut left = ours.compile(constraint).matcher();
    let mut right = theirs.compile(constraints[1]).matcher();
    let mut text: Vec<u8> = Vec::new();
    for step in 0..STEPS {
        let [a, b] = [&mut left, &mut right].map(|matcher| {
            matcher
                .mask()
                .unwrap_or_else(|error| panic!("{constraint:?} {:?}: {error}", String::from_utf8_lossy(&text)))
        });
        for (token, side) in differing(&a, &b) {
            let bytes = ours.tokenizer.token_bytes(token);
            let difference = explain(constraint, &text, bytes, side).ok_or_else(|| {
                let (text, bytes) = (String::from_utf8_lossy(&text), String::from_utf8_lossy(bytes));
                format!("{constraint:?}: after {text:?}, only {side:?} allows {bytes:?} ({token})")
            })?;
            if !seen.contains(&difference) {
                seen.push(difference);
            }
        }
        let both: Vec<TokenId> = a.allowed().filter(|token| b.allows(*token)).collect();
        // Escapes are rare among the tokens of a string.
        let escapes: Vec<TokenId> =
            both.iter().copied().filter(|token| ours.tokenizer.token_bytes(*token).contains(&b'\\')).collect();
        let both = if !escapes.is_empty() && random.one_in(4) { escapes } else { both };
        let Some(token) = both.get(random.below(both.len())).copied() else {
            return Err(format!("{constraint:?}: after {:?} they share no token", String::from_utf8_lossy(&text)));
        };
        if ours.is_end(token) {
            return Ok(step + 1);
        }
        left.consume(token).unwrap();
        right.consume(token).unwrap();
        text.extend_from_slice(ours.tokenizer.token_bytes(token));
    }
    Ok(STEPS)
}

fn differing(ours: &MaskRow, theirs: &MaskRow) -> Vec<(TokenId, Side)> {
    let only = |a: &MaskRow, b: &MaskRow, side: Side| {
        a.allowed().filter(|token| !b.allows(*token)).map(|token| (token, side)).collect::<Vec<_>>()
    };
    [only(ours, theirs, Side::Llguidance), only(theirs, ours, Side::Xgrammar)].concat()
}
