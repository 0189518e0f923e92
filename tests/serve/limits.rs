//! Who is turned away, and how.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::Server;
use crate::support::{Bench, endless, with};

#[test]
fn what_cannot_be_honoured_is_refused_by_name() {
    let bench = Bench::random();
    let server = Server::start(&bench.model, &[]);
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2});
    for (fields, field) in [
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"temprature": 1}), "temprature"),
        (json!({"best_of": 3}), "best_of"),
        (json!({"bad_words": ["no"]}), "bad_words"),
        (json!({"prompt_logprobs": 1}), "prompt_logprobs"),
        (json!({"stream_options": {"include_usage": true}}), "stream_options"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "user", "content": "the ".repeat(20_000)}]}), "messages"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 7}}}}),
            "response_format",
        ),
    ] {
        for stream in [false, true] {
            let streams = with(&fields, json!({"stream": stream}));
            let streams = if fields.get("stream_options").is_some() { fields.clone() } else { streams };
            let refused = server.post("/v1/chat/completions", &with(&chat, streams));
            let error = &refused.json()["error"];
            assert_eq!(refused.status, 400, "{field}: {error}");
            assert_eq!(error["type"], "invalid_request_error");
            assert!(error["param"].as_str().unwrap().starts_with(field), "{field}: {error}");
            assert!(!error["message"].as_str().unwrap().is_empty());
        }
    }
    for body in ["", "{", "[]", "null", "{\"messages\": 1", "\u{0}"] {
        let refused = server.ask("POST", "/v1/chat/completions", &[], body);
        assert_eq!(refused.status, 400, "{body}");
        assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
    }
    for (method, path, status) in
        [("GET", "/nowhere", 404), ("GET", "/v1/chat/completions", 405), ("DELETE", "/v1/models", 405)]
    {
        let refused = server.ask(method, path, &[], "");
        assert_eq!((refused.status, refused.json()["error"]["type"].as_str()), (status, Some("invalid_request_error")));
        assert!(refused.id().starts_with("req-"));
    }
}

#[test]
fn a_body_is_read_up_to_its_limit() {
    let bench = Bench::random();
    let server = Server::start(&bench.model, &["--body-limit", "300"]);
    let body = json!({"prompt": "the", "max_tokens": 1}).to_string();
    let padded = |length: usize| format!("{body}{}", " ".repeat(length - body.len()));
    assert_eq!(server.ask("POST", "/v1/completions", &[], &padded(300)).status, 200);
    assert_eq!(server.ask("POST", "/v1/completions", &[], &padded(301)).status, 413);
    // The same without a length at the beginning.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head =
        format!("POST /v1/completions HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(format!("100\r\n{}\r\n100\r\n{}\r\n", " ".repeat(256), " ".repeat(256)).as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer[..length]).starts_with("HTTP/1.1 413"));
}

#[test]
fn the_key_is_asked_for_and_said_nowhere() {
    let bench = Bench::random();
    let captures = bench.path("captures").display().to_string();
    let arguments = ["--api-key-env", "TEST_KEY", "--capture", "always", "--capture-dir", &captures];
    let variables = [("TEST_KEY", "sk-hidden-4711"), ("RUST_LOG", "trace")];
    let server = Server::start_with(&bench.model, &arguments, &variables);
    let body = json!({"prompt": "the", "max_tokens": 1}).to_string();
    let with_key = |key: &str| server.ask("POST", "/v1/completions", &[("Authorization", key)], &body);
    for key in ["", "Bearer sk-other", "Bearer ", "sk-hidden-4711"] {
        let refused = with_key(key);
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (401, &json!("invalid_api_key")), "{key:?}");
    }
    assert_eq!(server.get("/v1/models").status, 401);
    assert_eq!(with_key("Bearer sk-hidden-4711").status, 200);
    for path in ["/health", "/version", "/metrics"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let capture = server.capture.clone().unwrap();
    let stopped = server.stop();
    assert_eq!(stopped.status, 0, "{}", stopped.stderr);
    assert!(!stopped.stderr.contains("hidden-4711"), "{}", stopped.stderr);
    let dumped = crate::command::stepscope(&["dump", &capture.display().to_string(), "--json"]);
    assert_eq!(dumped.status, 0, "{}", dumped.stderr);
    assert!(!dumped.stdout.contains("hidden-4711"));
}

#[test]
fn a_key_that_is_not_there_is_no_empty_key() {
    let bench = Bench::random();
    let model = bench.model.display().to_string();
    let run = crate::command::stepscope(&[
        "serve",
        "--model",
        &model,
        "--listen",
        "127.0.0.1:0",
        "--api-key-env",
        "NO_SUCH_VARIABLE",
    ]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("NO_SUCH_VARIABLE"), "{}", run.stderr);
}

#[test]
fn other_names_and_other_pages_are_refused() {
    let bench = Bench::random();
    let server = Server::start(&bench.model, &["--allow-host", "staging.example"]);
    let status = |headers: &[(&str, &str)]| server.ask("GET", "/v1/models", headers, "").status;
    assert_eq!(status(&[("Host", "evil.example")]), 403);
    assert_eq!(status(&[("Host", "staging.example")]), 200);
    assert_eq!(status(&[("Host", "localhost:1")]), 200);
    assert_eq!(status(&[("Host", "")]), 400);
    assert_eq!(status(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "null")]), 403);
    assert_eq!(status(&[("Origin", &format!("http://{}", server.address))]), 200);
}

#[test]
fn a_full_queue_says_when_to_try_again() {
    let bench = Bench::random();
    let server = Server::start(&bench.model, &["--max-batch", "1", "--queue", "1"]);
    let endless = endless(true).to_string();
    let first = server.send("POST", "/v1/completions", &[], &endless);
    server.wait_for("vllm:num_requests_running", |running| running == 1.0);
    let second = server.send("POST", "/v1/completions", &[], &endless);
    server.wait_for("vllm:num_requests_waiting", |waiting| waiting == 1.0);
    let body = json!({"prompt": "the", "max_tokens": 1});
    let refused = server.post("/v1/completions", &body);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json()["error"]["code"], "queue_full");
    assert_eq!(server.metric("stepscope:requests_turned_away_total"), 1.0);
    drop((first, second));
    server.wait_for("vllm:num_requests_running", |running| running == 0.0);
    server.wait_for("vllm:num_requests_waiting", |waiting| waiting == 0.0);
    assert_eq!(server.post("/v1/completions", &body).status, 200, "the places are free again");
    let _: Value = server.get("/v1/models").json();
}
