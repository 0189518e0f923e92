use super::{Progress, StopChecker};
use crate::params::{Defaults, Request, SamplingParams};
use crate::types::{FinishReason, TokenId};

const END: TokenId = TokenId(9);

/// The parameters of a request with these fields.
fn params(fields: &str) -> SamplingParams {
    let defaults = Defaults { vocabulary_size: 100, context_length: 1_000, ..Defaults::default() };
    let body = format!(r#"{{"prompt": "x", "max_tokens": 500, {fields}}}"#);
    Request::parse(&body, None).expect("a request").resolve(&defaults).expect("resolvable").sampling()
}

/// Feeds texts, one token each, until the sequence ends; the whole output text and the reason.
fn run(params: &SamplingParams, texts: &[&str]) -> (String, Option<FinishReason>) {
    let mut checker = StopChecker::new(params, &[END], 1_000);
    let mut output = String::new();
    for text in texts {
        let Progress { text, finish } = checker.push(TokenId(1), text);
        output.push_str(&text);
        if finish.is_some() {
            return (output, finish);
        }
    }
    (output, None)
}

fn stop_string(text: &str) -> Option<FinishReason> {
    Some(FinishReason::StopString(text.to_owned()))
}

#[test]
fn a_stop_string_may_span_tokens_and_is_no_output() {
    let params = params(r#""stop": ["STOP"]"#);
    assert_eq!(run(&params, &["a ST", "OP b", "c"]), ("a ".to_owned(), stop_string("STOP")));
    assert_eq!(run(&params, &["S", "T", "O", "P"]), (String::new(), stop_string("STOP")));
    assert_eq!(run(&params, &["xSTOPy"]), ("x".to_owned(), stop_string("STOP")));
}

#[test]
fn what_may_begin_a_stop_string_is_held_back_until_it_does_not() {
    let mut checker = StopChecker::new(&params(r#""stop": ["abcd", "cx"]"#), &[END], 1_000);
    let mut push = |text: &str| checker.push(TokenId(1), text).text;
    assert_eq!(push("1ab"), "1");
    assert_eq!(push("c"), "");
    assert_eq!(push("ab"), "abc");
    assert_eq!(push("!"), "ab!");
}

#[test]
fn the_first_completed_string_wins_however_tokens_cut_the_text() {
    let text = "xaXbab!cdéabcdéf";
    for stop in [r#"["cdé", "abcdé"]"#, r#"["é", "ab"]"#, r#"["dé", "cdé", "!"]"#, r#"["b!cd", "ab!"]"#, r#"["none"]"#]
    {
        let params = params(&format!(r#""stop": {stop}"#));
        let whole = run(&params, &[text]);
        let boundaries: Vec<usize> = (1..text.len()).filter(|&at| text.is_char_boundary(at)).collect();
        for cuts in 0..1_u32 << boundaries.len() {
            let mut pieces = Vec::new();
            let mut rest = 0;
            for (bit, &boundary) in boundaries.iter().enumerate() {
                if cuts >> bit & 1 == 1 {
                    pieces.push(&text[rest..boundary]);
                    rest = boundary;
                }
            }
            pieces.push(&text[rest..]);
            let found = run(&params, &pieces);
            match &whole.1 {
                Some(_) => assert_eq!(found, whole, "{stop} on {pieces:?}"),
                None => assert_eq!(found.1, None, "{stop} on {pieces:?}"),
            }
        }
    }
}

#[test]
fn of_strings_that_complete_together_the_longest_wins() {
    let params = params(r#""stop": ["d", "bcd", "cd"]"#);
    assert_eq!(run(&params, &["abcd"]), ("a".to_owned(), stop_string("bcd")));
}

#[test]
fn a_limit_releases_what_was_held_back() {
    let params = SamplingParams { max_tokens: 2, ..params(r#""stop": ["abc"]"#) };
    assert_eq!(run(&params, &["1a", "b"]), ("1ab".to_owned(), Some(FinishReason::MaxTokens)));
}

#[test]
fn end_and_stop_tokens_end_without_text() {
    let finish = |params: &SamplingParams, token| StopChecker::new(params, &[END], 1_000).push(token, "t").finish;
    let stop_id = params(r#""stop_token_ids": [5]"#);
    assert_eq!(finish(&stop_id, END), Some(FinishReason::EndToken(END)));
    assert_eq!(finish(&stop_id, TokenId(5)), Some(FinishReason::StopToken(TokenId(5))));
    assert_eq!(StopChecker::new(&stop_id, &[END], 1_000).push(TokenId(5), "t").text, "");
    let ignoring = params(r#""ignore_eos": true, "stop_token_ids": [5]"#);
    assert_eq!(finish(&ignoring, END), None);
    assert_eq!(finish(&ignoring, TokenId(5)), Some(FinishReason::StopToken(TokenId(5))));
    let asked_for = params(r#""ignore_eos": true, "stop_token_ids": [9]"#);
    assert_eq!(finish(&asked_for, END), Some(FinishReason::StopToken(END)));
}

#[test]
fn nothing_but_a_limit_ends_a_sequence_before_min_tokens() {
    let params = params(r#""stop": ["b"], "stop_token_ids": [5], "min_tokens": 3"#);
    let mut checker = StopChecker::new(&params, &[END], 1_000);
    assert_eq!(checker.push(END, "").finish, None);
    assert_eq!(checker.push(TokenId(1), "b"), Progress { text: "b".to_owned(), finish: None });
    let last = checker.push(TokenId(1), "cb");
    assert_eq!((last.text.as_str(), last.finish), ("c", stop_string("b")));
    let room = StopChecker::new(&params, &[END], 1).push(TokenId(5), "x");
    assert_eq!((room.text.as_str(), room.finish), ("x", Some(FinishReason::ContextFull)));
}

#[test]
fn reasons_are_tried_in_order() {
    let params = SamplingParams { max_tokens: 1, ..params(r#""stop": ["b"]"#) };
    let finish = |token, text| StopChecker::new(&params, &[END], 1).push(token, text).finish;
    assert_eq!(finish(END, "b"), Some(FinishReason::EndToken(END)));
    assert_eq!(finish(TokenId(1), "b"), stop_string("b"));
    assert_eq!(finish(TokenId(1), "c"), Some(FinishReason::MaxTokens));
}
