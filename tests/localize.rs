//! `stepscope localize` names the operation that went wrong first, and how, of every fault that has one.

#[path = "support/bench.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod bench;
#[path = "support/command.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod command;
#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bench::{Bench, line};
use recorded::{steps, stepscope, write};
use serde_json::{Value, json};
use stepscope::capture::records::{RequestRecord, SketchRecord, StepRecord};
use stepscope::capture::{CaptureReader, Record};
use stepscope::model::synthetic::SyntheticModel;

/// A capture of [`requests`], with its model.
struct Recorded {
    bench: Bench,
    capture: PathBuf,
    records: Vec<Record>,
}

/// Drawn at random, so that no layer reads the same twice; the prompts' last chunk has one token.
fn requests() -> String {
    let prompt = |number: u32| (0..25).map(|index| 10 + (17 * number + 29 * index) % 200).collect::<Vec<u32>>();
    let body =
        |number: u32| json!({"prompt": prompt(number), "seed": number, "max_tokens": 30 + number, "ignore_eos": true});
    (0..6).map(|number| line(&format!("line-{number}"), "/v1/completions", body(number))).collect()
}

/// What a scripted drafter proposes: the answers, with a wrong token here and there.
fn script(bench: &Bench) -> String {
    let plain = bench.record(&["--prefill-chunk", "24"]);
    let reader = CaptureReader::open(&plain.capture).unwrap();
    let of = |request| {
        let id = reader.request(request).unwrap().admission.unwrap().client_id.unwrap();
        let steps = reader.sequences().filter(|sequence| sequence.request == request).flat_map(|one| reader.steps(one));
        let tokens = steps.flat_map(|step| step.unwrap().emitted).enumerate();
        let drafted: Vec<u32> = tokens.map(|(place, token)| if place % 9 == 7 { 3 } else { token }).collect();
        json!({"custom_id": id, "tokens": drafted}).to_string() + "\n"
    };
    reader.requests().map(of).collect()
}

/// Records the requests with `settings`, sketched.
fn record(model: SyntheticModel, settings: &[&str]) -> Recorded {
    record_sketching("on", model, settings)
}

fn record_sketching(sketches: &str, model: SyntheticModel, settings: &[&str]) -> Recorded {
    let bench = Bench::new(&model, &requests());
    std::fs::write(bench.path("script.jsonl"), script(&bench)).unwrap();
    let script = bench.path("script.jsonl").display().to_string();
    let usual =
        ["--max-batch", "3", "--prefill-chunk", "24", "--drafter", "scripted", "--drafts", "5", "--draft-script"];
    let arguments = [&usual[..], &[script.as_str(), "--sketches", sketches], settings].concat();
    let recorded = bench.record(&arguments);
    assert!(recorded.run.status < 2, "{}", recorded.run.stderr);
    let reader = CaptureReader::open(&recorded.capture).unwrap();
    let records = reader.messages().map(|message| message.unwrap().record).collect();
    Recorded { bench, capture: recorded.capture, records }
}

/// What `localize --json` says of a capture, and its exit status.
fn localized(capture: &Path, model: &Path, more: &[&str]) -> (i32, Value) {
    let (capture, model) = (capture.to_str().unwrap(), model.to_str().unwrap());
    let arguments = [&["localize", capture, "--model", model, "--json"], more].concat();
    let (status, stdout, stderr) = stepscope(&arguments, Path::new("/nonexistent"));
    let value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{status:?} {stdout} {stderr}"));
    (status.unwrap(), value)
}

fn localized_in(recorded: &Recorded, more: &[&str]) -> (i32, Value) {
    localized(&recorded.capture, &recorded.bench.path("model.gguf"), more)
}

/// A capture with other records.
fn changed(recorded: &Recorded, change: impl FnOnce(&mut Vec<Record>), more: &[&str]) -> (i32, Value) {
    let mut records = recorded.records.clone();
    change(&mut records);
    let path = recorded.bench.path("changed.mcap");
    write(&records, &path);
    localized(&path, &recorded.bench.path("model.gguf"), more)
}

