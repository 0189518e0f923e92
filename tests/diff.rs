//! `stepscope diff` says where captures part and under which condition, and never takes what is missing for agreement.

#[path = "support/bench.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod bench;
#[path = "support/command.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod command;
#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bench::{Bench, line};
use command::{Run, stepscope};
use recorded::{steps, write};
use serde_json::{Value, json};
use stepscope::capture::records::{LossRecord, RequestRecord, StepRecord};
use stepscope::capture::{CaptureReader, Record};
use stepscope::model::synthetic::SyntheticModel;

fn run(a: &Path, b: &Path, more: &[&str]) -> Run {
    let arguments = [&["diff", a.to_str().unwrap(), b.to_str().unwrap()], more].concat();
    stepscope(&arguments)
}

fn diff(a: &Path, b: &Path) -> (i32, Value) {
    let run = run(a, b, &["--json"]);
    let value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{} {}", run.status, run.stderr));
    (run.status, value)
}

fn incident(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("captures/incident").join(name)
}

fn records(capture: &Path) -> Vec<Record> {
    CaptureReader::open(capture).unwrap().messages().map(|message| message.unwrap().record).collect()
}

/// The steps of each request of a capture, by the id of its client.
fn steps_by_id(capture: &Path) -> BTreeMap<String, Vec<StepRecord>> {
    let reader = CaptureReader::open(capture).unwrap();
    let of = |request| {
        let admission = reader.request(request).unwrap().admission?;
        let steps = reader.sequences().filter(|sequence| sequence.request == request).flat_map(|one| reader.steps(one));
        Some((admission.client_id?, steps.map(Result::unwrap).collect()))
    };
    reader.requests().filter_map(of).collect()
}

fn emitted(steps: &[StepRecord]) -> Vec<u32> {
    steps.iter().flat_map(|step| &step.emitted).copied().collect()
}

fn requests(diff: &Value) -> &Vec<Value> {
    diff["requests"].as_array().unwrap()
}

#[test]
fn a_capture_is_the_same_as_itself() {
    for name in ["clean.mcap", "faulty.mcap"] {
        let (status, found) = diff(&incident(name), &incident(name));
        assert_eq!((status, &found["parted"], &found["same"]), (0, &json!(0), &json!(24)), "{found:#}");
        assert_eq!((&found["settings"], &found["missing"]), (&json!([]), &json!([])));
        for request in requests(&found) {
            assert_eq!((&request["parts"], &request["condition"]), (&Value::Null, &Value::Null), "{request:#}");
            assert!(request["tokens"].as_u64().unwrap() > 5);
        }
    }
}

