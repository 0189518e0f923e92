//! What the two libraries do otherwise, and why.

use std::ops::Range;

use serde_json::json;
use stepscope::grammar::{Backend, Constraint, Whitespace};

use crate::support::Vocabulary;
use crate::{as_vllm, settings};

/// Which library allows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Llguidance,
    Xgrammar,
}

/// An explained difference of two masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// XGrammar spells characters of a JSON string as `\u` escapes, and `/` as `\/`; llguidance is told not to, so that
    /// a key has one spelling.
    Escape,
    /// Strings with a length or a pattern have no escapes under XGrammar: they are given to it as expressions of characters
    /// that need none.
    NoEscape,
    /// XGrammar has U+007F in strings, as JSON has; llguidance leaves it out with the other control characters.
    Delete,
    /// XGrammar has no `-0` among the integers; JSON Schema takes it for 0.
    NegativeZero,
}

impl Difference {
    /// Those under checked constraints.
    pub const OF_CHECKED: [Self; 4] = [Self::Escape, Self::NoEscape, Self::Delete, Self::NegativeZero];
}

/// Why only `side` allows a token of these bytes after `text`: by what the two make together.
pub fn explain(constraint: &Constraint, text: &[u8], bytes: &[u8], side: Side) -> Option<Difference> {
    let source = match constraint {
        Constraint::JsonObject => String::new(),
        Constraint::JsonSchema(schema) => schema.to_string(),
        Constraint::Lark(source) if source.contains("%json") => source.clone(),
        _ => return None,
    };
    let has = |names: &[&str]| names.iter().any(|name| source.contains(&format!("\"{name}\"")));
    let all = [text, bytes].concat();
    let Strings { escapes, deletes } = Strings::of(&all);
    let mut escapes = escapes.iter().filter(|escape| escape.end > text.len()).map(|escape| &all[escape.clone()]);
    match side {
        Side::Xgrammar if escapes.any(is_of_xgrammar) => Some(Difference::Escape),
        Side::Xgrammar if deletes.iter().any(|at| *at >= text.len()) => Some(Difference::Delete),
        Side::Llguidance if has(&["minLength", "maxLength", "pattern", "format"]) && escapes.any(is_of_llguidance) => {
            Some(Difference::NoEscape)
        }
        Side::Llguidance if has(&["integer"]) && ends_with_negative_zero(&all) => Some(Difference::NegativeZero),
        _ => None,
    }
}

/// What stands in the strings of JSON text, whose end may be missing.
#[derive(Default)]
struct Strings {
    /// Escapes, the last of which may be begun alone.
    escapes: Vec<Range<usize>>,
    /// Places of U+007F.
    deletes: Vec<usize>,
}

impl Strings {
    fn of(text: &[u8]) -> Self {
        let mut found = Self::default();
        let (mut at, mut is_inside) = (0, false);
        while at < text.len() {
            let length = match text[at] {
                b'\\' if is_inside => {
                    let length = if text.get(at + 1) == Some(&b'u') { 6 } else { 2 };
                    let end = text.len().min(at + length);
                    found.escapes.push(at..end);
                    end - at
                }
                b'"' => {
                    is_inside = !is_inside;
                    1
                }
                0x7F if is_inside => {
                    found.deletes.push(at);
                    1
                }
                _ => 1,
            };
            at += length;
        }
        found
    }
}

