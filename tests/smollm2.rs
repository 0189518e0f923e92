//! The main job on the real model: the same outputs on every way through the engine, and a clean replay.
//!
//! On small random models every combination is tried (`tests/record.rs`); here a set of runs in which every pair of
//! settings occurs.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::{Path, PathBuf};

use command::stepscope;
use serde_json::{Value, json};
use stepscope::arith::{Isa, Kernels};

/// `make model` puts it there.
fn model() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let path = cache.expect("a home folder").join("stepscope/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.exists(), "{} is missing: run `make model`", path.display());
    path
}

/// Requests of the tour whose outputs are determined, twice, so that the second round can find the first one's prefixes.
fn requests() -> String {
    const CHOSEN: [&str; 4] = ["capital", "all-filters", "two-choices", "stop-token"];
    let tour = include_str!("../captures/tour/requests.jsonl");
    let mut lines = String::new();
    for round in ["a", "b"] {
        for line in tour.lines() {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let id = line["custom_id"].as_str().unwrap().to_owned();
            if CHOSEN.contains(&id.as_str()) {
                line["custom_id"] = format!("{id}-{round}").into();
                line["body"]["max_tokens"] = 8.into();
                lines += &format!("{line}\n");
            }
        }
    }
    assert_eq!(lines.lines().count(), 2 * CHOSEN.len());
    lines + &constrained()
}

/// Tool calls, a schema and an expression, greedy and drawn.
fn constrained() -> String {
    let mut lines = String::new();
    let ask = |id: &str, form: Value| {
        let mut body =
            json!({ "messages": [{ "role": "user", "content": "When and where?" }], "max_tokens": 12, "seed": 2 });
        body.as_object_mut().unwrap().extend(form.as_object().unwrap().clone());
        json!({ "custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body }).to_string() + "\n"
    };
    let schema = json!({ "type": "object", "properties": { "year": { "type": "integer" }, "city": { "type": "string" } },
        "required": ["year", "city"], "additionalProperties": false });
    lines += &ask(
        "schema",
        json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": schema } } }),
    );
    lines += &ask(
        "regex",
        json!({ "temperature": 0, "structured_outputs": { "regex": "(Mon|Tues|Fri)day, [0-9]{1,2} (May|June)" } }),
    );
    lines
}

/// The settings that must not matter, with their values.
fn factors() -> Vec<(&'static str, Vec<&'static str>)> {
    let isas = [(Isa::Scalar, "scalar"), (Isa::Avx2, "avx2"), (Isa::Avx512, "avx512")];
    let isas = isas.into_iter().filter(|(isa, _)| Kernels::new(*isa).is_ok()).map(|(_, name)| name).collect();
    vec![
        ("--isa", isas),
        ("--max-batch", vec!["1", "3", "8"]),
        ("--prefill-chunk", vec!["7", "64", "256"]),
        ("--threads", vec!["1", "2"]),
        ("--prefix-cache", vec!["on", "off"]),
        ("--drafter", vec!["ngram", "grammar", "random"]),
        ("--drafts", vec!["1", "4", "15"]),
        ("--scheduling", vec!["sync", "async"]),
    ]
}

/// Runs, as indices of values, in which every pair of values of two factors occurs: greedily, the run that covers most.
fn covering_runs(factors: &[(&str, Vec<&str>)]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for (_, values) in factors {
        all = all.iter().flat_map(|run| (0..values.len()).map(move |value| [&run[..], &[value]].concat())).collect();
    }
    let pairs = |run: &[usize]| -> Vec<(usize, usize, usize, usize)> {
        let places = 0..run.len();
        places.flat_map(|a| (a + 1..run.len()).map(move |b| (a, b))).map(|(a, b)| (a, run[a], b, run[b])).collect()
    };
    let mut open: std::collections::BTreeSet<_> = all.iter().flat_map(|run| pairs(run)).collect();
    let mut chosen = Vec::new();
    while !open.is_empty() {
        let best = all.iter().max_by_key(|run| pairs(run).iter().filter(|pair| open.contains(pair)).count()).unwrap();
        for pair in pairs(best) {
            open.remove(&pair);
        }
        chosen.push(best.clone());
    }
    chosen
}

#[test]
fn outputs_do_not_depend_on_the_way_and_replay_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let requests_path = folder.path().join("requests.jsonl");
    fs::write(&requests_path, requests()).unwrap();
    let (model, requests_path) = (model().display().to_string(), requests_path.display().to_string());
    let factors = factors();
    let runs = covering_runs(&factors);
    assert!((9..=15).contains(&runs.len()) || factors[0].1.len() < 3, "{} runs", runs.len());

    let flags = |run: &Vec<usize>| -> Vec<&str> {
        factors.iter().zip(run).flat_map(|((flag, values), value)| [*flag, values[*value]]).collect()
    };
    // Plain decoding goes first.
    let ways: Vec<Vec<&str>> = std::iter::once(Vec::new()).chain(runs.iter().map(flags)).collect();
    let mut first: Option<String> = None;
    for (number, way) in ways.iter().enumerate() {
        let path = |extension: &str| folder.path().join(format!("{number}.{extension}")).display().to_string();
        let (capture, outputs) = (path("mcap"), path("jsonl"));
        let mut arguments = vec!["record", "--model", &model, "--requests", &requests_path, "--out", &capture];
        arguments.extend(["--outputs", &outputs]);
        arguments.extend(way);
        let settings = way.join(" ");
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let recorded = stepscope(&arguments);
        assert_eq!(recorded.status, 0, "{settings}: {}", recorded.stderr);
        let outputs = fs::read_to_string(outputs).unwrap();
        match &first {
            None => first = Some(outputs),
            Some(first) => assert_eq!(*first, outputs, "{settings} changes the outputs"),
        }
        if number == 0 || number + 1 == ways.len() {
            let replayed: Vec<String> = ["replay", &capture, "--model", &model].map(str::to_owned).into();
            let replayed = stepscope(&replayed);
            assert_eq!(replayed.status, 0, "{settings}: {}", replayed.stdout);
        }
    }
}
