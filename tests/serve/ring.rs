//! The ring: the seconds before something happened, written when it happens.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::command::{Run, stepscope};
use crate::server::Server;
use crate::support::{Bench, calls, with};

fn listed(server: &Server) -> Vec<Value> {
    server.get("/v1/captures").json()["data"].as_array().unwrap().clone()
}

/// The captures that were taken for this reason, once there is one.
fn taken(server: &Server, reason: &str) -> Value {
    for _ in 0..1000 {
        if let Some(found) = listed(server).into_iter().find(|capture| capture["reason"] == reason) {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("no capture for {reason}: {:?}", listed(server));
}

/// Downloads a capture, and runs a command over it.
fn downloaded(server: &Server, bench: &Bench, capture: &Value, arguments: &[&str]) -> (PathBuf, Run) {
    let id = capture["id"].as_str().unwrap();
    let bytes = server.bytes(&format!("/v1/captures/{id}"));
    assert_eq!(json!(bytes.len()), capture["bytes"]);
    let path = bench.path(&format!("downloaded-{id}.mcap"));
    std::fs::write(&path, bytes).unwrap();
    let run = stepscope(&[&[arguments[0], &path.display().to_string()][..], &arguments[1..]].concat());
    (path, run)
}

#[test]
fn an_operator_takes_what_was_there() {
    let bench = Bench::incident();
    let folder = bench.path("captures").display().to_string();
    let model = bench.model.display().to_string();
    let server = Server::start(&bench.model, &["--capture", "ring", "--capture-dir", &folder]);
    let ids: Vec<String> =
        calls(3).iter().map(|body| server.post("/v1/chat/completions", body).id().to_owned()).collect();
    assert_eq!(listed(&server), Vec::<Value>::new(), "nothing has happened");
    let response = server.post("/v1/captures", &json!({}));
    assert_eq!(response.status, 201, "{}", response.body);
    let capture = response.json();
    assert_eq!((&capture["reason"], &capture["requests"]), (&json!("operator"), &json!(3)));
    let (path, replayed) = downloaded(&server, &bench, &listed(&server)[0], &["replay", "--model", &model]);
    assert_eq!(replayed.status, 0, "{}{}", replayed.stdout, replayed.stderr);
    for id in &ids {
        let dumped = stepscope(&["dump", &path.display().to_string(), "--request", id]);
        assert!(dumped.status == 0 && dumped.stdout.contains("step"), "{}", dumped.stderr);
    }
    for id in ["nothing", "..%2F..%2Fmodel", "%2Fetc%2Fpasswd", ".."] {
        assert_eq!(server.get(&format!("/v1/captures/{id}")).status, 404, "{id}");
    }
    assert_eq!(server.stop().status, 0);
}

#[test]
fn what_runs_is_there_as_far_as_it_has_come() {
    let bench = Bench::random();
    let folder = bench.path("captures").display().to_string();
    let arguments = ["--capture", "ring", "--capture-dir", &folder, "--capture-tier", "off"];
    let server = Server::start(&bench.model, &arguments);
    let _running = server.send("POST", "/v1/completions", &[], &crate::support::endless(true).to_string());
    server.wait_for("vllm:generation_tokens_total", |tokens| tokens > 20.0);
    let capture = server.post("/v1/captures", &json!({})).json();
    let model = bench.model.display().to_string();
    let (_, replayed) = downloaded(&server, &bench, &capture, &["replay", "--model", &model]);
    assert_eq!(replayed.status, 3, "no finding, and something is missing: {}{}", replayed.stdout, replayed.stderr);
    assert!(replayed.stdout.contains("while these choices ran"), "{}{}", replayed.stdout, replayed.stderr);
}

#[test]
fn a_broken_call_and_a_loop_are_reasons() {
    let bench = Bench::incident();
    let folder = bench.path("captures").display().to_string();
    let server = Server::start(&bench.model, &["--capture", "ring", "--capture-dir", &folder]);
    let model = bench.model.display().to_string();
    let cut = server.post("/v1/chat/completions", &with(&calls(1)[0], json!({"max_tokens": 9})));
    assert_eq!(cut.status, 200);
    let broken = taken(&server, "broken_call");
    let (_, replayed) = downloaded(&server, &bench, &broken, &["replay", "--model", &model]);
    assert_eq!(replayed.status, 0, "{}{}", replayed.stdout, replayed.stderr);
    let repeating = json!({"prompt": [5, 6], "max_tokens": 80, "temperature": 0, "logit_bias": {"9": 100}});
    assert_eq!(server.post("/v1/completions", &repeating).status, 200);
    let looping = taken(&server, "loop");
    let (path, _) = downloaded(&server, &bench, &looping, &["verify"]);
    // The ring still held the request before it.
    let info = stepscope(&["dump", &path.display().to_string(), "--request", cut.id()]);
    assert_eq!(info.status, 0, "{}", info.stderr);
}

#[test]
fn the_incident_is_taken_while_it_happens_and_a_clean_run_is_not() {
    let bench = Bench::incident();
    let draft = bench.path("draft.gguf").display().to_string();
    let speculation = ["--drafter", "model", "--draft-model", &draft, "--drafts", "15", "--scheduling", "sync"];
    for fault in [None, Some("state-bound-by-query")] {
        let folder = bench.path(&format!("captures-{}", fault.is_some())).display().to_string();
        let mut arguments = vec!["--capture", "ring", "--capture-dir", &folder];
        arguments.extend(speculation);
        arguments.extend(fault.map(|fault| ["--inject", fault]).into_iter().flatten());
        let server = Server::start(&bench.model, &arguments);
        for body in calls(24) {
            assert_eq!(server.post("/v1/chat/completions", &body).status, 200);
        }
        if fault.is_none() {
            assert_eq!(listed(&server), Vec::<Value>::new());
            continue;
        }
        let burst = taken(&server, "misrank_burst");
        let model = bench.model.display().to_string();
        let models = ["replay", "--model", &model, "--draft-model", &draft];
        let (_, replayed) = downloaded(&server, &bench, &burst, &models);
        assert_eq!(replayed.status, 1, "{}{}", replayed.stdout, replayed.stderr);
    }
}

#[test]
fn old_captures_make_room() {
    let bench = Bench::random();
    let folder = bench.path("captures").display().to_string();
    let arguments = ["--capture-dir", &folder, "--captures-bytes", "1"];
    let server = Server::start(&bench.model, &arguments);
    let taken: Vec<Value> = (0..3).map(|_| server.post("/v1/captures", &json!({})).json()).collect();
    let left: Vec<Value> = listed(&server).iter().map(|capture| capture["id"].clone()).collect();
    assert_eq!(left, [taken[2]["id"].clone()], "the newest stays");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    assert_eq!(server.stop().status, 0);
    // What is left is known to the next server.
    let server = Server::start(&bench.model, &["--capture-dir", &folder]);
    assert_eq!(listed(&server)[0]["id"], left[0]);
}

#[test]
fn what_is_older_than_the_time_is_forgotten() {
    let bench = Bench::random();
    let folder = bench.path("captures").display().to_string();
    let server = Server::start(&bench.model, &["--capture-dir", &folder, "--ring-seconds", "0"]);
    let body = json!({"prompt": "the order of", "max_tokens": 3});
    for _ in 0..3 {
        assert_eq!(server.post("/v1/completions", &body).status, 200);
    }
    let capture = server.post("/v1/captures", &json!({})).json();
    assert_eq!(capture["requests"], 1, "only the last one may still be there");
}
