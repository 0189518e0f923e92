//! What the two libraries do otherwise, and why.

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

/// Why only `side` allows a token of these bytes after `text`.
pub fn explain(constraint: &Constraint, text: &[u8], bytes: &[u8], side: Side) -> Option<Difference> {
    let is_json = matches!(constraint, Constraint::JsonObject | Constraint::JsonSchema(_) | Constraint::Lark(_));
    let all = [text, bytes].concat();
    let has = |part: &[u8]| all.windows(part.len()).any(|window| window == part);
    match side {
        Side::Xgrammar if is_json && (bytes.contains(&b'\\') || text.ends_with(b"\\")) => Some(Difference::Escape),
        Side::Xgrammar if is_json && bytes.contains(&0x7F) => Some(Difference::Delete),
        Side::Llguidance if is_json && bytes.contains(&b'\\') => Some(Difference::NoEscape),
        Side::Llguidance if is_json && has(b"-0") => Some(Difference::NegativeZero),
        _ => None,
    }
}

/// How many of the tokens of `text` may come, one after the other.
fn valid(vocabulary: &Vocabulary, constraint: &Constraint, text: &str) -> bool {
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
    let constraint = Constraint::JsonSchema(serde_json::json!({"type": "integer"}));
    let found =
        [settings(Backend::Llguidance, Whitespace::Any), settings(Backend::Xgrammar, Whitespace::Any), as_vllm()]
            .map(|settings| valid(&Vocabulary::real(settings), &constraint, "-0"));
    assert_eq!(found, [true, false, false]);
}

/// A bug of XGrammar 0.2.8, which vLLM's masks have: in the automaton that it makes of a pattern, what begins an optional group
/// may be left out if the group ends with a repetition.
#[test]
fn an_optional_group_is_left_out_as_a_whole_or_not_at_all() {
    let constraint = Constraint::JsonSchema(serde_json::json!({"type": "string", "pattern": "^a(x[0-9]+)?c$"}));
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
    let lazy = Constraint::Lark("start: text\ntext[lazy]: /(.|\\n)*/ \"end\"".to_owned());
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
        Constraint::Ebnf("root ::= missing".to_owned()),
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
