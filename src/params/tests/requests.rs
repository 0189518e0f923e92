use serde_json::json;

use super::super::{Endpoint, Input, Request, RequestFields, Warning};
use super::{chat, completion, parse};
use crate::types::TokenId;

#[test]
fn an_omitted_field_stays_omitted() {
    let request = parse(&chat("")).expect("a request");
    assert_eq!(request.fields, RequestFields::default());
    assert_eq!(request.endpoint(), Endpoint::ChatCompletions);
    assert_eq!(request.model, None);
}

#[test]
fn null_means_omitted() {
    let nulls = ["temperature", "top_p", "min_p", "top_k", "seed", "n", "stop", "logit_bias", "logprobs", "max_tokens"];
    let fields = nulls.map(|field| format!("{field:?}: null")).join(", ");
    assert_eq!(parse(&chat(&fields)).expect("a request").fields, RequestFields::default());
}

#[test]
fn an_explicit_zero_is_a_value() {
    let fields = r#""temperature": 0, "seed": 0, "min_p": 0, "top_k": 0, "min_tokens": 0, "presence_penalty": 0.0,
        "frequency_penalty": -0.0, "stop": [], "logit_bias": {}, "ignore_eos": false, "logprobs": false"#;
    let expected = RequestFields {
        temperature: Some(0.0),
        seed: Some(0),
        min_p: Some(0.0),
        top_k: Some(None),
        min_tokens: Some(0),
        presence_penalty: Some(0.0),
        frequency_penalty: Some(0.0),
        stop: Some(Vec::new()),
        logit_bias: Some(Vec::new()),
        ignore_eos: Some(false),
        logprobs: Some(None),
        ..RequestFields::default()
    };
    assert_eq!(parse(&chat(fields)).expect("a request").fields, expected);
}

#[test]
fn every_field_is_read() {
    let fields = r#""model": "m", "temperature": 0.6, "top_p": 0.95, "min_p": 0.05, "top_k": 40,
        "seed": 18446744073709551615, "repetition_penalty": 1.1, "presence_penalty": -0.5, "frequency_penalty": 0.5,
        "logit_bias": {"50": -100, "7": 1.5}, "min_tokens": 2, "max_completion_tokens": 9, "stop": "x",
        "stop_token_ids": [4, 5], "ignore_eos": true, "logprobs": true, "top_logprobs": 5, "n": 3"#;
    let request = parse(&chat(fields)).expect("a request");
    let expected = RequestFields {
        temperature: Some(0.6),
        top_p: Some(0.95),
        min_p: Some(0.05),
        top_k: Some(Some(40)),
        seed: Some(u64::MAX),
        repetition_penalty: Some(1.1),
        presence_penalty: Some(-0.5),
        frequency_penalty: Some(0.5),
        logit_bias: Some(vec![(TokenId(7), 1.5), (TokenId(50), -100.0)]),
        min_tokens: Some(2),
        max_tokens: Some(9),
        stop: Some(vec!["x".to_owned()]),
        stop_token_ids: Some(vec![TokenId(4), TokenId(5)]),
        ignore_eos: Some(true),
        logprobs: Some(Some(5)),
        n: Some(3),
    };
    assert_eq!(request.fields, expected);
    assert_eq!(request.model.as_deref(), Some("m"));
    assert!(request.warnings.is_empty());
}

#[test]
fn logprobs_have_two_shapes() {
    let logprobs = |body: &str| parse(body).expect("a request").fields.logprobs;
    assert_eq!(logprobs(&chat(r#""logprobs": true"#)), Some(Some(0)));
    assert_eq!(logprobs(&chat(r#""top_logprobs": 2, "logprobs": true"#)), Some(Some(2)));
    assert_eq!(logprobs(&chat(r#""top_logprobs": 0"#)), None);
    assert_eq!(logprobs(&completion(r#""logprobs": 0"#)), Some(Some(0)));
    assert_eq!(logprobs(&completion(r#""logprobs": 4"#)), Some(Some(4)));
}

#[test]
fn content_parts_are_joined() {
    let body = r#"{"messages": [{"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Ada", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "tool_calls": null, "refusal": null}]}"#;
    let request = parse(body).expect("a request");
    let expected = vec![
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "a\nb", "name": "Ada"}),
        json!({"role": "assistant", "content": "c"}),
    ];
    assert_eq!(request.input, Input::Messages(expected));
    assert_eq!(request.warnings, [Warning::DeveloperRole { index: 0 }]);
}

#[test]
fn prompts_are_texts_or_tokens() {
    assert_eq!(parse(&completion("")).expect("a request").input, Input::Text("Hi".to_owned()));
    let tokens = parse(r#"{"prompt": [5, 6]}"#).expect("a request");
    assert_eq!(tokens.input, Input::Tokens(vec![TokenId(5), TokenId(6)]));
    assert_eq!(tokens.endpoint(), Endpoint::Completions);
}

#[test]
fn bookkeeping_fields_warn_and_change_nothing() {
    let fields = r#""user": "u", "metadata": {"a": "b"}, "store": true, "service_tier": "auto""#;
    let request = parse(&chat(fields)).expect("a request");
    let words: Vec<_> = request.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["user", "metadata", "store", "service_tier"]
            .map(|field| format!("`{field}` has no effect here and is ignored"))
    );
    assert_eq!(Request { warnings: Vec::new(), ..request }, parse(&chat("")).expect("a request"));
}

#[test]
fn a_negative_seed_is_a_seed() {
    let request = parse(&chat(r#""seed": -1"#)).expect("a request");
    assert_eq!(request.fields.seed, Some(u64::MAX));
    assert_eq!(request.warnings, [Warning::NegativeSeed { seed: -1 }]);
}
