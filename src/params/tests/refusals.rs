use super::{chat, completion, parse, refusal};

#[test]
fn values_outside_of_what_is_accepted_tell_the_field_and_both_sides() {
    for (fields, expected) in [
        (r#""temperature": -1"#, "`temperature`: accepted: 0 (greedy), or a number from 0.01 to 100; found: -1"),
        (r#""temperature": 1e-5"#, "`temperature`: accepted: 0 (greedy), or a number from 0.01 to 100; found: 0.00001"),
        (
            r#""temperature": "NaN""#,
            "`temperature`: accepted: 0 (greedy), or a number from 0.01 to 100; found: the string \"NaN\"",
        ),
        (r#""top_p": 0"#, "`top_p`: accepted: a number greater than 0, up to 1 (1 keeps every token); found: 0"),
        (
            r#""top_p": 1.0000001"#,
            "`top_p`: accepted: a number greater than 0, up to 1 (1 keeps every token); found: 1.0000001",
        ),
        (r#""min_p": 1.5"#, "`min_p`: accepted: a number from 0 (keeps every token) to 1; found: 1.5"),
        (r#""top_k": -2"#, "`top_k`: accepted: a whole number, at least 1, or 0 or -1 for no limit; found: -2"),
        (r#""top_k": 2.5"#, "`top_k`: accepted: a whole number, at least 1, or 0 or -1 for no limit; found: 2.5"),
        (
            r#""seed": "42""#,
            "`seed`: accepted: a whole number from -9223372036854775808 to 18446744073709551615; found: the string \"42\"",
        ),
        (
            r#""seed": 1.0"#,
            "`seed`: accepted: a whole number from -9223372036854775808 to 18446744073709551615; found: 1.0",
        ),
        (
            r#""seed": true"#,
            "`seed`: accepted: a whole number from -9223372036854775808 to 18446744073709551615; found: true",
        ),
        (r#""max_tokens": 0"#, "`max_tokens`: accepted: a whole number, at least 1; found: 0"),
        (r#""max_tokens": 4294967296"#, "`max_tokens`: accepted: a whole number, at least 1; found: 4294967296"),
        (r#""min_tokens": -1"#, "`min_tokens`: accepted: a whole number, at least 0; found: -1"),
        (r#""n": 0"#, "`n`: accepted: a whole number from 1 to 128; found: 0"),
        (
            r#""presence_penalty": 2.1"#,
            "`presence_penalty`: accepted: a number from -2 to 2 (0 changes nothing); found: 2.1",
        ),
        (
            r#""repetition_penalty": 0"#,
            "`repetition_penalty`: accepted: a number from 0.01 to 100 (1 changes nothing); found: 0",
        ),
        (r#""logit_bias": {"5": 100.5}"#, "`logit_bias[\"5\"]`: accepted: a number from -100 to 100; found: 100.5"),
        (r#""logit_bias": {"the": 1}"#, "`logit_bias[\"the\"]`: accepted: a token id as the name; found: \"the\""),
        (r#""logit_bias": {"5": 1, "05": 2}"#, "`logit_bias[\"5\"]` stands there twice; expected each field once"),
        (
            r#""logit_bias": {"1000": 1}"#,
            "`logit_bias[\"1000\"]`: accepted: a token id of the vocabulary, 0 to 999; found: 1000",
        ),
        (
            r#""stop_token_ids": [3, 1000]"#,
            "`stop_token_ids[1]`: accepted: a token id of the vocabulary, 0 to 999; found: 1000",
        ),
        (
            r#""stop": ["a", ""]"#,
            "`stop[1]`: accepted: a string, or an array of strings, none of them empty; found: the string \"\"",
        ),
        (r#""stop": 5"#, "`stop`: accepted: a string, or an array of strings, none of them empty; found: 5"),
        (r#""ignore_eos": 1"#, "`ignore_eos`: accepted: true or false; found: 1"),
        (r#""logprobs": 3"#, "`logprobs`: accepted: true or false; found: 3"),
        (r#""logprobs": true, "top_logprobs": 21"#, "`top_logprobs`: accepted: a whole number from 0 to 20; found: 21"),
    ] {
        assert_eq!(refusal(&chat(fields)), expected);
    }
    assert_eq!(
        refusal(&completion(r#""logprobs": true"#)),
        "`logprobs`: accepted: a whole number from 0 to 20; found: true"
    );
}

#[test]
fn numbers_that_json_does_not_have_are_syntax_errors_with_their_place() {
    assert_eq!(
        refusal(r#"{"prompt": "Hi", "temperature": NaN}"#),
        "not valid JSON at column 33: expected value; expected one JSON object"
    );
    assert_eq!(
        refusal(r#"{"prompt": "Hi", "temperature": 1e999}"#),
        "not valid JSON at column 37: number out of range; expected one JSON object"
    );
}

#[test]
fn a_typo_is_answered_with_the_field_that_was_meant() {
    for (typo, meant) in [
        ("temprature", "temperature"),
        ("Temperature", "temperature"),
        ("max_token", "max_tokens"),
        ("top-p", "top_p"),
        ("repetition_penality", "repetition_penalty"),
        ("stop_tokens_ids", "stop_token_ids"),
        ("presence_penatly", "presence_penalty"),
    ] {
        let expected = format!("`{typo}` is not a known field; did you mean `{meant}`?");
        assert_eq!(refusal(&chat(&format!("{typo:?}: 1"))), expected);
    }
    assert_eq!(refusal(&chat(r#""frobnicate": 1"#)), "`frobnicate` is not a known field");
    // Also where it is the input that is misspelled, and where the value is null.
    assert_eq!(refusal(r#"{"mesages": []}"#), "`mesages` is not a known field; did you mean `messages`?");
    assert_eq!(
        refusal(&chat(r#""temprature": null"#)),
        "`temprature` is not a known field; did you mean `temperature`?"
    );
}

#[test]
fn fields_that_cannot_be_honoured_are_refused_and_not_ignored() {
    for fields in [
        r#""functions": [{"name": "f"}]"#,
        r#""guided_json": {"type": "object"}"#,
        r#""best_of": 3"#,
        r#""prompt_logprobs": 1"#,
        r#""reasoning_effort": "high""#,
        r#""chat_template": "x""#,
    ] {
        let message = refusal(&chat(fields));
        let field = fields.split('"').nth(1).unwrap_or_default();
        assert!(message.starts_with(&format!("`{field}` is not supported yet: ")), "{message}");
    }
    assert!(refusal(&completion(r#""echo": true"#)).starts_with("`echo` is not supported yet"));
}

#[test]
fn values_that_ask_for_nothing_are_accepted() {
    let fields = r#""tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "stream": false,
        "best_of": 1, "stream_options": null, "parallel_tool_calls": false, "temperature": null"#;
    let request = parse(&chat(fields)).expect("nothing is asked for");
    assert!(request.warnings.is_empty(), "{:?}", request.warnings);
    assert_eq!(request.fields, super::super::RequestFields::default());
}

#[test]
fn messages_are_checked() {
    let messages = |text: &str| format!(r#"{{"messages": {text}}}"#);
    for (text, expected) in [
        ("[]", "`messages`: accepted: an array of messages that is not empty; found: an empty array"),
        (r#""Hi""#, "`messages`: accepted: an array of messages that is not empty; found: the string \"Hi\""),
        (r#"["Hi"]"#, "`messages[0]`: accepted: an object with `role` and `content`; found: the string \"Hi\""),
        (
            r#"[{"role": "user", "content": "a"}, {"role": "robot", "content": "b"}]"#,
            "`messages[1].role`: accepted: `system`, `developer`, `user`, `assistant` or `tool`; found: the string \"robot\"",
        ),
        (
            r#"[{"content": "b"}]"#,
            "`messages[0].role` is missing; accepted: `system`, `developer`, `user`, `assistant` or `tool`",
        ),
        (
            r#"[{"role": "user"}]"#,
            "`messages[0].content` is missing; accepted: a string, or an array of parts {\"type\": \"text\", \"text\": ...}",
        ),
        (
            r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]"#,
            "`messages[0].content[0]` is not supported yet: `image_url` parts; text alone is read",
        ),
        (
            r#"[{"role": "user", "content": [{"type": "text", "text": 3}]}]"#,
            "`messages[0].content[0].text`: accepted: a string; found: 3",
        ),
        (
            r#"[{"role": "user", "contents": "b"}]"#,
            "`messages[0].contents` is not a known field; did you mean `content`?",
        ),
        (
            r#"[{"role": "assistant", "content": "a", "tool_calls": [{}]}]"#,
            "`messages[0].tool_calls[0]`: accepted: {\"id\": ..., \"type\": \"function\", \"function\": {\"name\": ..., \"arguments\": JSON text}}; found: the object {}",
        ),
        (
            r#"[{"role": "tool", "content": "a"}]"#,
            "`messages[0].tool_call_id` is missing; accepted: the `id` of the call that this answers",
        ),
    ] {
        assert_eq!(refusal(&messages(text)), expected);
    }
}

#[test]
fn prompts_are_checked() {
    let prompt = |text: &str| format!(r#"{{"prompt": {text}}}"#);
    for (text, expected) in [
        ("[]", "`prompt`: accepted: a string, or an array of token ids that is not empty; found: an empty array"),
        ("7", "`prompt`: accepted: a string, or an array of token ids that is not empty; found: 7"),
        ("[1, -7]", "`prompt[1]`: accepted: a token id; found: -7"),
        ("[1, 2.0]", "`prompt[1]`: accepted: a token id; found: 2.0"),
        ("[1, 1000]", "`prompt[1]`: accepted: a token id of the vocabulary, 0 to 999; found: 1000"),
        (
            r#"["a", "b"]"#,
            "`prompt` is not supported yet: one prompt per request; put each prompt into a line of its own",
        ),
    ] {
        assert_eq!(refusal(&prompt(text)), expected);
    }
}

#[test]
fn contradictions_are_refused() {
    assert_eq!(
        refusal(&chat(r#""prompt": "Hi""#)),
        "`messages` and `prompt` contradict each other: chat completions take `messages`, completions take `prompt`; \
         give one of them"
    );
    assert_eq!(
        refusal(r#"{"temperature": 0}"#),
        "`messages` is missing; accepted: `messages` (chat completions) or `prompt` (completions)"
    );
    assert_eq!(
        refusal(&chat(r#""max_tokens": 5, "max_completion_tokens": 6"#)),
        "`max_tokens` and `max_completion_tokens` contradict each other: two names of one limit say 5 and 6; \
         give one of them"
    );
    assert_eq!(
        refusal(&chat(r#""top_logprobs": 3"#)),
        "`top_logprobs` and `logprobs` contradict each other: alternatives are reported only with `logprobs`: true"
    );
    assert_eq!(
        refusal(&completion(r#""min_tokens": 20"#)),
        "`min_tokens` and `max_tokens` contradict each other: 20 (client) tokens at least and 16 (protocol default) at \
         most"
    );
    assert_eq!(
        refusal(&completion(r#""max_completion_tokens": 20"#)),
        "`max_completion_tokens`: accepted: nothing here: it is a field of /v1/chat/completions; found: 20"
    );
    assert_eq!(
        refusal(r#"{"prompt": "a", "seed": 1, "seed": 2}"#),
        "`seed` stands there twice; expected each field once"
    );
}

#[test]
fn long_values_are_quoted_in_part() {
    let message = refusal(&chat(&format!(r#""seed": "{}""#, "ä".repeat(10_000))));
    assert!(message.len() < 400 && message.ends_with("..."), "{message}");
}
