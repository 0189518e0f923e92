//! Speculation, as a user runs it: it changes how fast answers come, and not what they say.

#[path = "support/bench.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod bench;
#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::Path;

use bench::{Bench, Recorded, constrained_requests, isas, varied_requests};
use command::stepscope;
use serde_json::{Value, json};
use stepscope::capture::CaptureReader;
use stepscope::capture::records::{StepRecord, VerdictReason, WithheldReason};
use stepscope::model::synthetic::{SyntheticModel, VOCABULARY_SIZE};
use stepscope::model::write_first_blocks;

const DRAFTERS: [&str; 6] = ["none", "ngram", "model", "grammar", "scripted", "random"];

/// A bench with a draft model and a script of the answers, in which every seventh token is wrong.
fn speculating(model: &SyntheticModel) -> (Bench, Recorded) {
    // The first round of each, and what has a form: the second round is for prefix caches. Short, since so many runs of it
    // are to come.
    let varied = varied_requests();
    let first_round = varied.lines().filter(|line| line.contains("-a\","));
    let constrained = constrained_requests();
    let requests: String = first_round.chain(constrained.lines()).map(shortened).collect();
    let bench = Bench::new(model, &requests);
    write_first_blocks(&bench.path("model.gguf"), 2, &bench.path("draft.gguf")).unwrap();
    let plain = bench.record(&["--tier", "off", "--isa", "scalar", "--max-batch", "1", "--threads", "1"]);
    assert_eq!(plain.run.status, 0, "{}", plain.run.stderr);
    assert!(plain.lines().iter().all(|line| line["response"]["status_code"] == 200), "{}", plain.outputs);
    fs::write(bench.path("script.jsonl"), script(&plain.capture)).unwrap();
    (bench, plain)
}

/// A line with an answer of at most 18 tokens.
fn shortened(line: &str) -> String {
    let mut line: Value = serde_json::from_str(line).unwrap();
    let most = line["body"]["max_tokens"].as_u64().unwrap().min(18);
    line["body"]["max_tokens"] = most.into();
    format!("{line}\n")
}

fn script(capture: &Path) -> String {
    let reader = CaptureReader::open(capture).unwrap();
    let mut lines = String::new();
    for sequence in reader.sequences() {
        let request = reader.request(sequence.request).unwrap();
        let emitted = reader.steps(sequence).flat_map(|step| step.unwrap().emitted);
        let tokens: Vec<u32> = (0..)
            .zip(emitted)
            .map(|(index, token)| (token + u32::from(index % 7 == 6)) % VOCABULARY_SIZE as u32)
            .collect();
        let client_id = request.admission.unwrap().client_id;
        lines += &json!({ "custom_id": client_id, "choice": sequence.choice.0, "tokens": tokens }).to_string();
        lines += "\n";
    }
    lines
}

/// The flags of a drafter with the files that it reads.
fn drafter(bench: &Bench, name: &str) -> Vec<String> {
    let mut flags = vec!["--drafter".to_owned(), name.to_owned()];
    let mut file = |flag: &str, file: &str| flags.extend([flag.to_owned(), bench.path(file).display().to_string()]);
    match name {
        "model" => file("--draft-model", "draft.gguf"),
        "scripted" => file("--draft-script", "script.jsonl"),
        _ => {}
    }
    flags
}

fn record(bench: &Bench, name: &str, way: &[&str]) -> Recorded {
    let flags = drafter(bench, name);
    bench.record(&flags.iter().map(String::as_str).chain(way.iter().copied()).collect::<Vec<_>>())
}

fn steps(recorded: &Recorded) -> Vec<StepRecord> {
    let reader = CaptureReader::open(&recorded.capture).unwrap();
    reader.sequences().flat_map(|sequence| reader.steps(sequence)).map(Result::unwrap).collect()
}

