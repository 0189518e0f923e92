//! Constraints made to hang the compiler or to fill the memory: each is refused, or does neither.

use serde_json::{Value, json};
use stepscope::grammar::{Constraint, GrammarError};

use crate::support::{Random, SMALL};

/// Compiles, and then takes a few steps; whether it was accepted.
fn survives(constraint: &Constraint) -> bool {
    match SMALL.factory.compile(constraint) {
        Ok(grammar) => {
            let (mut matcher, mut random) = (grammar.matcher(), Random(1));
            for _ in 0..40 {
                let Ok(mask) = matcher.mask() else { break };
                let allowed = mask.allowed().collect::<Vec<_>>();
                match matcher.consume(allowed[random.below(allowed.len())]) {
                    Ok(()) if !matcher.is_terminated() => {}
                    _ => break,
                }
            }
            true
        }
        Err(GrammarError::Refused { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

fn nested(depth: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({"type": "integer"}), |inner, _| wrap(inner))
}

#[test]
fn hostile_schemas() {
    let chain = (0..9_000).map(|index| (format!("d{index}"), json!({"$ref": format!("#/$defs/d{}", index + 1)})));
    let mut chain = chain.collect::<serde_json::Map<_, _>>();
    chain.insert("d9000".to_owned(), json!({"type": "integer"}));
    let doubling = (0..40).map(|index| {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        (format!("d{index}"), json!({"type": "array", "prefixItems": [next, next], "items": false, "minItems": 2}))
    });
    let mut doubling = doubling.collect::<serde_json::Map<_, _>>();
    doubling.insert("d40".to_owned(), json!({"type": "integer"}));
    let crossed =
        (0..14).map(|index| json!({"anyOf": [{"minLength": index}, {"maxLength": 900 + index}]})).collect::<Vec<_>>();
    let wide = (0..12_000).map(|index| (format!("p{index}"), json!({}))).collect::<serde_json::Map<_, _>>();
    let schemas = [
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 1_000_000_000}),
        json!({"type": "array", "items": {"type": "array", "minItems": 4_000_000_000_u32}, "maxItems": 4_000_000_000_u32, "minItems": 3_999_999_999_u32}),
        json!({"type": "string", "minLength": 1_000_000_000}),
        json!({"type": "string", "maxLength": 4_294_967_295_u32}),
        json!({"type": "string", "minLength": 5_000_000_000_u64}),
        json!({"type": "object", "maxProperties": 1_000_000_000, "additionalProperties": {"type": "integer"}}),
        json!({"type": "string", "pattern": "^(?:(?:(?:a{1,100}){1,100}){1,100}){1,100}$"}),
        json!({"type": "string", "pattern": "(?:a|b)*a(?:a|b){60}"}),
        json!({"type": "string", "pattern": "^(?:a?){400}a{400}$"}),
        json!({"type": "string", "pattern": "(".repeat(20_000)}),
        json!({"type": "string", "pattern": format!("{}a{}", "(".repeat(240), ")".repeat(240))}),
        json!({"type": "integer", "multipleOf": 999_983, "minimum": 1}),
        json!({"type": "number", "multipleOf": 1e-15}),
        json!({"enum": (0..20_000).map(|index| format!("value number {index}")).collect::<Vec<_>>()}),
        json!({"const": "x".repeat(300_000)}),
        json!({"$ref": "#/$defs/d0", "$defs": chain}),
        json!({"$ref": "#/$defs/d0", "$defs": doubling}),
        json!({"type": "string", "allOf": crossed}),
        json!({"type": "object", "properties": wide}),
        nested(120, |inner| json!({"type": "array", "items": inner})),
        nested(400, |inner| json!({"type": "array", "items": inner})),
        nested(60, |inner| json!({"anyOf": [inner, {"type": "null"}]})),
        nested(24, |inner| json!({"allOf": [inner.clone(), {"anyOf": [{"minimum": 1}, {"maximum": 9}]}]})),
    ];
    let accepted = schemas.map(|schema| survives(&Constraint::JsonSchema(schema)));
    let refused = (0..accepted.len()).filter(|index| !accepted[*index]).collect::<Vec<_>>();
    assert_eq!(refused, [4, 9, 11, 12, 14, 17, 18, 20, 22]);
}

#[test]
fn hostile_regular_expressions_and_grammars() {
    let long = "a".repeat(60_000);
    let deep = format!("start: {}\"a\"{}", "(".repeat(5_000), ")".repeat(5_000));
    let choices = (0..4_000).map(|index| format!("choice {index}")).collect();
    let ambiguous = "start: e\ne: e e e | e e | \"a\" |";
    let rules = (0..3_000).map(|index| format!("r{index}: r{} r{}\n", index + 1, index + 1)).collect::<String>();
    let constraints = [
        Constraint::Regex("(a{1000}){1000}".to_owned()),
        Constraint::Regex("((a{1,1000}){1,1000}){1,1000}".to_owned()),
        Constraint::Regex("(?:x|y)*x(?:x|y){200}".to_owned()),
        Constraint::Regex("a{1,4294967295}".to_owned()),
        Constraint::Regex(long.clone()),
        Constraint::Regex("(".repeat(60_000)),
        Constraint::Regex(format!("{long}{long}")),
        Constraint::Choice(choices),
        Constraint::Choice(vec![long; 2]),
        Constraint::Lark(deep),
        Constraint::Lark(ambiguous.to_owned()),
        Constraint::Lark(format!("start: r0\n{rules}r3000: \"a\"")),
        Constraint::Lark("start: \"a\"~0..1000000000".to_owned()),
        Constraint::Lark("start: start \"a\" | start".to_owned()),
        Constraint::Lark("start: \"ab\" start".to_owned()),
    ];
    let accepted = constraints.map(|constraint| survives(&constraint));
    let refused = (0..accepted.len()).filter(|index| !accepted[*index]).collect::<Vec<_>>();
    assert_eq!(refused, [5, 6, 8, 9, 13]);
}