/// The step that was named.
fn step_of<'a>(recorded: &'a Recorded, found: &Value) -> &'a StepRecord {
    let is_it = |step: &StepRecord| {
        (found["step"] == step.step) && (found["request"] == step.request) && (found["choice"] == step.choice)
    };
    let mut steps = recorded.records.iter().filter_map(|record| match record {
        Record::Step(step) if is_it(step) => Some(&**step),
        _ => None,
    });
    steps.next().unwrap_or_else(|| panic!("no such step: {found:#}"))
}

fn with_fault(fault: &str) -> Recorded {
    record(SyntheticModel::lfm2(64), &["--inject", fault])
}

/// The first difference of a run with that fault: the run, what was found, and the step.
fn first(fault: &str) -> (Recorded, Value, StepRecord) {
    let recorded = with_fault(fault);
    let (status, found) = localized_in(&recorded, &[]);
    assert_eq!(status, 1, "{fault}: {found:#}");
    let step = step_of(&recorded, &found).clone();
    (recorded, found, step)
}

fn place(found: &Value) -> (Option<u64>, &str, &str) {
    (found["layer"].as_u64(), found["op"].as_str().unwrap(), found["how"].as_str().unwrap())
}

#[test]
fn nothing_differs_without_a_fault() {
    for model in [SyntheticModel::llama(64), SyntheticModel::lfm2(64)] {
        let recorded = record(model, &[]);
        let (status, found) = localized_in(&recorded, &[]);
        assert_eq!((status, &found["op"], &found["step"]), (0, &Value::Null, &Value::Null), "{found:#}");
        let rows: usize = recorded
            .records
            .iter()
            .map(|record| match record {
                Record::Step(step) => step.rows.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(found["rows"], rows, "every row is compared");
        assert_eq!(found["missing"], json!([]));
    }
}

#[test]
fn a_convolution_that_was_bounded_by_the_query_is_zeroed() {
    let (recorded, found, step) = first("state-bound-by-query");
    assert_eq!(place(&found), (Some(0), "short_convolution", "zeroed"), "{found:#}");
    assert_eq!((&found["row"], &found["found"]["magnitude"]), (&json!(0), &json!(0.0)), "{found:#}");
    assert!(found["expected"]["magnitude"].as_f64().unwrap() > 0.0);
    // The layer's own output, and all of the layers after it.
    assert!(found["later"].as_u64().unwrap() >= 5, "{found:#}");
    assert!(step.prev_accepted > step.q_len, "{step:?}");
    assert_eq!(found["conditions"]["q_len"], step.q_len.unwrap());
    // No step before it has the condition.
    let earlier = recorded.records.iter().filter_map(|record| match record {
        Record::Step(other) if other.step < step.step => Some(other),
        _ => None,
    });
    assert!(earlier.into_iter().all(|step| step.prev_accepted <= step.q_len));
}

/// By how many columns, as the definition of each fault has it.
#[test]
fn a_history_at_the_wrong_column_is_stale_by_what_it_is_off() {
    let width = 2;
    type Read = fn(asked: i64, query: i64) -> i64;
    let faults: [(&str, Read); 4] = [
        ("state-clamp-to-query", |asked, query| asked.min(query - 1)),
        ("state-clamp-to-width", |asked, _| asked.min(2)),
        ("state-slot-zero", |_, _| 0),
        ("state-rolled-short", |asked, _| asked - 1),
    ];
    for (fault, read) in faults {
        let (_, found, step) = first(fault);
        assert_eq!(place(&found), (Some(0), "history", "stale"), "{fault}: {found:#}");
        let asked = i64::from(step.prev_accepted.unwrap()) - 1;
        assert_eq!(found["columns"], asked - read(asked, i64::from(step.q_len.unwrap())), "{fault}: {found:#}");
        assert!(found["row"].as_i64().unwrap() < width, "{fault}: only the first rows read the state");
    }
}

/// Columns past the accepted ones hold what the rejected drafts left.
#[test]
fn a_history_of_columns_that_were_not_accepted_is_stale_the_other_way() {
    let (recorded, found, step) = first("state-stale-count");
    let asked = |step: &StepRecord| i64::from(step.prev_accepted.unwrap()) - 1;
    assert_eq!(place(&found), (Some(0), "history", "stale"), "{found:#}");
    // The step before was the first after the prompt.
    assert_eq!(found["columns"], asked(&step), "{found:#}");
    let after = recorded.records.iter().find_map(|record| match record {
        Record::Step(after) if after.request == step.request && after.step > step.step => Some(after),
        _ => None,
    });
    let after = after.unwrap();
    assert!(asked(after) < asked(&step), "the answer has parted from the script");
    let (_, found) =
        localized_in(&recorded, &["--request", &step.request.to_string(), "--step", &after.step.to_string()]);
    assert_eq!(place(&found), (Some(0), "history", "stale"), "{found:#}");
    assert_eq!(found["columns"], asked(after) - asked(&step), "{found:#}");
}

#[test]
fn a_row_of_another_sequence_is_foreign() {
    let (recorded, found, step) = first("rows-from-neighbour");
    assert_eq!(place(&found), (None, "logits", "foreign-row"), "{found:#}");
    let from = &found["from"];
    let of = (from["request"].as_u64().unwrap(), from["choice"].as_u64().unwrap());
    if of == (step.request, u64::from(step.choice)) {
        assert_ne!(from["row"], found["row"]);
    } else {
        assert!(step.batch.as_ref().unwrap().neighbours.contains(&(of.0, of.1 as u32)), "{found:#}");
    }
    // Of all sequences, in some it is a neighbour's.
    let requests: BTreeSet<u64> = recorded
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Step(step) => Some(step.request),
            _ => None,
        })
        .collect();
    let foreign = requests.iter().filter(|request| {
        let (_, found) = localized_in(&recorded, &["--request", &request.to_string()]);
        found["how"] == "foreign-row" && found["from"]["request"] != found["request"]
    });
    assert!(foreign.count() > 0);
}

