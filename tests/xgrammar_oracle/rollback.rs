//! A matcher that went astray and came back has the rows of one that never left.

use serde_json::json;
use stepscope::grammar::{Backend, Constraint, GrammarSettings, MaskRow, Whitespace, fill};
use stepscope::types::TokenId;

use crate::support::{Random, Vocabulary, walk};
use crate::{as_vllm, settings};

fn constraints() -> Vec<Constraint> {
    let tree = json!({
        "$defs": {"node": {
            "type": "object",
            "properties": {"value": {"type": ["number", "null"]}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 3}},
            "required": ["value"]
        }},
        "$ref": "#/$defs/node"
    });
    vec![
        Constraint::JsonObject,
        Constraint::JsonSchema(tree),
        Constraint::JsonSchema(json!({"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 1})),
        Constraint::Regex("(ab|cde)+x{2,5}(-[0-9]{3})?".to_owned()),
        Constraint::Choice(["yes", "no", "none", "yes, sir", "é"].map(str::to_owned).to_vec()),
        Constraint::Ebnf("root ::= sum\nsum ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" sum \")\"".to_owned()),
    ]
}

#[test]
fn rollback_leaves_no_trace() {
    for settings in [settings(Backend::Xgrammar, Whitespace::Any), as_vllm()] {
        for vocabulary in [Vocabulary::small(settings), Vocabulary::real(settings)] {
            check_all(&vocabulary, settings);
        }
    }
}

fn check_all(vocabulary: &Vocabulary, settings: GrammarSettings) {
    for (kind, constraint) in constraints().iter().enumerate() {
        let grammar = vocabulary.compile(constraint);
        for seed in 0..4 {
            let random = &mut Random(seed * 100 + kind as u64);
            let path = walk(vocabulary, &mut grammar.matcher(), random).expect("a walk with an end");
            let straight = rows(&mut grammar.matcher(), &path);
            let mut astray = grammar.matcher();
            let mut at = 0;
            for _ in 0..path.len() * 2 + 8 {
                let (before, limit) = (at, path.len() - at);
                match random.below(4) {
                    0 | 1 => {
                        at += random.below(4).min(limit);
                        path[before..at].iter().for_each(|token| astray.consume(*token).unwrap());
                    }
                    2 => {
                        at -= random.below(at + 1);
                        astray.rollback(before - at).unwrap();
                    }
                    _ => {
                        let drafts: Vec<Option<TokenId>> =
                            path[at..(at + 5).min(path.len())].iter().map(|token| Some(*token)).collect();
                        let rows = fill(&mut astray, &drafts).unwrap();
                        assert_eq!(rows, straight[at..at + rows.len()], "{settings:?} {constraint:?} at {at}");
                    }
                }
                assert_eq!(astray.mask().unwrap(), straight[at], "{settings:?} {constraint:?}: at {at} after {before}");
                assert_eq!(astray.is_terminated(), at == path.len());
            }
        }
    }
}

fn rows(matcher: &mut stepscope::grammar::Matcher, path: &[TokenId]) -> Vec<MaskRow> {
    let mut rows = vec![matcher.mask().unwrap()];
    for token in path {
        matcher.consume(*token).unwrap();
        rows.push(matcher.mask().unwrap());
    }
    rows
}