/// Against a reading of its own: the tokens, and the steps in which the fault acts.
#[test]
fn the_incident_parts_where_a_step_verified_less_than_was_accepted_before() {
    let (status, found) = diff(&incident("clean.mcap"), &incident("faulty.mcap"));
    assert_eq!((status, &found["missing"]), (1, &json!([])));
    assert_eq!(found["settings"], json!([]), "the planted fault is no setting");
    let [clean, faulty] = ["clean.mcap", "faulty.mcap"].map(|name| steps_by_id(&incident(name)));
    assert_eq!(requests(&found).len(), 24);
    let mut parted = 0;
    for request in requests(&found) {
        let id = request["client_id"].as_str().unwrap();
        let (a, b) = (&clean[id], &faulty[id]);
        let (tokens_a, tokens_b) = (emitted(a), emitted(b));
        let same = tokens_a.iter().zip(&tokens_b).take_while(|(a, b)| a == b).count();
        assert_eq!(request["tokens"], same, "{id}");
        assert_eq!(request["parts"] == "tokens", tokens_a != tokens_b, "{request:#}");
        let acts = b.iter().find(|step| step.prev_accepted > step.q_len);
        // Wherever the fault acts, the row is the first thing that differs, and nothing that it was computed under does.
        assert_eq!(request["condition"].is_null(), acts.is_none(), "{request:#}");
        let Some(acts) = acts else { continue };
        let condition = &request["condition"];
        assert_eq!((&condition["name"], &condition["kind"]), (&json!("checksum"), &json!("row")), "{request:#}");
        assert_eq!(condition["steps"][1], acts.step, "{request:#}");
        let in_a = a.iter().find(|step| condition["steps"][0] == step.step).unwrap();
        assert_eq!((in_a.q_len, in_a.prev_accepted, &in_a.drafts), (acts.q_len, acts.prev_accepted, &acts.drafts));
        assert_eq!(condition["position"], acts.first_position + 1);
        assert_eq!(request["row"]["position"], condition["position"]);
        if request["parts"] == "tokens" {
            parted += 1;
            let steps = &request["steps"];
            assert_ne!(steps[0]["token"], steps[1]["token"]);
            assert_eq!(steps[0]["token"], json!(tokens_a.get(same)), "{request:#}");
            assert_eq!(steps[1]["token"], json!(tokens_b.get(same)), "{request:#}");
            let has_row = |steps: &[StepRecord], at: &Value| {
                let step = steps.iter().find(|step| at["step"] == step.step).unwrap();
                let row = step.rows.get(at["row"].as_u64().unwrap() as usize).filter(|_| !at["token"].is_null());
                assert_eq!(at["rank"], json!(row.and_then(|row| row.rank)));
                assert_eq!(at["margin"], json!(row.and_then(|row| row.margin)));
                assert_eq!((&at["q_len"], &at["drafts"]), (&json!(step.q_len), &json!(step.drafts)));
            };
            has_row(a, &steps[0]);
            has_row(b, &steps[1]);
        } else {
            assert_eq!(request["parts"], "rows", "{request:#}");
        }
    }
    assert!(parted >= 5, "{parted}");
    let text = run(&incident("clean.mcap"), &incident("faulty.mcap"), &["--request", "call-00"]);
    assert_eq!(text.status, 1);
    assert!(text.stdout.contains("first condition that differs: checksum"), "{}", text.stdout);
    assert!(text.stdout.contains("1 in both: 1 part"), "{}", text.stdout);
}

/// More drafts and another scheduling give other steps, and by the contract the same rows at every position.
#[test]
fn other_settings_are_told_and_the_same_tokens_do_not_part() {
    let (status, found) = diff(&incident("clean.mcap"), &incident("defaults.mcap"));
    assert_eq!((status, &found["parted"], &found["missing"]), (0, &json!(0), &json!([])), "{found:#}");
    let settings: Vec<&str> =
        found["settings"].as_array().unwrap().iter().map(|setting| setting["name"].as_str().unwrap()).collect();
    assert_eq!(settings, ["drafts", "scheduling"]);
    for request in requests(&found) {
        assert_eq!(
            (&request["condition"]["name"], &request["row"]),
            (&json!("scheduler"), &Value::Null),
            "{request:#}"
        );
    }
}

/// Six requests with their own seeds, `max_tokens` each.
fn lines(ids: impl Iterator<Item = u32>, max_tokens: u32, seed: u64) -> String {
    let body = |id: u32| {
        json!({"prompt": [10 + id, 20, 30 + id], "seed": seed + u64::from(id), "max_tokens": max_tokens, "ignore_eos": true,
               "temperature": 1.0})
    };
    ids.map(|id| line(&format!("line-{id}"), "/v1/completions", body(id))).collect()
}

fn record(requests: &str, settings: &[&str]) -> (Bench, PathBuf) {
    let bench = Bench::new(&SyntheticModel::lfm2(5), requests);
    let recorded = bench.record(settings);
    assert!(recorded.run.status < 2, "{}", recorded.run.stderr);
    (bench, recorded.capture)
}

#[test]
fn requests_are_matched_by_the_ids_of_their_clients() {
    let (_a, a) = record(&lines(0..4, 9, 0), &["--drafter", "ngram"]);
    let (_b, b) = record(&lines((0..4).rev(), 9, 0), &[]);
    let (status, found) = diff(&a, &b);
    assert_eq!((status, &found["same"]), (0, &json!(4)), "{found:#}");
    let numbers: Vec<&Value> = requests(&found).iter().map(|request| &request["request"]).collect();
    assert_eq!(numbers, [&json!([0, 3]), &json!([1, 2]), &json!([2, 1]), &json!([3, 0])]);
}