#[test]
fn a_token_that_was_read_twice_is_foreign_from_the_embedding_on() {
    let (_, found, step) = first("verify-position");
    assert_eq!(place(&found), (None, "embedding", "foreign-row"), "{found:#}");
    let last = step.q_len.unwrap() - 1;
    assert_eq!((&found["row"], &found["from"]["row"]), (&json!(last), &json!(last - 1)), "{found:#}");
    assert_eq!(found["from"]["request"], found["request"]);
}

#[test]
fn a_token_that_was_misread_is_named() {
    let (recorded, found, step) = first("prefill-tail");
    assert_eq!(place(&found), (None, "embedding", "foreign-row"), "{found:#}");
    let admitted = recorded.records.iter().filter_map(|record| match record {
        Record::Request(request) => match &**request {
            RequestRecord::Admitted(admission) => Some(admission),
            _ => None,
        },
        _ => None,
    });
    let prompt = admitted.into_iter().find(|admission| admission.request == step.request);
    let last = prompt.unwrap().prompt_tokens.last().unwrap();
    assert_eq!(found["from"]["token"], last ^ 1, "{found:#}");
}

#[test]
fn rows_of_nothing_but_nan_and_of_zeros_are_told() {
    for (fault, how) in [("invalid-row-to-zero", "non-finite"), ("nan-sanitised", "zeroed")] {
        let (_, found, _) = first(fault);
        assert_eq!(place(&found), (None, "logits", how), "{fault}: {found:#}");
    }
    let (_, found, _) = first("head-tail");
    assert_eq!(place(&found), (None, "logits", "differs"), "{found:#}");
}

/// A kernel that keeps keys and values at half the width that it says.
#[test]
fn rounding_is_drift() {
    let recorded = record(SyntheticModel::lfm2(64), &["--kv-type", "f16"]);
    assert_eq!(localized_in(&recorded, &[]).0, 0, "by what it says");
    let (status, found) = changed(
        &recorded,
        |records| {
            for record in records {
                if let Record::Header(header) = record {
                    let setting = header.configuration.iter_mut().find(|setting| setting.name == "kv-type");
                    setting.unwrap().value = "\"f32\"".to_owned();
                }
            }
        },
        &[],
    );
    assert_eq!((status, place(&found)), (1, (Some(1), "attention", "drift")), "{found:#}");
    let relative = found["relative"].as_f64().unwrap();
    assert!(relative > 0.0 && relative < 0.01, "{relative}");
}

