use serde_json::{Value, json};

use super::super::response::{Answer, Choice, ErrorBody, TextLogprob, TokenLogprob, Usage};
use super::super::{Endpoint, read_lines};
use crate::tools::ToolCall;
use crate::types::{FinishReason, TokenId};

fn token(bytes: &[u8], logprob: f32) -> TextLogprob {
    TextLogprob { bytes: bytes.to_vec(), logprob }
}

fn answer(endpoint: Endpoint) -> Answer {
    let logprobs = vec![
        TokenLogprob {
            chosen: token("né".as_bytes(), -0.25),
            alternatives: vec![token("né".as_bytes(), -0.25), token(b"b", -1.5)],
        },
        TokenLogprob { chosen: token(b"\xe2\x96", f32::NEG_INFINITY), alternatives: vec![token(b"c", -0.1)] },
    ];
    Answer {
        endpoint,
        id: "answer-1".to_owned(),
        created: 0,
        model: "m".to_owned(),
        choices: vec![
            Choice { logprobs: Some(logprobs), ..text_choice("né", FinishReason::EndToken(TokenId(2))) },
            text_choice("x", FinishReason::MaxTokens),
        ],
        usage: Usage::new(3, 4),
    }
}

#[test]
fn a_chat_completion_has_the_protocols_shape() {
    let expected = json!({
        "id": "answer-1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "né", "refusal": null},
                "logprobs": {
                    "content": [
                        {"token": "né", "logprob": -0.25, "bytes": [110, 195, 169], "top_logprobs": [
                            {"token": "né", "logprob": -0.25, "bytes": [110, 195, 169]},
                            {"token": "b", "logprob": -1.5, "bytes": [98]}]},
                        {"token": "\u{fffd}", "logprob": -9999.0, "bytes": [226, 150], "top_logprobs": [
                            {"token": "c", "logprob": -0.1, "bytes": [99]}]}],
                    "refusal": null},
                "finish_reason": "stop"
            },
            {
                "index": 1,
                "message": {"role": "assistant", "content": "x", "refusal": null},
                "logprobs": null,
                "finish_reason": "length"
            }],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    });
    assert_eq!(answer(Endpoint::ChatCompletions).into_body(), expected);
}

#[test]
fn a_text_completion_has_the_protocols_shape() {
    let expected = json!({
        "id": "answer-1", "object": "text_completion", "created": 0, "model": "m",
        "choices": [
            {
                "index": 0,
                "text": "né",
                "logprobs": {
                    "text_offset": [0, 2],
                    "token_logprobs": [-0.25, -9999.0],
                    "tokens": ["né", "bytes:\\xe2\\x96"],
                    "top_logprobs": [{"né": -0.25, "b": -1.5}, {"c": -0.1, "bytes:\\xe2\\x96": -9999.0}]},
                "finish_reason": "stop"
            },
            {"index": 1, "text": "x", "logprobs": null, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    });
    assert_eq!(answer(Endpoint::Completions).into_body(), expected);
}

#[test]
fn a_refusal_names_the_field() {
    let read = read_lines(br#"{"prompt": "a", "top_p": 0}"#).expect("a file");
    let error = read[0].request.as_ref().expect_err("refused");
    let body = serde_json::to_value(ErrorBody::refused(error)).expect("JSON");
    let expected = json!({"error": {
        "message": "line 1: `top_p`: accepted: a number greater than 0, up to 1 (1 keeps every token); found: 0",
        "type": "invalid_request_error", "param": "top_p", "code": null}});
    assert_eq!(body, expected);
}

fn text_choice(text: &str, finish: FinishReason) -> Choice {
    Choice { text: text.to_owned(), calls: Vec::new(), call_problems: Vec::new(), finish, logprobs: None }
}

#[test]
fn calls_have_their_own_place_and_what_is_no_call_is_said() {
    let call = ToolCall { name: "time".to_owned(), arguments: "{}".to_owned() };
    let called = Choice { calls: vec![call], ..text_choice("", FinishReason::EndToken(TokenId(2))) };
    let problem = Choice {
        call_problems: vec!["call 1 is not closed".to_owned()],
        ..text_choice("<tool_call>", FinishReason::MaxTokens)
    };
    let body = Answer {
        endpoint: Endpoint::ChatCompletions,
        id: "chatcmpl-a".to_owned(),
        created: 0,
        model: "m".to_owned(),
        choices: vec![called, problem],
        usage: Usage::new(3, 4),
    }
    .into_body();
    let [called, problem] = [&body["choices"][0], &body["choices"][1]];
    assert_eq!(called["finish_reason"], "tool_calls");
    assert_eq!(called["message"]["content"], Value::Null);
    let expected =
        json!([{"id": "call_chatcmpl-a-0-0", "type": "function", "function": {"name": "time", "arguments": "{}"}}]);
    assert_eq!(called["message"]["tool_calls"], expected);
    assert_eq!(called["message"].get("tool_call_problems"), None);
    assert_eq!(problem["finish_reason"], "length");
    assert_eq!(problem["message"]["content"], "<tool_call>");
    assert_eq!(problem["message"]["tool_call_problems"], json!(["call 1 is not closed"]));
}