#[test]
fn a_parameter_is_a_condition_before_the_first_token() {
    let (_a, a) = record(&lines(0..2, 9, 0), &[]);
    let (_b, b) = record(&lines(0..2, 9, 100), &[]);
    let (status, found) = diff(&a, &b);
    assert_eq!((status, &found["parted"]), (1, &json!(2)), "{found:#}");
    for request in requests(&found) {
        assert_eq!(
            (&request["condition"]["name"], &request["condition"]["position"]),
            (&json!("params.seed"), &Value::Null)
        );
        assert_eq!(request["parts"], "tokens");
        // Up to where they part, the rows are the same.
        assert_eq!(request["row"], Value::Null, "{request:#}");
    }
}

#[test]
fn an_answer_that_ends_sooner_parts_at_its_end() {
    let (_a, a) = record(&lines(0..2, 9, 0), &[]);
    let (_b, b) = record(&lines(0..2, 7, 0), &[]);
    let (status, found) = diff(&a, &b);
    assert_eq!(status, 1);
    for request in requests(&found) {
        assert_eq!(
            (&request["parts"], &request["index"], &request["position"]),
            (&json!("tokens"), &json!(7), &json!(10))
        );
        assert!(request["steps"][0]["token"].is_u64() && request["steps"][1]["token"].is_null(), "{request:#}");
    }
    // Which of them is which changes nothing.
    assert_eq!(diff(&b, &a).1["parted"], 2);
}

#[test]
fn other_prompts_and_refusals_part() {
    let (_a, a) = record(&lines(0..2, 9, 0), &[]);
    let other = line("line-0", "/v1/completions", json!({"prompt": [10, 20, 31, 4], "seed": 0, "max_tokens": 9}))
        + &line("line-1", "/v1/completions", json!({"prompt": [11, 20, 31], "temperature": -1}));
    let (_b, b) = record(&other, &[]);
    let (status, found) = diff(&a, &b);
    assert_eq!(status, 1);
    let parts: Vec<&Value> = requests(&found).iter().map(|request| &request["parts"]).collect();
    assert_eq!(parts, [&json!("prompt"), &json!("refusal")], "{found:#}");
    assert_eq!((&requests(&found)[0]["position"], &requests(&found)[0]["tokens_there"]), (&json!(2), &json!([30, 31])));
    assert_eq!(requests(&found)[1]["admission"], json!(["admitted", "refused"]));
}

#[test]
fn refused_requests_are_known_by_their_ids_and_bodies() {
    let refused = |id: &str| line(id, "/v1/completions", json!({"prompt": [11, 20, 31], "temperature": -1}));
    let (_a, a) = record(&(refused("refused") + &lines(0..1, 9, 0)), &[]);
    let (_b, b) = record(&(lines(0..1, 9, 0) + &lines(4..5, 9, 0) + &refused("refused")), &[]);
    let (status, found) = diff(&a, &b);
    let told: Vec<(&Value, &Value)> =
        requests(&found).iter().map(|request| (&request["client_id"], &request["matched_by"])).collect();
    let by_id = json!("client id");
    assert_eq!(told, [(&json!("refused"), &by_id), (&json!("line-0"), &by_id)], "{found:#}");
    assert_eq!(
        (status, &found["parted"], &found["missing"].as_array().unwrap().len()),
        (3, &json!(0), &1),
        "{found:#}"
    );
    // Another request of the same number is not the same request.
    let (_b, b) = record(&line("other", "/v1/completions", json!({"prompt": [5], "temperature": -1})), &[]);
    let (_a, a) = record(&refused("refused"), &[]);
    let (status, found) = diff(&a, &b);
    assert_eq!((status, requests(&found).len()), (3, 0), "{found:#}");
}

