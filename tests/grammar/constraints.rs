//! Regular expressions, choices and Lark grammars; ends and special tokens.

use serde_json::json;
use stepscope::grammar::{Backend, Constraint, GrammarError, GrammarFactory, GrammarSettings, MaskRow, fill};
use stepscope::model::Model;
use stepscope::model::synthetic::{BEGIN_OF_SEQUENCE, END_OF_SEQUENCE, SyntheticModel};
use stepscope::types::TokenId;

use crate::differential::constraints;
use crate::support::{PLAIN, REAL, Random, SMALL, SPACED, Vocabulary, walk};

fn texts(vocabulary: &Vocabulary, constraint: &Constraint, seeds: u64) -> Vec<String> {
    let grammar = vocabulary.compile(constraint);
    let text = |seed| {
        let tokens = walk(vocabulary, &mut grammar.matcher(), &mut Random(seed)).expect("an end");
        vocabulary.text(&tokens[..tokens.len() - 1])
    };
    (0..seeds).map(text).collect()
}

fn refusal(constraint: &Constraint) -> String {
    match SMALL.factory.compile(constraint) {
        Err(GrammarError::Refused { place, expected, found }) => format!("{place}: expected {expected}, found {found}"),
        other => panic!("{constraint:?}: {other:?}"),
    }
}

#[test]
fn a_regular_expression_matches_the_whole_text() {
    let expressions = [
        "[a-z]{3,8}",
        "(ab|cde)+x{2,5}(-[0-9]{3})?",
        "\\d+\\.\\d{2}",
        "https?://[a-z]+\\.(com|org)/[^ \\n]*",
        "\\w+@\\w+",
        "a/b//c\\\\d",
        "\\s?é[^x]?",
        "(?i)yes|no",
    ];
    for expression in expressions {
        let whole = regex::Regex::new(&format!("^(?:{expression})$")).unwrap();
        for vocabulary in [&*SMALL, &*PLAIN, &*REAL] {
            for text in texts(vocabulary, &Constraint::Regex(expression.to_owned()), 10) {
                assert!(whole.is_match(&text), "{expression}: {text:?}");
            }
        }
    }
}

#[test]
fn white_space_of_json_is_what_the_settings_say() {
    let schema = json!({
        "type": "object",
        "properties": {
            "names": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3},
            "place": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                "required": ["x", "y"], "additionalProperties": false},
            "more": {},
        },
        "required": ["names", "place"],
        "additionalProperties": false,
    });
    let lark = format!("start: \"call \" object\nobject: %json {schema}\n");
    let string = regex::Regex::new(r#""(\\.|[^"\\])*""#).unwrap();
    for constraint in [Constraint::JsonSchema(schema), Constraint::Lark(lark)] {
        for (vocabulary, comma, colon) in [(&*PLAIN, ",", ":"), (&*SPACED, ", ", ": ")] {
            for text in texts(vocabulary, &constraint, 20) {
                let outside = string.replace_all(text.trim_start_matches("call "), "s").into_owned();
                let compact: String = outside.split_whitespace().collect();
                assert_eq!(outside, compact.replace(',', comma).replace(':', colon), "{text:?}");
            }
        }
    }
}

#[test]
fn what_a_regular_expression_cannot_have_is_refused() {
    for expression in ["a(?=b)", "(a)\\1", "\\bx", "a(b", "a\\", "", "[z-a]"] {
        let reason = refusal(&Constraint::Regex(expression.to_owned()));
        assert!(reason.starts_with("regular expression: expected "), "{expression}: {reason}");
    }
}