/// `\/` or `\uXXXX`, or the beginning of the latter.
fn is_of_xgrammar(escape: &[u8]) -> bool {
    escape == b"\\/" || escape.strip_prefix(b"\\u").is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// One of the others, or a backslash alone.
fn is_of_llguidance(escape: &[u8]) -> bool {
    escape == b"\\" || matches!(escape, [b'\\', second] if b"nrbtf\"\\".contains(second))
}

fn ends_with_negative_zero(text: &[u8]) -> bool {
    let before = text.strip_suffix(b"-0").map(<[u8]>::last);
    before.is_some_and(|last| last.is_none_or(|last| b"[:, \n\r\t".contains(last)))
}

#[test]
fn a_difference_of_another_kind_is_not_explained() {
    let json = |schema: serde_json::Value| Constraint::JsonSchema(schema);
    let (integer, string) = (json(json!({"type": "integer"})), json(json!({"type": "string"})));
    let short = json(json!({"type": "string", "maxLength": 9}));
    let lark = Constraint::Lark("start: /.*/".to_owned());
    let with_json = Constraint::Lark("start: %json {\"type\": \"integer\"}".to_owned());
    let regex = Constraint::Regex(".*".to_owned());
    for (constraint, text, bytes, side, expected) in [
        (&integer, "", "-0", Side::Llguidance, Some(Difference::NegativeZero)),
        (&integer, "-", "0", Side::Llguidance, Some(Difference::NegativeZero)),
        (&with_json, "", "-0", Side::Llguidance, Some(Difference::NegativeZero)),
        (&integer, "", "-01", Side::Llguidance, None),
        (&integer, "1", "-0", Side::Llguidance, None),
        (&integer, "-0", "7", Side::Llguidance, None),
        (&integer, "-", "0", Side::Xgrammar, None),
        (&string, "\"", "-0", Side::Llguidance, None),
        (&lark, "", "-0", Side::Llguidance, None),
        (&regex, "", "-0", Side::Llguidance, None),
        (&string, "\"a", "\\/", Side::Xgrammar, Some(Difference::Escape)),
        (&string, "\"a", "\\u00", Side::Xgrammar, Some(Difference::Escape)),
        (&string, "\"a\\", "u", Side::Xgrammar, Some(Difference::Escape)),
        (&string, "\"a", "\\", Side::Xgrammar, None),
        (&string, "\"a", "\\n", Side::Xgrammar, None),
        (&string, "\"a\\", "x", Side::Xgrammar, None),
        (&string, "\"a", "\\u0g", Side::Xgrammar, None),
        (&string, "\"\\/", "a", Side::Xgrammar, None),
        (&string, "\"a\"", "\\/", Side::Xgrammar, None),
        (&lark, "\"a", "\\/", Side::Xgrammar, None),
        (&string, "\"a", "b\u{7F}", Side::Xgrammar, Some(Difference::Delete)),
        (&string, "", "\u{7F}", Side::Xgrammar, None),
        (&regex, "", "\u{7F}", Side::Xgrammar, None),
        (&short, "\"a", "\\n", Side::Llguidance, Some(Difference::NoEscape)),
        (&short, "\"a", "\\", Side::Llguidance, Some(Difference::NoEscape)),
        (&short, "\"a", "\\u00", Side::Llguidance, None),
        (&short, "\"a", "\\/", Side::Llguidance, None),
        (&short, "\"a\\n", "b", Side::Llguidance, None),
        (&string, "\"a", "\\n", Side::Llguidance, None),
        (&short, "\"a", "b", Side::Llguidance, None),
    ] {
        assert_eq!(
            explain(constraint, text.as_bytes(), bytes.as_bytes(), side),
            expected,
            "{text:?} {bytes:?} {side:?}"
        );
    }
}

/// Whether the tokens of `text` may come, one after the other.
pub fn valid(vocabulary: &Vocabulary, constraint: &Constraint, text: &str) -> bool {
    let tokens = vocabulary.tokenizer.encode(text, false).unwrap();
    vocabulary.compile(constraint).matcher().validate(&tokens).unwrap() == tokens.len()
}

#[test]
fn digits_are_those_of_ascii_for_the_library_and_those_of_unicode_here() {
    let constraint = Constraint::Regex("\\d".to_owned());
    let found =
        [settings(Backend::Llguidance, Whitespace::Any), settings(Backend::Xgrammar, Whitespace::Any), as_vllm()]
            .map(|settings| valid(&Vocabulary::real(settings), &constraint, "٣"));
    assert_eq!(found, [true, true, false]);
}

#[test]
fn negative_zero_is_no_integer_for_the_library() {
    let constraint = Constraint::JsonSchema(json!({"type": "integer"}));
    let found =
        [settings(Backend::Llguidance, Whitespace::Any), settings(Backend::Xgrammar, Whitespace::Any), as_vllm()]
            .map(|settings| valid(&Vocabulary::real(settings), &constraint, "-0"));
    assert_eq!(found, [true, false, false]);
}

/// A bug of XGrammar 0.2.8, which vLLM's masks have: in the automaton that it makes of a pattern, what begins an optional group
/// may be left out if the group ends with a repetition.
#[test]
fn an_optional_group_is_left_out_as_a_whole_or_not_at_all() {
    let constraint = Constraint::JsonSchema(json!({"type": "string", "pattern": "^a(x[0-9]+)?c$"}));
    let found =
        [settings(Backend::Llguidance, Whitespace::Any), settings(Backend::Xgrammar, Whitespace::Any), as_vllm()]
            .map(|settings| valid(&Vocabulary::small(settings), &constraint, "\"a1c\""));
    assert_eq!(found, [false, false, true]);
}

#[test]
fn special_tokens_are_text_as_vllm_hands_them_over_and_never_here() {
    let constraint = Constraint::Regex("[<>|a-z_]+".to_owned());
    let found =
        [settings(Backend::Llguidance, Whitespace::Any), settings(Backend::Xgrammar, Whitespace::Any), as_vllm()].map(
            |settings| {
                let vocabulary = Vocabulary::real(settings);
                let token = vocabulary.tokenizer.token_id("<|im_start|>").unwrap();
                assert!(vocabulary.tokenizer.is_special(token));
                vocabulary.compile(&constraint).matcher().mask().unwrap().allows(token)
            },
        );
    assert_eq!(found, [false, false, true]);
}

#[test]
fn what_one_library_alone_reads_is_refused_by_the_other() {
    let ebnf = Constraint::Ebnf("root ::= \"yes\" | \"no\"".to_owned());
    let lazy = Constraint::Lark("start: text\ntext[lazy]: /[a-z]*/ \"end\"".to_owned());
    let [ours, theirs] =
        [Backend::Llguidance, Backend::Xgrammar].map(|backend| Vocabulary::small(settings(backend, Whitespace::Any)));
    assert!(ours.factory.compile(&ebnf).unwrap_err().to_string().contains("xgrammar reads"));
    assert!(theirs.factory.compile(&ebnf).is_ok());
    assert!(ours.factory.compile(&lazy).is_ok());
    assert!(theirs.factory.compile(&lazy).unwrap_err().to_string().contains("`lazy`"));
    for refused in [
        Constraint::Lark("start: \"a\" <|im_end|>".to_owned()),
        Constraint::Lark("start[max_tokens=3]: /a*/".to_owned()),
        Constraint::Lark("start: <[0-200]>".to_owned()),
        Constraint::Lark("start: /a\\b/".to_owned()),
        Constraint::Lark("start: %json {\"type\": \"array\", \"uniqueItems\": true}".to_owned()),
        Constraint::Ebnf("root[max_tokens=3] ::= [a]*".to_owned()),
        Constraint::Lark("start: \"x\" A\nA: /[0-9]+".to_owned()),
        Constraint::Lark("start: \"x".to_owned()),
        Constraint::Lark("start: \"a\"\0 | \"b\"".to_owned()),
        Constraint::Ebnf("root ::= missing".to_owned()),
        Constraint::Ebnf("root ::= \"a\" Token\n(2) \"b\"".to_owned()),
        Constraint::JsonSchema(json!({"const": 0.1})),
        Constraint::JsonSchema(json!({"type": []})),
        Constraint::JsonSchema(json!({"type": "object", "properties": {"a": {}}, "required": [1]})),
        Constraint::JsonSchema(
            json!({"$defs": {"": {"x": {"type": "integer"}}, "x": {"type": "null"}}, "$ref": "#/$defs//x"}),
        ),
        Constraint::Ebnf("root ::= TagDispatch((\"a\", b))\nb ::= \"b\"".to_owned()),
        Constraint::Regex("(?=a)b".to_owned()),
        Constraint::Regex("a\\b".to_owned()),
        Constraint::Regex("[^\\x00-\\u{10FFFF}]".to_owned()),
    ] {
        assert!(theirs.factory.compile(&refused).is_err(), "{refused:?}");
    }
}

#[test]
fn the_library_has_no_canonical_tokens() {
    let error = stepscope::grammar::GrammarFactory::new(
        &Vocabulary::small(settings(Backend::Llguidance, Whitespace::Any)).tokenizer,
        1 << 16,
        stepscope::grammar::GrammarSettings { backend: Backend::Xgrammar, ..Default::default() },
    );
    assert!(error.unwrap_err().to_string().contains("canonical tokens"));
}