/// What differs between a capture and what `change` makes of it.
fn against_changed(change: impl FnOnce(&mut Vec<Record>)) -> (i32, Value) {
    let (bench, capture) = record(&lines(0..3, 9, 0), &[]);
    let mut changed = records(&capture);
    change(&mut changed);
    let path = bench.path("changed.mcap");
    write(&changed, &path);
    let there = diff(&capture, &path);
    let back = diff(&path, &capture);
    assert_eq!(there.0, back.0, "{:#}\n{:#}", there.1, back.1);
    there
}

fn is_request(record: &Record, number: u64) -> bool {
    match record {
        Record::Request(request) => request.request() == number,
        Record::Step(step) => step.request == number,
        Record::Logits(logits) => logits.request == number,
        _ => false,
    }
}

#[test]
fn what_is_missing_is_told_and_is_no_agreement() {
    assert_eq!(against_changed(|_| {}).0, 0);
    let missing = |name: &str, change: &dyn Fn(&mut Vec<Record>)| {
        let (status, found) = against_changed(|records| change(records));
        assert_eq!((status, &found["parted"]), (3, &json!(0)), "{name}: {found:#}");
        found["missing"].as_array().unwrap().iter().map(|words| words.as_str().unwrap().to_owned()).collect::<String>()
    };
    let gone = missing("a request", &|records| records.retain(|record| !is_request(record, 1)));
    assert!(gone.contains("request 1 (`line-1`) is in") && gone.contains("alone"), "{gone}");
    let is_step =
        |record: &Record, wanted: u64| matches!(record, Record::Step(step) if step.request == 1 && step.step == wanted);
    let lost = missing("a step", &|records| records.retain(|record| !is_step(record, 4)));
    assert!(lost.contains("steps before step 5 are missing"), "{lost}");
    let misaligned = missing("a place", &|records| {
        steps(records).filter(|step| step.request == 1 && step.step == 5).for_each(|step| step.first_position -= 1);
    });
    assert!(misaligned.contains("step 5 begins at position"), "{misaligned}");
    let said = missing("a step that is said to be lost", &|records| {
        records.retain(|record| !is_step(record, 4));
        records.push(Record::Loss(LossRecord {
            time_ns: 0,
            channel: "step".to_owned(),
            messages: Some(1),
            bytes: None,
            steps: Some((4, 4)),
            reason: "the queue was full".to_owned(),
        }));
    });
    assert!(said.contains("the queue was full"), "{said}");
    let last = missing("the last step", &|records| records.retain(|record| !is_step(record, 8)));
    assert!(last.contains("9 tokens were emitted, and 8 are recorded"), "{last}");
    let end = missing("an end", &|records| {
        records.retain(|record| {
            !matches!(record, Record::Request(request)
            if matches!(&**request, RequestRecord::Finished(end) if end.request == 1))
        });
    });
    assert!(end.contains("its end is not recorded"), "{end}");
    let why = missing("why it ended", &|records| {
        for record in records {
            if let Record::Request(request) = record
                && let RequestRecord::Finished(end) = &mut **request
                && end.request == 1
            {
                end.stop = None;
            }
        }
    });
    assert!(why.contains("why it ended is not recorded"), "{why}");
    let rows = missing("its rows", &|records| {
        steps(records)
            .filter(|step| step.request == 1 && step.step >= 4)
            .for_each(|step| step.rows[0].statistics = None);
    });
    assert!(rows.contains("of 5 of its 9 rows nothing is recorded but the token"), "{rows}");
    let empty = missing("everything", &|records| records.retain(|record| matches!(record, Record::Header(_))));
    assert!(empty.contains("no request that both"), "{empty}");
    let unknown = missing("which model", &|records| {
        for record in records {
            if let Record::Header(header) = record {
                header.model = None;
            }
        }
    });
    assert!(unknown.contains("the same model"), "{unknown}");
}

