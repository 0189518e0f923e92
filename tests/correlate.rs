//! `stepscope correlate` finds the conditions that go with bad steps, and nothing where there are none.

#[path = "support/command.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod command;
#[path = "support/generated.rs"]
mod generated;

use std::path::{Path, PathBuf};

use command::{Run, stepscope};
use serde_json::Value;

fn incident(name: &str) -> String {
    format!("{}/captures/incident/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn correlate(arguments: &[&str]) -> Run {
    stepscope(&[&["correlate"], arguments].concat())
}

/// The JSON of a run, which has to end with that status.
fn found(status: i32, arguments: &[&str]) -> Value {
    let run = correlate(&[arguments, &["--json"]].concat());
    assert_eq!(run.status, status, "{arguments:?}: {}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

/// The first condition with its counts, [failing, all] where it holds and where it does not.
fn first(found: &Value) -> (&str, [u64; 4]) {
    let first = &found["ranked"][0];
    let count = |side: &str, index: usize| first[side][index].as_u64().unwrap_or_else(|| panic!("{found:#}"));
    let counts = [count("true", 0), count("true", 1), count("false", 0), count("false", 1)];
    (first["predicate"].as_str().unwrap(), counts)
}

#[test]
fn the_incident_has_its_condition() {
    let found = found(1, &[&incident("faulty.mcap")]);
    assert_eq!(first(&found), ("prev_accepted > q_len", [18, 18, 0, 42]), "{found:#}");
    assert_eq!(found["not_explained"], 0);
    assert_eq!(found["ranked"].as_array().unwrap().len(), 1, "it explains everything: {found:#}");
    assert!(found["ranked"][0]["q"].as_f64().unwrap() < 1e-3);
    assert!(found["ranked"][0]["increase_interval"][0].as_f64().unwrap() > 0.0);
    let equivalents = found["ranked"][0]["equivalents"].as_array().unwrap();
    assert!(equivalents.contains(&"state_column >= q_len".into()), "{equivalents:?}");
    assert_eq!(found["control"]["permutations"], 200);
    assert!(found["control"]["reporting"].as_u64().unwrap() <= 10, "{found:#}");
    // 84 judged, 6 without a forced token beside the end token, 19 after the first.
    let parts =
        ["failing", "passing", "nothing_to_judge", "unknown", "censored"].map(|part| found[part].as_u64().unwrap());
    assert_eq!(parts.iter().sum::<u64>(), found["steps"].as_u64().unwrap());

    let text = correlate(&[&incident("faulty.mcap")]);
    assert_eq!(text.status, 1);
    for words in [
        "1. prev_accepted > q_len",
        "18 of 18 fail where it holds, against 0 of 42",
        "explains 18 of 18 failing steps",
        "or equivalently: ",
        "fails: call-00 step 2 (passes: step 1)",
        "not explained: 0 of 18 failing steps",
    ] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
}

#[test]
fn runs_without_the_fault_have_none() {
    for name in ["clean.mcap", "defaults.mcap"] {
        let found = found(0, &[&incident(name)]);
        assert!(found["ranked"].as_array().unwrap().is_empty() && found["passing"].as_u64().unwrap() > 50, "{found:#}");
    }
    // With a run that fails, they are its passing steps.
    let found = found(1, &[&incident("clean.mcap"), &incident("faulty.mcap")]);
    assert_eq!(first(&found).0, "prev_accepted > q_len", "{found:#}");
    assert_eq!(found["ranked"][0]["examples"][0]["capture"], 1);
}

/// All 72 requests, recorded with the settings of `demo`.
#[test]
fn the_whole_incident_has_its_condition() {
    let folder = tempfile::tempdir().unwrap();
    let model = incident("target.gguf");
    let record = |name: &str, drafts: &str, scheduling: &str, has_fault: bool| {
        let capture = folder.path().join(format!("{name}.mcap")).display().to_string();
        let (draft, requests) = (incident("draft.gguf"), incident("requests.jsonl"));
        let mut arguments =
            vec!["record", "--model", &model, "--draft-model", &draft, "--requests", &requests, "--out", &capture];
        arguments.extend([
            "--drafter",
            "model",
            "--drafts",
            drafts,
            "--scheduling",
            scheduling,
            "--tool-format",
            "tagged",
        ]);
        if has_fault {
            arguments.extend(["--inject", "state-bound-by-query"]);
        }
        let run = stepscope(&arguments);
        assert_eq!(run.status, 0, "{}", run.stderr);
        capture
    };
    let faulty = record("faulty", "15", "sync", true);
    for (capture, failing) in [(&faulty, [53, 53, 0, 143]), (&record("sync7", "7", "sync", true), [36, 36, 0, 302])] {
        let found = found(1, &[capture]);
        assert_eq!(first(&found), ("prev_accepted > q_len", failing), "{found:#}");
        assert!(found["control"]["reporting"].as_u64().unwrap() <= 10, "{found:#}");
    }
    let clean = record("clean", "15", "sync", false);
    let untouched = [record("defaults", "7", "async", true), record("async15", "15", "async", true)];
    for capture in [&clean].into_iter().chain(&untouched) {
        assert!(found(0, &[capture])["ranked"].as_array().unwrap().is_empty(), "{capture}");
    }
    let broken = |more: &[&str]| {
        let label = [&*faulty, "--label", "broken-call", "--model", &model, "--json"];
        let broken: Value = serde_json::from_str(&correlate(&[&label, more].concat()).stdout).unwrap();
        assert_eq!((&broken["unit"], &broken["answers"]), (&"answer".into(), &72.into()));
        [&broken["failing"], &broken["passing"]].map(|count| count.as_u64().unwrap())
    };
    // Every call has its form; which ones are others than were meant is not in a capture.
    assert_eq!(broken(&[]), [0, 72]);
    assert_eq!(broken(&["--expected", &clean]), [37, 35]);
    let missed = correlate(&[&faulty, "--label", "missed-close", "--model", &model, "--json"]);
    let missed: Value = serde_json::from_str(&missed.stdout).unwrap();
    assert!(missed["passing"].as_u64().unwrap() > 50, "closing tags are drafted and taken: {missed:#}");
}

#[test]
fn labels_can_be_expressions_and_findings() {
    let faulty = incident("faulty.mcap");
    let by_name = found(1, &[&faulty, "--label", "forced-misrank"]);
    // Without the end token, which the model's header names, these are the same steps.
    let expression = "forced_rank > 0 and forced_token != 1";
    let by_expression = found(1, &[&faulty, "--label", expression, "--permutations", "0"]);
    assert_eq!(first(&by_expression).0, "prev_accepted > q_len", "{by_expression:#}");
    assert_eq!(by_expression["label"], expression);
    assert!(by_expression["failing"].as_u64().unwrap() >= by_name["failing"].as_u64().unwrap());
    assert_eq!(by_expression["control"]["permutations"], 0);

    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("r.json");
    let replay = stepscope(&[
        "replay",
        &faulty,
        "--model",
        &incident("target.gguf"),
        "--check",
        "forward",
        "--isa",
        "auto",
        "--json",
    ]);
    assert_eq!(replay.status, 1, "{}", replay.stderr);
    std::fs::write(&report, &replay.stdout).unwrap();
    let report = report.to_str().unwrap();
    let by_finding = found(1, &[&faulty, "--label", "finding:forward", "--replay", report]);
    let (predicate, counts) = first(&by_finding);
    assert_eq!(predicate, "prev_accepted > q_len", "{by_finding:#}");
    assert_eq!((counts[0], counts[2]), (counts[1], 0), "{by_finding:#}");
    // Run again here, the same steps fail; of the others, those that cannot be told.
    let by_divergence = found(1, &[&faulty, "--label", "diverged", "--model", &incident("target.gguf")]);
    assert_eq!(first(&by_divergence), first(&by_finding));
    assert_eq!(by_divergence["unknown"], 0);
    let clean = found(0, &[&incident("clean.mcap"), "--label", "diverged", "--model", &incident("target.gguf")]);
    assert_eq!((&clean["failing"], &clean["unknown"]), (&0.into(), &0.into()));
    assert!(clean["passing"].as_u64().unwrap() > 50, "{clean:#}");
    // What was not replayed is not labelled.
    let other = correlate(&[&faulty, "--label", "finding:masks", "--replay", report]);
    assert!(other.status == 2 && other.stderr.contains("did not run the check `masks`"), "{}", other.stderr);
    let other = correlate(&[&incident("clean.mcap"), "--label", "finding", "--replay", report]);
    assert!(other.status == 2 && other.stderr.contains("captures must be named as they were"), "{}", other.stderr);
}

#[test]
fn what_cannot_be_run_says_why() {
    let faulty = incident("faulty.mcap");
    for (arguments, words) in [
        (vec!["--label", "diverged"], "give it with --model"),
        (vec!["--label", "missed-close"], "give it with --model"),
        (vec!["--label", "broken-call"], "give it with --model"),
        (vec!["--label", "finding"], "replay the captures first"),
        (vec!["--label", "finding:nothing"], "unknown check `nothing`"),
        (vec!["--label", "q_len >> 2"], "at character 7: `>>` is no comparison"),
        (vec!["--label", "prev_acepted > q_len"], "did you mean `prev_accepted`?"),
        (vec!["--label", "invalid-row", "--with-end-tokens"], "it is for the label forced-misrank"),
    ] {
        let run = correlate(&[&[faulty.as_str()], arguments.as_slice()].concat());
        assert!(run.status == 2 && run.stderr.contains(words), "{arguments:?}: {} {}", run.status, run.stderr);
        assert_eq!(run.stdout, "");
    }
    // A check that compared nothing passes no step: whose rules these are is not known here.
    let folder = tempfile::tempdir().unwrap();
    let (report, foreign) =
        (folder.path().join("r.json"), format!("{}/captures/vllm/sync-ngram.mcap", env!("CARGO_MANIFEST_DIR")));
    std::fs::write(&report, stepscope(&["replay", &foreign, "--check", "params", "--json"]).stdout).unwrap();
    let nothing = correlate(&[&foreign, "--label", "finding:params", "--replay", report.to_str().unwrap()]);
    assert!(nothing.status == 2 && nothing.stderr.contains("`params` compared nothing"), "{}", nothing.stderr);
    // Nothing failed, and nothing is missing; nothing could be judged.
    let clean = correlate(&[&incident("clean.mcap"), "--label", "invalid-row"]);
    assert!(clean.status == 0 && clean.stdout.contains("no step fails"), "{}", clean.stdout);
    let tour = format!("{}/captures/defaults/defaults.mcap", env!("CARGO_MANIFEST_DIR"));
    let nothing = correlate(&[&tour]);
    assert!(nothing.status == 3 && nothing.stdout.contains("no step could be judged"), "{}", nothing.stdout);
}

#[test]
fn the_same_capture_gives_the_same_answer() {
    let run = || correlate(&[&incident("faulty.mcap"), "--json", "--seed", "7"]).stdout;
    assert_eq!(run(), run());
}

/// Runs over captures that the generator makes, `count` of them; returns those that `is_right` does not hold of.
fn generated(count: u64, planted: bool, is_right: impl Fn(&Value, Option<&str>) -> bool) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let capture: PathBuf = folder.path().join("generated.mcap");
    let mut wrong = Vec::new();
    for seed in 0..count {
        let condition = generated::write(&capture, seed * 2 + u64::from(planted), planted);
        let run = correlate(&[path(&capture), "--json", "--permutations", "0"]);
        assert!([0, 1].contains(&run.status), "seed {seed}: {}", run.stderr);
        let found: Value = serde_json::from_str(&run.stdout).unwrap();
        if !is_right(&found, condition.as_deref()) {
            let ranked = |place: usize| {
                let ranked = &found["ranked"][place];
                format!("{} {} {}", ranked["predicate"], ranked["true"], ranked["false"])
            };
            let condition = condition.unwrap_or_default();
            wrong.push(format!("{seed}: {condition}: {}; {}; failing {}", ranked(0), ranked(1), found["failing"]));
        }
    }
    wrong
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn planted_conditions_come_first() {
    let is_first = |found: &Value, condition: Option<&str>| {
        let first = &found["ranked"][0];
        let equivalents = first["equivalents"].as_array().into_iter().flatten();
        // Equality has no order.
        let turned = condition
            .and_then(|condition| condition.split_once(" == "))
            .map(|(left, right)| format!("{right} == {left}"));
        let is_it = |predicate: &Value| predicate.as_str() == condition || predicate.as_str() == turned.as_deref();
        equivalents.chain([&first["predicate"]]).any(is_it)
    };
    let wrong = generated(100, true, is_first);
    println!("{} of 100 first; not:\n{}", 100 - wrong.len(), wrong.join("\n"));
    assert!(wrong.len() <= 5, "{} of 100:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn where_no_condition_is_planted_none_is_found() {
    let wrong = generated(100, false, |found, _| found["ranked"].as_array().unwrap().is_empty());
    println!("{} of 100 report something:\n{}", wrong.len(), wrong.join("\n"));
    assert!(wrong.len() <= 5, "{} of 100:\n{}", wrong.len(), wrong.join("\n"));
}
