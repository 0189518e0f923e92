//! Planted faults: each changes an answer and is caught by the check that should catch it.

#[path = "support/bench.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod bench;
#[path = "support/command.rs"]
mod command;

use bench::{Bench, line};
use command::stepscope;
use serde_json::{Value, json};
use stepscope::capture::{CaptureReader, Record};
use stepscope::model::synthetic::SyntheticModel;

fn run(arguments: &[&str]) -> command::Run {
    stepscope(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
}

#[test]
fn every_fault_is_caught_and_clean_runs_are_clean() {
    let run = run(&["faults", "--teeth", "--json"]);
    let table: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    let faults = table["faults"].as_array().unwrap();
    let count = |fault: &Value, of: &str| fault[of].as_u64().unwrap();
    let missed: Vec<&Value> =
        faults.iter().filter(|fault| fault["is_caught"] != true || count(fault, "caught_in") == 0).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    let astray: Vec<&Value> = faults.iter().filter(|fault| count(fault, "findings_elsewhere") > 0).collect();
    assert!(astray.is_empty(), "findings that the fault does not explain: {astray:#?}");
    assert_eq!(table["clean"]["findings"], 0);
    assert_eq!((&table["clean"]["conditions"], &table["clean"]["operations"]), (&json!([]), &json!([])));
    for fault in faults {
        let (condition, expected) = (&fault["condition"], &fault["condition_expected"]);
        let same = fault["condition_equivalents"].as_array().is_some_and(|equivalents| equivalents.contains(expected));
        assert!(condition == expected || same, "correlate: {fault:#}");
        assert_eq!(fault["operation"], fault["operation_expected"], "localize: {fault:#}");
        assert_eq!(fault["is_explained"], true, "{fault:#}");
    }
    assert!(table["clean"]["step_records"].as_u64() >= Some(5_000), "{}", table["clean"]);
    assert!(table["clean"]["rows"].as_u64() >= Some(16_828), "{}", table["clean"]);
    assert_eq!(run.status, 0);
    let names: Vec<&str> = faults.iter().map(|fault| fault["fault"].as_str().unwrap()).collect();
    let listed = listed();
    assert_eq!(names, listed.iter().map(|fault| fault["name"].as_str().unwrap()).collect::<Vec<_>>());
    assert_eq!(committed_faults(), names, "{AGAIN}");
}

const AGAIN: &str = "make docs/teeth.md again: `stepscope faults --teeth > docs/teeth.md`";

/// The faults of the committed table, which is of these faults, and in which each is caught and explains every finding.
fn committed_faults() -> Vec<&'static str> {
    let committed = include_str!("../docs/teeth.md");
    let rows: Vec<Vec<&str>> =
        committed.lines().filter(|line| line.starts_with("| `")).map(|line| line.split(" | ").collect()).collect();
    for row in &rows {
        let number = |column: usize| row[column].parse::<u64>().unwrap_or_else(|error| panic!("{row:?}: {error}"));
        assert!(number(3) > 0 && number(5) > 0 && number(6) == 0, "{row:?}");
        let findings: Vec<&str> = row[7].split(", ").collect();
        assert!(findings.iter().any(|finding| finding.starts_with(row[4])), "{row:?}");
    }
    let count = rows.len();
    let header = format!("{count} of {count} planted faults change an answer and are caught where they do");
    assert!(committed.contains(&header) && committed.contains("have 0 findings"), "{AGAIN}");
    rows.iter().map(|row| row[0].trim_matches(['|', ' ', '`'])).collect()
}

#[test]
fn the_committed_table_is_of_these_faults() {
    let listed = listed();
    let names: Vec<&str> = listed.iter().map(|fault| fault["name"].as_str().unwrap()).collect();
    assert_eq!(committed_faults(), names, "{AGAIN}");
    let committed = include_str!("../docs/teeth.md").lines().filter(|line| line.starts_with("| `"));
    for (row, fault) in committed.zip(&listed) {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        match fault["condition"].as_str() {
            Some(condition) => assert!(cells[8].contains(&format!("`{condition}`: ")), "{row} {AGAIN}"),
            None => assert!(cells[8] == "-" || cells[8].starts_with("none, by `"), "{row} {AGAIN}"),
        }
        let operation = fault["operation"].as_array();
        let told = operation.map(|told| format!("{}: {}", told[0].as_str().unwrap(), told[1].as_str().unwrap()));
        assert!(cells[9].ends_with(&told.unwrap_or("none".to_owned())), "{row} {AGAIN}");
    }
}

fn listed() -> Vec<Value> {
    let run = run(&["faults", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn every_fault_is_described_in_one_line() {
    let run = run(&["faults"]);
    assert_eq!(run.status, 0);
    let listed = listed();
    assert_eq!(run.stdout.lines().count(), listed.len());
    for fault in listed {
        assert!(fault["description"].as_str().unwrap().contains('('), "{fault} says whose bug has its shape");
    }
}

fn requests() -> String {
    line("a", "/v1/completions", json!({"prompt": "one two", "seed": 1, "max_tokens": 20, "logit_bias": {"40": 4}}))
}

/// The fault is announced, and stands in the header and nowhere else.
#[test]
fn a_planted_fault_is_told_and_recorded() {
    let bench = Bench::new(&SyntheticModel::llama(1), &requests());
    let run = bench.record(&["--drafter", "ngram", "--inject", "seed-ignored"]);
    assert_eq!(run.run.status, 0, "{}", run.run.stderr);
    assert!(run.run.stderr.contains("planted fault seed-ignored: "), "{}", run.run.stderr);
    let reader = CaptureReader::open(&run.capture).unwrap();
    assert_eq!(reader.header().faults, ["seed-ignored"]);
    let elsewhere = reader.messages().map(|message| message.unwrap().record).filter(|record| {
        let mut record = record.clone();
        if let Record::Header(header) = &mut record {
            header.faults.clear();
        }
        format!("{record:?}").contains("seed-ignored")
    });
    assert_eq!(elsewhere.count(), 0);
}

#[test]
fn a_fault_that_does_not_exist_is_refused_with_the_nearest_name() {
    let bench = Bench::new(&SyntheticModel::llama(1), &requests());
    let run = bench.record(&["--inject", "seed-ignore"]);
    assert_eq!(run.run.status, 2);
    assert!(run.run.stderr.contains("seed-ignored"), "{}", run.run.stderr);
    assert!(!run.capture.exists());
}

/// No request can plant one.
#[test]
fn a_request_cannot_plant_a_fault() {
    for name in ["inject", "fault", "faults"] {
        let body = json!({"prompt": "one", "max_tokens": 2, name: "seed-ignored"});
        let bench = Bench::new(&SyntheticModel::llama(1), &line("a", "/v1/completions", body));
        let run = bench.record(&[]);
        assert_eq!(run.run.status, 1, "{}", run.outputs);
        assert!(run.outputs.contains("is not a known field"), "{}", run.outputs);
    }
}