#[test]
fn a_number_that_belongs_to_another_row_is_a_neighbours_value() {
    let recorded = record(SyntheticModel::lfm2(64), &[]);
    let mut of = None;
    let (status, found) = changed(
        &recorded,
        |records| {
            let step = steps(records).find(|step| step.rows.len() > 2).unwrap();
            let neighbour = step.rows[2].statistics.unwrap().maximum;
            step.rows[1].statistics.as_mut().unwrap().maximum = neighbour;
            of = Some((step.request, step.choice, step.step));
        },
        &[],
    );
    let (request, choice, step) = of.unwrap();
    assert_eq!((status, place(&found)), (1, (None, "statistics", "neighbours-value")), "{found:#}");
    assert_eq!((&found["statistic"], &found["step"]), (&json!("maximum"), &json!(step)));
    assert_eq!(found["from"], json!({"request": request, "choice": choice, "row": 2}));
    // Tokens are the same in many rows by chance.
    let (_, found) = changed(
        &recorded,
        |records| {
            let step = steps(records).find(|step| step.rows.len() > 2).unwrap();
            let neighbour = step.rows[2].statistics.unwrap().argmax;
            assert_ne!(step.rows[1].statistics.as_mut().unwrap().argmax, neighbour);
            step.rows[1].statistics.as_mut().unwrap().argmax = neighbour;
        },
        &[],
    );
    assert_eq!(place(&found), (None, "statistics", "differs"), "{found:#}");
}

#[test]
fn a_row_at_another_position_is_not_compared_and_neither_are_those_after_it() {
    let recorded = record(SyntheticModel::lfm2(64), &[]);
    let mut rows = 0;
    let (status, found) = changed(
        &recorded,
        |records| {
            rows = steps(records).map(|step| step.rows.len()).sum::<usize>();
            let step = steps(records).find(|step| step.rows.len() > 2).unwrap();
            rows -= step.rows.len() - 1;
            step.rows[1].position += 1;
        },
        &[],
    );
    assert_eq!((status, &found["op"], &found["rows"]), (3, &Value::Null, &json!(rows)), "{found:#}");
    assert!(found["missing"][0].as_str().unwrap().contains("row 1: it is recorded at position"), "{found:#}");
}

#[test]
fn a_sketch_of_another_size_differs_by_figures() {
    let recorded = record(SyntheticModel::lfm2(64), &[]);
    let sketch = |records: &mut Vec<Record>, change: &dyn Fn(&mut SketchRecord)| {
        let sketch = records.iter_mut().find_map(|record| match record {
            Record::Sketch(sketch) if sketch.operation == "attention" && sketch.row == 1 => Some(sketch),
            _ => None,
        });
        change(sketch.unwrap());
    };
    let doubled = |sketch: &mut SketchRecord| sketch.values.iter_mut().for_each(|value| *value *= 2.0);
    let (status, found) = changed(&recorded, |records| sketch(records, &doubled), &[]);
    assert_eq!((status, place(&found)), (1, (Some(1), "attention", "differs")), "{found:#}");
    assert_eq!(found["found"]["magnitude"].as_f64().unwrap(), 2.0 * found["expected"]["magnitude"].as_f64().unwrap());
    assert!(found["relative"].as_f64().unwrap() > 0.01 && found["later"] == 0, "{found:#}");
    let (_, found) = changed(&recorded, |records| sketch(records, &|sketch| sketch.values[2] = f32::INFINITY), &[]);
    assert_eq!(place(&found), (Some(1), "attention", "non-finite"), "{found:#}");
    assert_eq!(found["found"]["projections"][1], "Infinity");
}

