//! Answers in pieces: put together they are the answers as a whole.

use serde_json::{Value, json};

use crate::server::Server;
use crate::support::{Bench, calls, with};

/// The choices of a stream, put together as a client does.
fn assembled(events: &[Value]) -> Vec<Value> {
    let mut choices: Vec<Value> = Vec::new();
    for choice in events.iter().flat_map(|event| event["choices"].as_array().unwrap()) {
        let index = choice["index"].as_u64().unwrap() as usize;
        while choices.len() <= index {
            choices.push(json!({"text": "", "calls": [], "logprobs": [], "finish_reason": null}));
        }
        let whole = &mut choices[index];
        assert!(whole["finish_reason"].is_null(), "nothing comes after the end");
        let more = choice["delta"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default();
        whole["text"] = json!(format!("{}{more}", whole["text"].as_str().unwrap()));
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let number = call["index"].as_u64().unwrap() as usize;
            let calls = whole["calls"].as_array_mut().unwrap();
            if number == calls.len() {
                assert_eq!(call["type"], "function");
                assert_eq!(call["function"]["arguments"], "", "the name comes first");
                calls.push(json!({"id": call["id"], "name": call["function"]["name"], "arguments": ""}));
            } else {
                assert!(call["function"]["name"].is_null() && call["id"].is_null());
                let told = calls[number]["arguments"].as_str().unwrap().to_owned();
                calls[number]["arguments"] = json!(told + call["function"]["arguments"].as_str().unwrap());
            }
        }
        let logprobs = &choice["logprobs"];
        let tokens = logprobs["content"].as_array().or(logprobs["token_logprobs"].as_array());
        whole["logprobs"].as_array_mut().unwrap().extend(tokens.into_iter().flatten().cloned());
        whole["finish_reason"] = choice["finish_reason"].clone();
    }
    choices
}

/// The choices of a whole answer in the same form.
fn whole(body: &Value) -> Vec<Value> {
    let form = |choice: &Value| {
        let calls = choice["message"]["tool_calls"].as_array().into_iter().flatten();
        let call = |call: &Value| json!({"id": call["id"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]});
        let logprobs = &choice["logprobs"];
        let tokens = logprobs["content"].as_array().or(logprobs["token_logprobs"].as_array());
        json!({
            "text": choice["message"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default(),
            "calls": calls.map(call).collect::<Vec<_>>(),
            "logprobs": tokens.cloned().unwrap_or_default(),
            "finish_reason": choice["finish_reason"],
        })
    };
    body["choices"].as_array().unwrap().iter().map(form).collect()
}

fn without_ids(mut choices: Vec<Value>) -> Vec<Value> {
    for choice in &mut choices {
        for call in choice["calls"].as_array_mut().unwrap() {
            call["id"] = Value::Null;
        }
    }
    choices
}

#[test]
fn pieces_add_up_to_the_whole() {
    let (incident, random) = (Bench::incident(), Bench::random());
    let chat = json!({"messages": [{"role": "user", "content": "the order of"}], "max_tokens": 60, "ignore_eos": true});
    let prompt = json!({"prompt": "the order of", "max_tokens": 60, "ignore_eos": true, "seed": 3});
    let mut random_bodies = vec![
        with(&chat, json!({"seed": 1, "n": 3, "logprobs": true, "top_logprobs": 2})),
        with(&chat, json!({"seed": 2, "response_format": {"type": "json_object"}, "ignore_eos": false})),
        with(&prompt, json!({"logprobs": 2})),
    ];
    // Stop strings of one and more characters, which tokens cut anywhere.
    for stop in ["a", "e", "th", " t", "of"] {
        random_bodies.push(with(&prompt, json!({"stop": [stop], "logprobs": 1, "temperature": 0.5})));
        random_bodies.push(with(&chat, json!({"stop": [stop], "logprobs": true, "seed": 5})));
    }
    let drafted = ["--drafter", "random", "--drafts", "5"];
    for (bench, bodies, arguments) in [
        (&random, &random_bodies, &[][..]),
        (&random, &random_bodies, &drafted),
        (&incident, &calls(12), &[]),
        (&incident, &calls(12), &drafted),
    ] {
        let server = Server::start(&bench.model, arguments);
        for body in bodies {
            let route = if body["prompt"].is_null() { "/v1/chat/completions" } else { "/v1/completions" };
            let response = server.post(route, body);
            assert_eq!(response.status, 200, "{}", response.body);
            let streamed = server.post(route, &with(body, json!({"stream": true})));
            assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
            let found = assembled(&streamed.events());
            assert_eq!(without_ids(found), without_ids(whole(&response.json())), "{body} {arguments:?}");
            for event in streamed.events() {
                assert!(event["id"].as_str().unwrap().ends_with(streamed.id()));
                assert!(event.get("usage").is_none(), "nobody asked for usage");
            }
        }
    }
}

#[test]
fn a_call_comes_in_pieces() {
    let bench = Bench::incident();
    let server = Server::start(&bench.model, &[]);
    let mut most = 0;
    for body in calls(12) {
        let events = server.post("/v1/chat/completions", &with(&body, json!({"stream": true}))).events();
        let deltas = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
        let pieces = deltas.filter(|choice| choice["delta"]["tool_calls"].is_array()).count();
        assert!(pieces >= 2, "a name and arguments: {events:?}");
        most = most.max(pieces);
        assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    }
    assert!(most > 4, "the arguments come as they are written, not at once: {most} pieces");
}

#[test]
fn usage_comes_last_when_it_is_asked_for() {
    let bench = Bench::random();
    let server = Server::start(&bench.model, &[]);
    let body = json!({"prompt": "the order of", "max_tokens": 7, "ignore_eos": true, "n": 2});
    let whole = server.post("/v1/completions", &body).json();
    let streaming = json!({"stream": true, "stream_options": {"include_usage": true}});
    let mut events = server.post("/v1/completions", &with(&body, streaming)).events();
    let last = events.pop().unwrap();
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &whole["usage"]));
    assert_eq!(whole["usage"]["completion_tokens"], 14);
    assert!(events.iter().all(|event| event.get("usage") == Some(&Value::Null)));
}