#[test]
fn every_choice_comes_and_nothing_else() {
    let choices = ["yes", "no", "none", "yes, sir", ".*", "é", "two\nlines", "\"quoted\"", "<|im_end|>"];
    let constraint = Constraint::Choice(choices.map(str::to_owned).to_vec());
    for vocabulary in [&*SMALL, &*PLAIN, &*REAL] {
        let mut found = texts(vocabulary, &constraint, 200);
        found.sort_unstable();
        found.dedup();
        let mut expected = choices.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
    assert_eq!(refusal(&Constraint::Choice(vec![])), "choice: expected at least one text, found none");
    assert_eq!(
        refusal(&Constraint::Choice(vec![String::new()])),
        "choice: expected texts of at least one character, found an empty text"
    );
}

#[test]
fn a_lark_grammar_is_followed() {
    let sum = "start: sum\nsum: term (\"+\" term)*\nterm: NUMBER | \"(\" sum \")\"\nNUMBER: /[0-9]{1,3}/";
    for text in texts(&SMALL, &Constraint::Lark(sum.to_owned()), 40) {
        let mut depth = 0;
        for (index, character) in text.char_indices() {
            depth += i32::from(character == '(') - i32::from(character == ')');
            assert!(depth >= 0 && "0123456789+()".contains(character), "{text:?}, byte {index}");
        }
        assert_eq!(depth, 0, "{text:?}");
        assert!(
            !text.contains("++") && !text.contains("()") && !text.contains(")(") && !text.ends_with('+'),
            "{text:?}"
        );
    }
}

#[test]
fn a_schema_in_a_lark_grammar_is_held_to_the_same_rules() {
    let accepted = "start: \"<tool_call>\" call \"</tool_call>\"\ncall: %json {\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}";
    for text in texts(&SMALL, &Constraint::Lark(accepted.to_owned()), 20) {
        let inner = text.strip_prefix("<tool_call>").and_then(|rest| rest.strip_suffix("</tool_call>")).expect("tags");
        let document = serde_json::from_str::<serde_json::Value>(inner).unwrap();
        assert!(document.as_object().unwrap().values().all(serde_json::Value::is_i64), "{document}");
    }
    let refused = "start: \"a\" value // %json {}\nvalue: </x/y> | %json {\"items\": {\"uniqueItems\": true}}"
        .replace("</x/y> | ", "");
    assert_eq!(
        refusal(&Constraint::Lark(refused)),
        "grammar line 2, column 8, schema /items/uniqueItems: expected no comparison of items, found `uniqueItems`"
    );
    let slashes = "start: </tool/call> %json {\"not\": {}} /x/";
    assert!(refusal(&Constraint::Lark(slashes.to_owned())).contains("no negation"));
    let options = "%llguidance {\"allow_invalid_utf8\": true}\nstart: /a/";
    assert!(
        refusal(&Constraint::Lark(options.to_owned())).starts_with("grammar line 1, column 1: expected no options")
    );
}

#[test]
fn what_could_not_be_rolled_back_or_ended_is_refused() {
    for (source, found) in [
        ("start: \"a\" <|im_end|>", "found the end token 2, which comes by itself where the grammar is complete"),
        ("start: \"a\" <[1-3]>", "found the end token 2, which comes by itself where the grammar is complete"),
        ("start: text \"b\"\ntext[max_tokens=3]: /[a-z]+/", "found `max_tokens`"),
        ("start: text \"b\"\ntext[lazy, stop = \"x\"]: /[a-z]+/", "found `stop`"),
        ("start: text \"b\"\ntext[temperature=0.5]: /[a-z]+/", "found `temperature`"),
        ("start: text \"b\"\ntext[suffix=\"\"]: /[a-z]+/", "found a text that only an end token ends"),
        ("start: \"x\" A\nA: /[0-9]+", "found one that goes on to the end"),
        ("start: \"x\" A\nA: /[0-9]+\\/", "found one that goes on to the end"),
    ] {
        let reason = refusal(&Constraint::Lark(source.to_owned()));
        assert!(reason.ends_with(found), "{source}: {reason}");
    }
    for source in ["", "start: missing", "start: \"a", "no_start: \"a\"", "start: %json {", "start: \"a\" <|unknown|>"]
    {
        refusal(&Constraint::Lark(source.to_owned()));
    }
}

/// Two end tokens, as a model's generation defaults can name them.
fn two_ends() -> Vocabulary {
    let folder = tempfile::tempdir().unwrap();
    SyntheticModel::llama(1).write_hugging_face(folder.path()).unwrap();
    let path = folder.path().join("generation_config.json");
    std::fs::write(&path, json!({"eos_token_id": [0, 2]}).to_string()).unwrap();
    let model = Model::load(folder.path()).unwrap();
    let (tokenizer, size) = (model.tokenizer, model.config.vocabulary_size);
    assert_eq!(tokenizer.end_tokens(), [TokenId(0), TokenId(2)]);
    let factory = GrammarFactory::new(&tokenizer, size, GrammarSettings::default()).unwrap();
    Vocabulary { tokenizer, size, factory }
}

#[test]
fn every_end_token_may_come_exactly_where_the_grammar_may_stop() {
    let vocabulary = two_ends();
    for constraint in constraints() {
        let grammar = vocabulary.compile(&constraint);
        for seed in 0..5 {
            let path = walk(&vocabulary, &mut grammar.matcher(), &mut Random(seed)).unwrap();
            let mut matcher = grammar.matcher();
            for token in path {
                let (mask, accepts_end) = (matcher.mask().unwrap(), matcher.accepts_end().unwrap());
                for end in [TokenId(0), TokenId(2)] {
                    assert_eq!(mask.allows(end), accepts_end, "{constraint:?}");
                }
                matcher.consume(token).unwrap();
            }
            assert!(matcher.is_terminated() && !matcher.accepts_end().unwrap());
        }
    }
}

#[test]
fn an_end_token_terminates_and_is_taken_back() {
    let mut matcher = SMALL.compile(&Constraint::Regex("ab*".to_owned())).matcher();
    let [a, b] = ["a", "b"].map(|text| SMALL.tokenizer.encode(text, false).unwrap()[0]);
    matcher.consume(a).unwrap();
    let before = matcher.mask().unwrap();
    matcher.consume(END_OF_SEQUENCE).unwrap();
    assert!(matcher.is_terminated());
    assert_eq!(matcher.consumed(), 2);
    assert_eq!(matcher.mask().unwrap(), MaskRow::all(SMALL.size));
    assert_eq!(matcher.consume(b), Err(GrammarError::NotAllowed { consumed: 2, token: b }));
    assert_eq!(matcher.consume(END_OF_SEQUENCE), Err(GrammarError::NotAllowed { consumed: 2, token: END_OF_SEQUENCE }));
    assert_eq!(matcher.rollback(3), Err(GrammarError::Rollback { consumed: 2, count: 3 }));
    matcher.rollback(1).unwrap();
    assert!(!matcher.is_terminated());
    assert_eq!(matcher.mask().unwrap(), before);
    matcher.consume(b).unwrap();
    matcher.consume(END_OF_SEQUENCE).unwrap();
    matcher.rollback(3).unwrap();
    assert_eq!((matcher.consumed(), matcher.mask().unwrap().only()), (0, Some(a)));
}

#[test]
fn special_tokens_are_no_free_text() {
    for vocabulary in [&*SMALL, &*PLAIN, &*REAL] {
        let specials = (0..vocabulary.size as u32).map(TokenId).filter(|token| vocabulary.tokenizer.is_special(*token));
        let specials = specials.filter(|token| !vocabulary.is_end(*token)).collect::<Vec<_>>();
        assert!(!specials.is_empty());
        for constraint in [Constraint::JsonObject, Constraint::Regex("(?s).*".to_owned())] {
            let grammar = vocabulary.compile(&constraint);
            let path = walk(vocabulary, &mut grammar.matcher(), &mut Random(3)).unwrap();
            let mut matcher = grammar.matcher();
            for token in &path {
                let mask = matcher.mask().unwrap();
                assert!(specials.iter().all(|special| !mask.allows(*special)));
                assert_eq!(matcher.validate(&specials).unwrap(), 0);
                matcher.consume(*token).unwrap();
            }
        }
    }
}

/// The name of a special token, forced as a text, is spelled by ordinary tokens.
#[test]
fn a_forced_text_that_names_a_special_token_stays_text() {
    for vocabulary in [&*SMALL, &*REAL] {
        let mut matcher = vocabulary.compile(&Constraint::Choice(vec!["<|im_start|>".to_owned()])).matcher();
        let forced = matcher.forced(64).unwrap();
        assert!(forced.len() > 2);
        assert_eq!(vocabulary.text(&forced[..forced.len() - 1]), "<|im_start|>");
        assert!(forced[..forced.len() - 1].iter().all(|token| !vocabulary.tokenizer.is_special(*token)));
        assert_eq!(forced.last(), Some(&vocabulary.tokenizer.end_tokens()[0]));
    }
    let mut named = SMALL.compile(&Constraint::Lark("start: <|im_start|>".to_owned())).matcher();
    assert_eq!(named.mask().unwrap().only(), Some(BEGIN_OF_SEQUENCE));
}

#[test]
fn canonical_masks_allow_one_tokenization_of_a_forced_text() {
    let constraint = Constraint::Choice(vec![" the other".to_owned()]);
    let canonical = SMALL.tokenizer.encode(" the other", false).unwrap();
    let mut matcher = SMALL.compile(&constraint).matcher();
    assert_eq!(matcher.mask().unwrap().only(), Some(canonical[0]));
    let forced = matcher.forced(32).unwrap();
    assert_eq!(forced[..forced.len() - 1], canonical);
    assert_eq!(matcher.forced(2).unwrap(), canonical[..2]);
    assert_eq!(matcher.consumed(), 0);
    let mut any = PLAIN.compile(&constraint).matcher();
    assert!(any.mask().unwrap().population() >= 3);
}

#[test]
fn a_fill_is_permissive_after_a_withheld_a_refused_and_an_end_token() {
    let mut matcher = SMALL.compile(&Constraint::Regex("a{1,9}".to_owned())).matcher();
    let [a, b] = ["a", "b"].map(|text| Some(SMALL.tokenizer.encode(text, false).unwrap()[0]));
    let all = MaskRow::all(SMALL.size);
    let permissive = |matcher: &mut _, drafts: &[_]| {
        fill(matcher, drafts).unwrap().iter().map(|row| *row == all).collect::<Vec<_>>()
    };
    assert_eq!(permissive(&mut matcher, &[]), [false]);
    assert_eq!(permissive(&mut matcher, &[a, a]), [false, false, false]);
    assert_eq!(permissive(&mut matcher, &[a, b, a]), [false, false, true, true]);
    assert_eq!(permissive(&mut matcher, &[None, a]), [false, true, true]);
    assert_eq!(permissive(&mut matcher, &[a, Some(END_OF_SEQUENCE), a]), [false, false, true, true]);
    assert_eq!(matcher.consumed(), 0);
}

#[test]
fn rows_can_be_longer_than_the_tokenizer_and_not_shorter() {
    let size = SMALL.tokenizer.vocabulary_size();
    let factory = GrammarFactory::new(&SMALL.tokenizer, size + 13, GrammarSettings::default()).unwrap();
    let grammar = factory.compile(&Constraint::Regex("(?s).*".to_owned())).unwrap();
    let mask = grammar.matcher().mask().unwrap();
    assert_eq!(mask.vocabulary_size(), size + 13);
    assert!(mask.allowed().all(|token| token.index() < size));
    assert!(mask.population() > 200);
    let error = GrammarFactory::new(&SMALL.tokenizer, size - 1, GrammarSettings::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("tokenizer: expected at most {} tokens, the length of the model's rows, found {size}", size - 1)
    );
}

#[test]
fn matchers_can_move_between_threads() {
    fn sends<T: Send>() {}
    fn shares<T: Send + Sync>() {}
    sends::<stepscope::grammar::Matcher>();
    shares::<stepscope::grammar::Grammar>();
    shares::<GrammarFactory>();
}

#[test]
fn the_recorded_version_is_the_one_that_is_built() {
    // The version of XGrammar stands in the source of this crate, and not in its own: another crate may have another.
    let crate_of_xgrammar = ("xgrammar", "0.6.0");
    assert_eq!(Backend::Xgrammar.component(), ("xgrammar", "0.2.8"));
    for (name, version) in [Backend::Llguidance.component(), crate_of_xgrammar] {
        let locked = format!("name = \"{name}\"\nversion = \"{version}\"");
        assert!(include_str!("../../Cargo.lock").contains(&locked), "{name} {version}");
    }
}