#[test]
fn requests_and_steps_narrow() {
    let (recorded, found, _) = first("state-bound-by-query");
    let (step, request) = (found["step"].as_u64().unwrap(), found["request"].as_u64().unwrap());
    let id = found["client_id"].as_str().unwrap();
    for narrowed in [vec!["--request", id], vec!["--step"], vec!["--request", id, "--step"]] {
        let number = step.to_string();
        let mut arguments = narrowed;
        if arguments.last() == Some(&"--step") {
            arguments.push(&number);
        }
        let (status, again) = localized_in(&recorded, &arguments);
        let key = |found: &Value| {
            (found["request"].clone(), found["step"].clone(), found["op"].clone(), found["how"].clone())
        };
        assert_eq!((status, key(&again)), (1, key(&found)), "{arguments:?}");
    }
    // The step before has the same request, and nothing is wrong with it.
    let before = recorded.records.iter().filter_map(|record| match record {
        Record::Step(other) if other.request == request && other.step < step && !other.rows.is_empty() => {
            Some(other.step)
        }
        _ => None,
    });
    let before = before.max().unwrap().to_string();
    assert_eq!(localized_in(&recorded, &["--request", id, "--step", &before]).0, 0);
    let (capture, model) = (recorded.capture.to_str().unwrap(), recorded.bench.path("model.gguf"));
    let run = |more: &[&str]| {
        let arguments = [&["localize", capture, "--model", model.to_str().unwrap()], more].concat();
        stepscope(&arguments, Path::new("/nonexistent"))
    };
    let (status, _, stderr) = run(&["--step", "100000"]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("no step 100000"), "{stderr}");
    let (status, _, stderr) = run(&["--request", "nobody"]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("nobody"), "{stderr}");
    let (status, stdout, _) = run(&[]);
    assert_eq!(status, Some(1));
    assert!(stdout.contains("layer 0, short_convolution: zeroed"), "{stdout}");
}

#[test]
fn sketches_that_are_missing_are_no_agreement() {
    let recorded = record(SyntheticModel::lfm2(64), &[]);
    // What the sketches would say, the row says, too: it is what the model gives.
    let without = |records: &mut Vec<Record>| records.retain(|record| !matches!(record, Record::Sketch(_)));
    assert_eq!(changed(&recorded, without, &[]).0, 0);
    let (status, found) = changed(
        &recorded,
        |records| {
            records.retain(|record| !matches!(record, Record::Sketch(_) | Record::Logits(_)));
            steps(records).flat_map(|step| &mut step.rows).for_each(|row| row.statistics = None);
        },
        &[],
    );
    assert_eq!((status, &found["rows"], &found["op"]), (3, &json!(0), &Value::Null), "{found:#}");
    assert!(!found["missing"].as_array().unwrap().is_empty());
    // A cut capture lacks steps.
    let bytes = std::fs::read(&recorded.capture).unwrap();
    let cut = recorded.bench.path("cut.mcap");
    std::fs::write(&cut, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let (status, found) = localized(&cut, &recorded.bench.path("model.gguf"), &[]);
    assert_eq!(status, 3, "{found:#}");
}

#[test]
fn what_the_header_says_of_faults_changes_nothing() {
    let (recorded, found, _) = first("state-bound-by-query");
    let (status, stripped) = changed(
        &recorded,
        |records| {
            for record in records {
                if let Record::Header(header) = record {
                    header.faults.clear();
                }
            }
        },
        &[],
    );
    assert_eq!((status, stripped), (1, found));
}

/// What an engine without this arithmetic computed cannot be run again here.
#[test]
fn foreign_captures_are_refused_with_why() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.gguf");
    SyntheticModel::llama(1).write_gguf(&model).unwrap();
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("captures/vllm/sync-ngram.mcap");
    let arguments = ["localize", capture.to_str().unwrap(), "--model", model.to_str().unwrap()];
    let (status, stdout, stderr) = stepscope(&arguments, folder.path());
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    let without = stepscope(&arguments[..2], folder.path());
    assert_eq!(without.0, Some(2), "{}", without.2);
    assert!(without.2.contains("--model"), "{}", without.2);
}

/// Without sketches a step is run again under suppositions, and the one that gives every row as recorded tells the same.
#[test]
fn what_no_sketch_says_is_found_by_running_the_step_again() {
    let faults = [
        "state-bound-by-query",
        "state-clamp-to-query",
        "state-clamp-to-width",
        "state-slot-zero",
        "state-rolled-short",
        "state-stale-count",
        "state-count-zero",
        "verify-position",
    ];
    for fault in faults {
        let (_, sketched, _) = first(fault);
        let recorded = record_sketching("off", SyntheticModel::lfm2(64), &["--inject", fault]);
        let (status, found) = localized_in(&recorded, &[]);
        assert_eq!((status, &found["sketches"]), (1, &json!("re-executed")), "{fault}: {found:#}");
        assert_eq!(sketched["sketches"], "recorded", "{fault}");
        for key in ["request", "step", "row", "layer", "op", "how", "columns", "from", "expected", "found", "later"] {
            assert_eq!(found[key], sketched[key], "{fault}, {key}: {found:#}");
        }
    }
}