fn replay(recorded: &Recorded, bench: &Bench, name: &str) -> Value {
    let mut arguments = vec!["replay".to_owned(), recorded.capture.display().to_string(), "--json".to_owned()];
    arguments.extend(["--model".to_owned(), bench.path("model.gguf").display().to_string()]);
    if name == "model" {
        arguments.extend(["--draft-model".to_owned(), bench.path("draft.gguf").display().to_string()]);
    }
    let run = stepscope(&arguments);
    assert_eq!(run.status, 0, "{}\n{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Every drafter, draft length, scheduling, batch, thread count and instruction set gives the bytes of plain decoding,
/// greedy and seeded.
fn outputs_are_those_of_plain_decoding(model: &SyntheticModel) {
    let (bench, plain) = speculating(model);
    // Each drafter with an accepted length that one of its runs must go beyond, so that drafts are known to have counted.
    for (name, least) in [("ngram", 1), ("model", 1), ("grammar", 1), ("scripted", 6), ("random", 0)] {
        let mut longest = 0;
        for drafts in ["1", "4", "15"] {
            for scheduling in ["sync", "async"] {
                for max_batch in ["1", "8"] {
                    for threads in ["1", "2"] {
                        for isa in isas() {
                            let way = [
                                "--drafts",
                                drafts,
                                "--scheduling",
                                scheduling,
                                "--max-batch",
                                max_batch,
                                "--threads",
                                threads,
                                "--isa",
                                isa,
                                "--tier",
                                "off",
                            ];
                            let run = record(&bench, name, &way);
                            assert_eq!(run.run.status, 0, "{}", run.run.stderr);
                            assert_eq!(run.outputs, plain.outputs, "{name} {way:?}");
                            longest = longest.max(steps(&run).iter().map(|step| step.emitted.len()).max().unwrap_or(0));
                            fs::remove_file(&run.capture).unwrap();
                        }
                    }
                }
            }
        }
        assert!(longest > least, "{name}: {longest}");
    }
}

#[test]
fn outputs_are_those_of_plain_decoding_for_llama() {
    outputs_are_those_of_plain_decoding(&SyntheticModel::llama(1));
}

#[test]
fn outputs_are_those_of_plain_decoding_for_lfm2() {
    outputs_are_those_of_plain_decoding(&SyntheticModel::lfm2(2));
}

/// Every decision is replayed: all drafters, both schedulings, both rules.
#[test]
fn replay_finds_nothing() {
    for model in [SyntheticModel::llama(1), SyntheticModel::lfm2(2)] {
        let (bench, _) = speculating(&model);
        for name in DRAFTERS {
            for (scheduling, rule, drafts) in [("sync", "coupled", "4"), ("async", "rejection", "6")] {
                let way = ["--drafts", drafts, "--scheduling", scheduling, "--verify-rule", rule];
                // Without a drafter the flags are refused: a file can say the same.
                let config = bench.path("way.toml");
                let keys = format!("drafts = {drafts}\nscheduling = '{scheduling}'\nverify-rule = '{rule}'\n");
                fs::write(&config, keys).unwrap();
                let config = config.display().to_string();
                let from_file = ["--config", &config];
                let run = record(&bench, name, if name == "none" { &from_file } else { &way });
                assert_eq!(run.run.status, 0, "{}", run.run.stderr);
                let report = replay(&run, &bench, name);
                for check in
                    ["drafts", "masks", "applied-mask", "accept", "sampler", "forward", "commit", "termination"]
                {
                    let tally = &report["checks"][check];
                    assert_eq!(tally["findings"], 0, "{name} {way:?} {check}: {report}");
                    let nothing_to_do = check == "accept" && name == "none";
                    assert!(nothing_to_do || tally["checked"].as_u64() > Some(0), "{name} {way:?} {check}: {tally}");
                }
            }
        }
    }
}

/// Under `rejection` the text depends on where drafts stood, and on nothing else.
#[test]
fn rejection_does_not_depend_on_batch_threads_or_instruction_set() {
    let (bench, _) = speculating(&SyntheticModel::lfm2(2));
    for name in ["ngram", "model", "random"] {
        let run = |max_batch, threads, isa| {
            let way = [
                "--drafts",
                "5",
                "--verify-rule",
                "rejection",
                "--max-batch",
                max_batch,
                "--threads",
                threads,
                "--isa",
                isa,
            ];
            let run = record(&bench, name, &way);
            assert_eq!(run.run.status, 0, "{}", run.run.stderr);
            let verdicts = steps(&run).into_iter().flat_map(|step| step.verdicts.unwrap_or_default());
            assert!(
                verdicts.filter(|verdict| verdict.reason == VerdictReason::Ratio).count() > 0,
                "chance tests drafts"
            );
            run.outputs
        };
        let first = run("1", "1", "scalar");
        for isa in isas() {
            assert_eq!(run("3", "2", isa), first, "{name} {isa}");
            assert_eq!(run("8", "1", isa), first, "{name} {isa}");
        }
    }
}

/// What the records say of drafts: trimmed ones in sync, padded ones in async, each with its reason, and queries that are
/// shorter than what the step before accepted.
#[test]
fn the_capture_says_what_became_of_every_draft() {
    let (bench, _) = speculating(&SyntheticModel::lfm2(2));
    let run = record(&bench, "ngram", &["--drafts", "6", "--scheduling", "async"]);
    let padded = steps(&run);
    let reasons = |steps: &[StepRecord], reason| {
        steps
            .iter()
            .flat_map(|step| step.withheld.iter().flatten())
            .filter(|withheld| withheld.reason == reason)
            .count()
    };
    assert!(reasons(&padded, WithheldReason::Missing) > 0 && padded.iter().any(|step| step.drafts.contains(&-1)));
    let run = record(&bench, "scripted", &["--drafts", "15", "--scheduling", "sync"]);
    let trimmed = steps(&run);
    assert!(reasons(&trimmed, WithheldReason::Limit) > 0 && !trimmed.iter().any(|step| step.drafts.contains(&-1)));
    assert!(trimmed.iter().any(|step| step.prev_accepted > step.q_len && step.prev_accepted.is_some()));
    assert!(trimmed.iter().any(|step| step.bonus == Some(true)));
}

#[test]
fn flags_that_do_not_fit_together_are_refused() {
    let (bench, _) = speculating(&SyntheticModel::llama(1));
    let path = |name: &str| bench.path(name).display().to_string();
    let other = SyntheticModel { context_length: 64, ..SyntheticModel::llama(3) };
    other.write_gguf(&bench.path("short.gguf")).unwrap();
    let cases = [
        (vec!["--drafter".to_owned(), "model".to_owned()], "--draft-model is missing"),
        (vec!["--drafter".to_owned(), "scripted".to_owned()], "--draft-script is missing"),
        (vec!["--draft-model".to_owned(), path("draft.gguf")], "the drafter does not read it"),
        (vec!["--drafts".to_owned(), "65".to_owned()], "1 to 64"),
        (vec!["--drafts".to_owned(), "4".to_owned()], "--drafts is given, and there is no drafter"),
        (vec!["--scheduling".to_owned(), "sync".to_owned()], "--scheduling is given, and there is no drafter"),
        (vec!["--verify-rule".to_owned(), "coupled".to_owned()], "--verify-rule is given, and there is no drafter"),
        (vec!["--top-k-rows".to_owned(), "4".to_owned()], "--top-k-rows is given, and the tier keeps no such rows"),
        (
            vec!["--drafter".to_owned(), "model".to_owned(), "--draft-model".to_owned(), path("short.gguf")],
            "context holds 64 tokens",
        ),
    ];
    // What the file has for another drafter is no mistake.
    let config = bench.path("config.toml");
    fs::write(&config, format!("drafter = 'model'\ndraft-model = {:?}\n", path("draft.gguf"))).unwrap();
    let run = bench.record(&["--config", &config.display().to_string(), "--drafter", "ngram"]);
    assert_eq!(run.run.status, 0, "{}", run.run.stderr);
    for (flags, message) in cases {
        let run = bench.record(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(run.run.status, 2, "{flags:?}");
        assert!(run.run.stderr.contains(message), "{flags:?}: {}", run.run.stderr);
        assert!(!run.capture.exists());
    }
}

/// The draft model's cache is within the bytes that are set aside unasked, as the model's is.
#[test]
fn a_draft_model_that_needs_too_much_room_is_refused() {
    let model = SyntheticModel { context_length: 4096, ..SyntheticModel::llama(1) };
    let bench = Bench::new(&model, &constrained_requests());
    let draft_model = bench.path("model.gguf").display().to_string();
    let flags = ["--drafter", "model", "--draft-model", &draft_model, "--max-batch", "1024", "--kv-pages", "128"];
    let run = bench.record(&flags);
    assert_eq!(run.run.status, 2, "{}", run.run.stderr);
    let message =
        "2048 MiB at most; found: 3096 MiB, for 1024 sequences of 4096 tokens and 4 drafts; give --kv-pages 132096";
    assert!(run.run.stderr.contains(message), "{}", run.run.stderr);
    assert!(!run.capture.exists());
}
