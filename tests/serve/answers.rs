//! What is answered: as `record` does, and with the parameters that the request leaves to the server.

use std::fs;

use serde_json::{Value, json};

use crate::command::stepscope;
use crate::server::{Response, Server};
use crate::support::{Bench, calls, with};

fn text(response: &Response) -> String {
    assert_eq!(response.status, 200, "{}", response.body);
    response.json()["choices"][0]["text"].as_str().unwrap().to_owned()
}

/// What does not depend on when and by whom it was asked.
fn timeless(mut body: Value) -> Value {
    for field in ["id", "created", "model"] {
        body[field] = Value::Null;
    }
    for choice in body["choices"].as_array_mut().unwrap() {
        for call in choice["message"]["tool_calls"].as_array_mut().into_iter().flatten() {
            call["id"] = Value::Null;
        }
    }
    body
}

#[test]
fn an_answer_is_that_of_record() {
    let bench = Bench::incident();
    let mut bodies = calls(4);
    bodies.push(json!({"messages": [{"role": "user", "content": "good morning"}], "max_tokens": 30, "seed": 4,
        "logprobs": true, "top_logprobs": 2, "n": 2, "stop": ["e"]}));
    bodies.push(json!({"prompt": "tell Olga", "max_tokens": 20, "temperature": 0, "logprobs": 3, "ignore_eos": true}));
    bodies.push(json!({"prompt": [5, 6, 7], "max_tokens": 20, "seed": 0, "top_p": 0.9, "min_p": 0.01, "top_k": 50}));
    let lines: String = bodies.iter().map(|body| format!("{body}\n")).collect();
    fs::write(bench.path("requests.jsonl"), lines).unwrap();
    let path = |name: &str| bench.path(name).display().to_string();
    let recorded = stepscope(&[
        "record",
        "--model",
        &bench.model.display().to_string(),
        "--requests",
        &path("requests.jsonl"),
        "--out",
        &path("a.mcap"),
        "--outputs",
        &path("outputs.jsonl"),
    ]);
    assert_eq!(recorded.status, 0, "{}", recorded.stderr);
    let outputs = fs::read_to_string(bench.path("outputs.jsonl")).unwrap();
    let server = Server::start(&bench.model, &[]);
    for (body, line) in bodies.iter().zip(outputs.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        let route = if body["prompt"].is_null() { "/v1/chat/completions" } else { "/v1/completions" };
        let response = server.post(route, body);
        assert_eq!(response.status, 200, "{}", response.body);
        assert_eq!(timeless(response.json()), timeless(line["response"]["body"].clone()), "{body}");
    }
}

#[test]
fn omitted_is_not_zero() {
    let bench = Bench::random();
    let server = Server::start(&bench.model, &[]);
    let outputs = |fields: Value| {
        let body = with(&json!({"prompt": "the man of", "max_tokens": 24, "ignore_eos": true}), fields);
        let texts: Vec<String> = (0..4).map(|_| text(&server.post("/v1/completions", &body))).collect();
        texts.iter().collect::<std::collections::HashSet<_>>().len()
    };
    assert_eq!(outputs(json!({})), 4, "temperature and seed omitted");
    assert_eq!(outputs(json!({"temperature": null, "seed": null})), 4, "null is omitted");
    assert_eq!(outputs(json!({"temperature": 1})), 4, "seed omitted");
    assert_eq!(outputs(json!({"temperature": 0})), 1, "greedy");
    assert_eq!(outputs(json!({"seed": 4242})), 1, "a fixed seed");
    assert_eq!(outputs(json!({"temperature": 1, "seed": 0})), 1, "0 is a seed");
}

#[test]
fn the_defaults_can_be_wrong_and_are_seen_then() {
    let bench = Bench::random();
    for (fault, distinct) in [("temperature-zero", 1), ("seed-zero", 1)] {
        let server = Server::start(&bench.model, &["--inject", fault]);
        let body = json!({"prompt": "the man of", "max_tokens": 24, "ignore_eos": true});
        let texts: Vec<String> = (0..4).map(|_| text(&server.post("/v1/completions", &body))).collect();
        assert_eq!(texts.iter().collect::<std::collections::HashSet<_>>().len(), distinct, "{fault}");
    }
}

#[test]
fn who_decides_is_told_without_running_and_with_the_answer() {
    let bench = Bench::random();
    let server = Server::start(&bench.model, &[]);
    let body = json!({"prompt": "the", "max_tokens": 3, "top_p": 0.5, "stop": ["é"]});
    let told = server.post("/v1/params", &body).json();
    let param = |name: &str| told["params"].as_array().unwrap().iter().find(|param| param["name"] == name).unwrap();
    assert_eq!((&param("top_p")["value"], &param("top_p")["source"]), (&json!(0.5), &json!("client")));
    assert_eq!(param("temperature")["source"], "protocol_default");
    assert_eq!(told["fresh_seed"], true);
    assert_eq!(server.metric("vllm:generation_tokens_total"), 0.0, "nothing was run");

    let response = server.ask("POST", "/v1/completions", &[("X-Stepscope-Params", "1")], &body.to_string());
    let header: Value = serde_json::from_str(response.header("x-stepscope-params").unwrap()).unwrap();
    assert_eq!(header["top_p"], json!({"value": 0.5, "source": "client"}));
    assert_eq!(header["stop"]["value"], json!(["é"]));
    assert_eq!(header["seed"]["source"], "generated");
    // The seed that is told is the one that was used.
    let again = with(&body, json!({"seed": header["seed"]["value"]}));
    assert_eq!(text(&server.post("/v1/completions", &again)), text(&response));
    assert!(server.post("/v1/completions", &body).header("x-stepscope-params").is_none());
}

#[test]
fn models_tokens_and_versions_are_told() {
    let bench = Bench::random();
    let server = Server::start(&bench.model, &["--served-model-name", "a/model"]);
    assert_eq!(server.model, "a/model");
    let models = server.get("/v1/models").json();
    assert_eq!((&models["data"][0]["id"], &models["data"][0]["max_model_len"]), (&json!("a/model"), &json!(16_384)));
    assert_eq!(server.get("/v1/models/a%2Fmodel").json()["id"], "a/model");
    assert_eq!(server.get("/v1/models/b").status, 404);
    let body = json!({"prompt": "the", "max_tokens": 1, "model": "b"});
    let refused = server.post("/v1/completions", &body);
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (404, &json!("model")));
    assert_eq!(server.post("/v1/completions", &with(&body, json!({"model": "a/model"}))).status, 200);

    let tokens = server.post("/tokenize", &json!({"prompt": "the order é", "add_special_tokens": false})).json();
    let back = server.post("/detokenize", &json!({"tokens": tokens["tokens"]})).json();
    assert_eq!(back["prompt"], "the order é");
    let messages = json!({"messages": [{"role": "user", "content": "Hi"}], "return_token_strs": true});
    let rendered = server.post("/tokenize", &messages).json();
    assert_eq!(rendered["count"], json!(rendered["token_strs"].as_array().unwrap().len()));
    for (path, body, field) in [
        ("/detokenize", json!({"tokens": [1, 1_000_000]}), "tokens"),
        ("/tokenize", json!({"prompt": "x", "prompts": "x"}), "prompts"),
        ("/tokenize", json!({"prompt": 1}), "prompt"),
    ] {
        let refused = server.post(path, &body);
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!(field)), "{body}");
    }
    assert_eq!(server.get("/version").json()["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(server.get("/health").status, 200);
}