#[test]
fn what_nothing_explains_is_said_to_need_sketches() {
    let recorded = record_sketching("off", SyntheticModel::lfm2(64), &["--inject", "prefill-tail"]);
    let model = recorded.bench.path("model.gguf");
    let arguments = ["localize", recorded.capture.to_str().unwrap(), "--model", model.to_str().unwrap(), "--json"];
    let (status, stdout, stderr) = stepscope(&arguments, Path::new("/nonexistent"));
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("step ") && stderr.contains("--sketches on"), "{stderr}");
    // The head's own faults need no sketches: what it read is recorded.
    let recorded = record_sketching("off", SyntheticModel::lfm2(64), &["--inject", "nan-sanitised"]);
    let (status, found) = localized_in(&recorded, &[]);
    assert_eq!((status, place(&found)), (1, (None, "logits", "zeroed")), "{found:#}");
}

/// Faults of scheduling, grammar, sampling, parameters and tools leave every row as the model gives it.
#[test]
fn a_fault_that_has_no_operation_is_not_localized() {
    let has_one = ["invalid-row-to-zero"];
    let (_, listed, _) = stepscope(&["faults", "--json"], Path::new("/nonexistent"));
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let names = listed.iter().filter(|fault| !["state", "head"].contains(&fault["area"].as_str().unwrap()));
    let names: Vec<&str> =
        names.map(|fault| fault["name"].as_str().unwrap()).filter(|name| !has_one.contains(name)).collect();
    assert!(names.len() > 35, "{names:?}");
    let is_short =
        |line: &&str| ["call-required", "regex", "choice"].iter().any(|id| line.contains(&format!("\"{id}\"")));
    let constrained = bench::constrained_requests();
    let requests: String = constrained.lines().filter(is_short).map(|line| format!("{line}\n")).collect();
    assert_eq!(requests.lines().count(), 3);
    let bench = Bench::new(&SyntheticModel::lfm2(11), &requests);
    let settings =
        ["--max-batch", "4", "--prefill-chunk", "24", "--drafter", "random", "--drafts", "4", "--sketches", "on"];
    for name in names {
        let recorded = bench.record(&[&settings[..], &["--inject", name]].concat());
        assert!(recorded.run.status < 2, "{name}: {}", recorded.run.stderr);
        let (status, found) = localized(&recorded.capture, &bench.path("model.gguf"), &[]);
        assert_eq!((status, &found["op"]), (0, &Value::Null), "{name}: {found:#}");
    }
}

/// The captures of the incident have no sketches.
#[test]
fn the_incident_is_localized_from_its_captures_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("captures/incident");
    let draft = folder.join("draft.gguf");
    let of = |name: &str| {
        let more = ["--draft-model", draft.to_str().unwrap()];
        localized(&folder.join(name), &folder.join("target.gguf"), &more)
    };
    let (status, found) = of("faulty.mcap");
    assert_eq!((status, place(&found)), (1, (Some(0), "short_convolution", "zeroed")), "{found:#}");
    assert_eq!(found["supposed"], "the short_convolution of every layer zeroed");
    let reader = CaptureReader::open(&folder.join("faulty.mcap")).unwrap();
    let all = || reader.sequences().flat_map(|sequence| reader.steps(sequence)).map(Result::unwrap);
    let step = all().find(|step| found["step"] == step.step && found["request"] == step.request).unwrap();
    assert!(step.prev_accepted > step.q_len, "{step:?}");
    assert!(all().filter(|other| other.step < step.step).all(|other| other.prev_accepted <= other.q_len));
    for name in ["clean.mcap", "defaults.mcap"] {
        let (status, found) = of(name);
        assert_eq!((status, &found["op"], &found["missing"]), (0, &Value::Null, &json!([])), "{name}: {found:#}");
        assert!(found["rows"].as_u64().unwrap() > 900, "{found:#}");
    }
    // A draft model is not run, and must still be the recorded one.
    let (target, capture) = (folder.join("target.gguf"), folder.join("clean.mcap"));
    let target = target.to_str().unwrap();
    let arguments = ["localize", capture.to_str().unwrap(), "--model", target, "--draft-model", target];
    let (status, _, stderr) = stepscope(&arguments, Path::new("/nonexistent"));
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("--draft-model"), "{stderr}");
}