#[test]
fn rows_that_differ_part_without_a_token_that_does() {
    let (status, found) = against_changed(|records| {
        let step = steps(records).find(|step| step.request == 1 && step.step == 4).unwrap();
        step.rows[0].statistics.as_mut().unwrap().checksum ^= 1;
    });
    assert_eq!((status, &found["parted"]), (1, &json!(1)), "{found:#}");
    let request = &requests(&found)[1];
    assert_eq!((&request["parts"], &request["condition"]["name"]), (&json!("rows"), &json!("checksum")));
    assert_eq!(request["condition"]["steps"], json!([4, 4]));
    let (status, found) = against_changed(|records| {
        for step in steps(records).filter(|step| step.request == 2 && step.step >= 3) {
            step.prev_accepted = Some(2);
        }
    });
    assert_eq!((status, &found["parted"]), (0, &json!(0)), "{found:#}");
    let condition = &requests(&found)[2]["condition"];
    assert_eq!((&condition["name"], &condition["unlike"][0]["b"]), (&json!("prev_accepted"), &json!(2)), "{found:#}");
    // What one recorder does not know is no difference.
    let (_, found) = against_changed(|records| steps(records).for_each(|step| step.prev_accepted = None));
    assert!(requests(&found).iter().all(|request| request["condition"].is_null()), "{found:#}");
}

#[test]
fn without_ids_a_request_is_known_by_number_and_prompt_or_body() {
    let (bench, capture) = record(&lines(0..3, 9, 0), &[]);
    let nameless = |name: &str, prompt: Option<u32>, has_body: bool| {
        let mut records = records(&capture);
        for record in &mut records {
            if let Record::Request(request) = record
                && let RequestRecord::Admitted(admission) = &mut **request
            {
                admission.client_id = None;
                admission.body = admission.body.take().filter(|_| has_body);
                if let Some(token) = prompt.filter(|_| admission.request == 2) {
                    admission.prompt_tokens[0] = token;
                }
            }
        }
        let path = bench.path(name);
        write(&records, &path);
        path
    };
    let (a, b) = (nameless("a.mcap", None, true), nameless("b.mcap", None, true));
    assert_eq!(diff(&a, &b).0, 0);
    // Another template makes another prompt of one body.
    let (status, found) = diff(&a, &nameless("templated.mcap", Some(99), true));
    assert_eq!((status, &requests(&found)[2]["parts"]), (1, &json!("prompt")), "{found:#}");
    assert_eq!(requests(&found)[2]["matched_by"], "number and body");
    let (status, found) = diff(&a, &nameless("other.mcap", Some(99), false));
    assert_eq!((status, requests(&found).len()), (3, 2), "{found:#}");
    assert_eq!(found["missing"].as_array().unwrap().len(), 2, "{found:#}");
    // The ids of the one are not in the other: an engine may add something of its own to them.
    let (status, found) = diff(&capture, &a);
    assert_eq!((status, requests(&found).len()), (0, 3), "{found:#}");
    assert!(requests(&found).iter().all(|request| request["matched_by"] == "number and prompt"), "{found:#}");
    assert!(diff(&capture, &capture).1["requests"][0]["matched_by"] == "client id");
}

#[test]
fn unlike_models_are_refused() {
    let (_a, a) = record(&lines(0..1, 3, 0), &[]);
    let bench = Bench::new(&SyntheticModel::lfm2(6), &lines(0..1, 3, 0));
    let b = bench.record(&[]).capture;
    let refused = run(&a, &b, &[]);
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("sha256 of the model"), "{}", refused.stderr);
    assert_eq!(run(&a, &a, &["--request", "nobody"]).status, 2);
    assert_eq!(run(&a, Path::new("/nonexistent.mcap"), &[]).status, 2);
    // Of a tokenizer, likewise.
    let mut records = records(&a);
    for record in &mut records {
        if let Record::Header(header) = record {
            header.model.as_mut().unwrap().tokenizer_hashes[0].hex = "00".to_owned();
        }
    }
    let other = bench.path("tokenizer.mcap");
    write(&records, &other);
    let refused = run(&a, &other, &[]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("tokenizer"), "{}", refused.stderr);
}
