//! Clients that go, and the server's own end.

use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};
use stepscope::capture::records::{RequestRecord, StopReason};
use stepscope::capture::{CaptureReader, RequestRecords};

use crate::command::stepscope;
use crate::server::Server;
use crate::support::{Bench, calls, endless, with};

fn replayed(capture: &Path, model: &Path) {
    let run = stepscope(&["replay", &capture.display().to_string(), "--model", &model.display().to_string()]);
    assert_eq!(run.status, 0, "{}{}", run.stdout, run.stderr);
}

fn requests(capture: &Path) -> Vec<RequestRecord> {
    let reader = CaptureReader::open(capture).unwrap();
    let records = reader.requests().flat_map(|request| {
        let RequestRecords { admission, refusal, completions } = reader.request(request).unwrap();
        let begin = admission.map(RequestRecord::Admitted).into_iter().chain(refusal.map(RequestRecord::Refused));
        begin.chain(completions.into_iter().map(RequestRecord::Finished)).collect::<Vec<_>>()
    });
    records.collect()
}

#[test]
fn a_client_that_goes_frees_its_place() {
    let bench = Bench::random();
    let captures = bench.path("captures").display().to_string();
    for stream in [true, false] {
        let server =
            Server::start(&bench.model, &["--capture", "always", "--capture-dir", &captures, "--capture-tier", "off"]);
        let body = with(&endless(stream), json!({"n": 2}));
        let mut gone = server.send("POST", "/v1/completions", &[], &body.to_string());
        server.wait_for("vllm:num_requests_running", |running| running == 2.0);
        if stream {
            gone.read_exact(&mut [0; 400]).unwrap();
        }
        drop(gone);
        server.wait_for("vllm:num_requests_running", |running| running == 0.0);
        assert_eq!(server.metric("vllm:num_requests_waiting"), 0.0);
        assert!(server.metric("vllm:generation_tokens_total") < 32_000.0, "it was not run to its end");
        let after = server.post("/v1/completions", &json!({"prompt": "the order of", "max_tokens": 4}));
        assert_eq!(after.status, 200);
        let capture = server.capture.clone().unwrap();
        let stopped = server.stop();
        assert_eq!(stopped.status, 0, "{}", stopped.stderr);
        let cancelled = |record: &RequestRecord| matches!(record, RequestRecord::Finished(end) if end.stop == Some(StopReason::Cancelled));
        assert_eq!(requests(&capture).iter().filter(|record| cancelled(record)).count(), 2, "both choices, on record");
        replayed(&capture, &bench.model);
    }
}

#[test]
fn the_server_drains_and_finishes_its_capture() {
    let bench = Bench::incident();
    let captures = bench.path("captures").display().to_string();
    let server = Server::start(&bench.model, &["--capture", "always", "--capture-dir", &captures]);
    let mut ids = Vec::new();
    for (index, body) in calls(6).iter().enumerate() {
        let body = with(body, json!({"stream": index % 2 == 0}));
        let response = server.post("/v1/chat/completions", &body);
        assert_eq!(response.status, 200, "{}", response.body);
        ids.push(response.id().to_owned());
    }
    let refused = server.post("/v1/chat/completions", &json!({"messages": 1}));
    assert_eq!(refused.status, 400);
    // One that has begun when the signal comes.
    let last = json!({"prompt": "tell Olga that", "max_tokens": 400, "ignore_eos": true, "stream": true, "n": 8});
    let mut begun = server.send("POST", "/v1/completions", &[], &last.to_string());
    server.wait_for("vllm:num_requests_running", |running| running == 8.0);
    server.terminate();
    let mut rest = String::new();
    begun.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("data: [DONE]"), "it ends as if nothing had been: {rest}");
    let capture = server.capture.clone().unwrap();
    let stopped = server.wait();
    assert_eq!(stopped.status, 0, "{}", stopped.stderr);
    let records = requests(&capture);
    for id in &ids {
        let admitted = |record: &&RequestRecord| matches!(record, RequestRecord::Admitted(admission) if admission.client_id.as_ref() == Some(id));
        assert_eq!(records.iter().filter(admitted).count(), 1, "{id}");
    }
    let refusal = records.iter().find_map(|record| match record {
        RequestRecord::Refused(refusal) => refusal.client_id.clone(),
        _ => None,
    });
    assert_eq!(refusal.as_deref(), Some(refused.id()));
    replayed(&capture, &bench.model);
    let dumped = stepscope(&["dump", &capture.display().to_string(), "--request", &ids[3]]);
    assert!(dumped.status == 0 && dumped.stdout.contains("step"), "{}{}", dumped.stdout, dumped.stderr);
}

#[test]
fn what_does_not_end_in_time_is_cancelled() {
    let bench = Bench::random();
    let captures = bench.path("captures").display().to_string();
    let server = Server::start(
        &bench.model,
        &["--capture", "always", "--capture-dir", &captures, "--capture-tier", "off", "--drain-seconds", "0"],
    );
    let _begun = server.send("POST", "/v1/completions", &[], &endless(true).to_string());
    server.wait_for("vllm:num_requests_running", |running| running == 1.0);
    let capture = server.capture.clone().unwrap();
    let stopped = server.stop();
    assert_eq!(stopped.status, 0, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("cancelled"), "{}", stopped.stderr);
    let records = requests(&capture);
    assert!(matches!(records.last(), Some(RequestRecord::Finished(end)) if end.stop == Some(StopReason::Cancelled)));
    replayed(&capture, &bench.model);
}

#[test]
fn greedy_against_the_models_recommendation_is_an_event() {
    let recommended = json!({"temperature": 0.6, "top_p": 0.95}).as_object().unwrap().clone();
    let model = stepscope::model::synthetic::SyntheticModel {
        generation_config: recommended,
        ..stepscope::model::synthetic::SyntheticModel::llama(3)
    };
    let bench = Bench::of(&model);
    let captures = bench.path("captures").display().to_string();
    let server = Server::start(&bench.model, &["--capture", "always", "--capture-dir", &captures]);
    for temperature in [Value::Null, json!(0), json!(1)] {
        let body = json!({"prompt": "the", "max_tokens": 2, "temperature": temperature});
        assert_eq!(server.post("/v1/completions", &body).status, 200);
    }
    assert_eq!(server.metric("stepscope:events_total"), 1.0);
    let capture = server.capture.clone().unwrap();
    let stopped = server.stop();
    assert!(stopped.stderr.contains("recommends sampling"), "{}", stopped.stderr);
    let reader = CaptureReader::open(&capture).unwrap();
    let events: Vec<_> = reader.events().map(|event| event.unwrap()).collect();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind.as_str(), events[0].request), ("greedy_against_recommendation", Some(1)));
    replayed(&capture, &bench.model);
}
