//! `stepscope what-if` changes one thing from a step on, parts there or later, and claims nothing of a recording that does not come out again.

#[path = "support/bench.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod bench;
#[path = "support/command.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod command;

use std::path::{Path, PathBuf};

use bench::{Bench, line};
use command::{Run, stepscope};
use serde_json::{Value, json};
use stepscope::capture::CaptureReader;
use stepscope::capture::records::StepRecord;
use stepscope::incident::FAULT;
use stepscope::model::synthetic::SyntheticModel;

/// A capture, and what belongs to it.
struct Recorded {
    capture: PathBuf,
    models: Vec<String>,
    /// The folder that it lies in.
    _bench: Option<Bench>,
}

impl Recorded {
    fn of(bench: Bench, arguments: &[&str]) -> Self {
        let recorded = bench.record(arguments);
        assert_eq!(recorded.run.status, 0, "{}", recorded.run.stderr);
        let model = bench.path("model.gguf").display().to_string();
        Self { capture: recorded.capture, models: vec!["--model".to_owned(), model], _bench: Some(bench) }
    }

    fn incident(name: &str) -> Self {
        let path = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("captures/incident").join(name);
        let text = |name: &str| path(name).display().to_string();
        let models = [("--model", "target.gguf"), ("--draft-model", "draft.gguf")];
        let models = models.into_iter().flat_map(|(flag, file)| [flag.to_owned(), text(file)]).collect();
        Self { capture: path(name), models, _bench: None }
    }

    fn run(&self, request: &str, step: u64, more: &[&str]) -> Run {
        let mut all = vec!["what-if".to_owned(), self.capture.display().to_string()];
        all.extend(["--request".to_owned(), request.to_owned(), "--step".to_owned(), step.to_string()]);
        all.extend(self.models.iter().cloned().chain(more.iter().map(|&argument| argument.to_owned())));
        stepscope(&all)
    }

    /// The JSON of a run that has to end with that status.
    fn found(&self, status: i32, request: &str, step: u64, more: &[&str]) -> Value {
        let run = self.run(request, step, &[more, &["--json"]].concat());
        assert_eq!(run.status, status, "{request} {step} {more:?}: {}{}", run.stdout, run.stderr);
        serde_json::from_str(&run.stdout).unwrap()
    }

    /// The recorded steps of a request's first choice.
    fn steps(&self, id: &str) -> Vec<StepRecord> {
        let reader = CaptureReader::open(&self.capture).unwrap();
        let is_it = |request: &_| {
            let admission = reader.request(*request).unwrap().admission;
            admission.is_some_and(|admission| admission.client_id.as_deref() == Some(id))
        };
        let request = reader.requests().find(is_it).unwrap();
        let sequence = reader.sequences().find(|sequence| sequence.request == request).unwrap();
        reader.steps(sequence).map(Result::unwrap).collect()
    }
}

fn tokens(steps: &[StepRecord]) -> Vec<u32> {
    steps.iter().flat_map(|step| &step.emitted).copied().collect()
}

fn requests() -> String {
    let text = |name: &str, mut body: Value| {
        body["prompt"] = json!(format!("one two {name}"));
        line(name, "/v1/completions", body)
    };
    [
        text("greedy", json!({"temperature": 0, "max_tokens": 30, "ignore_eos": true})),
        text("drawn", json!({"temperature": 0.9, "seed": 7, "top_p": 0.95, "max_tokens": 30, "ignore_eos": true})),
        text("unseeded", json!({"temperature": 1, "max_tokens": 20, "ignore_eos": true})),
        text("two", json!({"temperature": 1, "seed": 3, "n": 2, "max_tokens": 20, "ignore_eos": true})),
        text("pattern", json!({"temperature": 0, "max_tokens": 40, "structured_outputs": {"regex": "(ab|cd|ef){12}"}})),
    ]
    .concat()
}

fn bench() -> Bench {
    Bench::new(&SyntheticModel::lfm2(5), &requests())
}

/// Every change of a request that changes nothing: greedy is what it was, and drafts decide nothing but how fast it goes.
#[test]
fn what_decides_nothing_changes_nothing() {
    let recorded = Recorded::of(bench(), &["--drafter", "random", "--drafts", "5"]);
    let mut has_saved = false;
    for id in ["greedy", "drawn", "unseeded", "pattern"] {
        let steps = recorded.steps(id);
        let step = steps[steps.len() / 2].step;
        for sets in [&["--set", "drafter=none"][..], &["--set", "drafts=2", "--set", "scheduling=async"]] {
            let found = recorded.found(0, id, step, sets);
            assert_eq!(
                (&found["reproduced"], &found["changes"], &found["parts"]),
                (&json!(true), &json!(false), &Value::Null)
            );
            assert_eq!(found["changed"]["tokens"], json!(tokens(&steps)), "{id}");
            assert_eq!(found["control"]["steps"], steps.len(), "{id}");
        }
        // What goes on without drafts takes longer, where any was accepted.
        let found = recorded.found(0, id, steps[1].step, &["--set", "drafter=none"]);
        let saved: usize = steps[1..].iter().map(|step| step.emitted.len().saturating_sub(1)).sum();
        assert_eq!(found["changed"]["steps"], steps.len() + saved, "{id}: {found:#}");
        has_saved |= saved > 0;
    }
    assert!(has_saved, "drafts were accepted");
    let middle = recorded.steps("greedy")[3].step;
    for set in ["temperature=0", "seed=12345", "top_k=1"] {
        assert_eq!(recorded.found(0, "greedy", middle, &["--set", set])["differ"], 0);
    }
}

#[test]
fn another_seed_parts_at_the_step_or_later_and_never_before() {
    let recorded = Recorded::of(bench(), &["--drafter", "random", "--drafts", "3"]);
    let steps = recorded.steps("drawn");
    let all = tokens(&steps);
    for (index, step) in steps.iter().enumerate() {
        let before = tokens(&steps[..index]).len();
        let run = recorded.run("drawn", step.step, &["--set", "seed=8", "--json"]);
        let found: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
        assert_eq!(found["emitted"], before);
        let changed: Vec<u32> = serde_json::from_value(found["changed"]["tokens"].clone()).unwrap();
        assert_eq!(changed[..before], all[..before]);
        let same = all.iter().zip(&changed).take_while(|(a, b)| a == b).count();
        let differ = all.iter().zip(&changed).filter(|(a, b)| a != b).count();
        assert_eq!((run.status, &found["differ"]), (i32::from(differ > 0), &json!(differ)));
        if differ > 0 {
            assert_eq!(found["parts"]["index"], same);
            let emits = (1..=steps.len()).find(|count| tokens(&steps[..*count]).len() > same).unwrap();
            assert_eq!(found["parts"]["step"], steps[emits - 1].step);
            assert_eq!(found["parts"]["sides"][0]["step"], found["parts"]["step"]);
            assert_eq!(found["parts"]["sides"][1]["token"], changed[same]);
        }
    }
}

#[test]
fn a_forced_token_comes_first_in_its_step() {
    let recorded = Recorded::of(bench(), &["--drafter", "random", "--drafts", "3"]);
    let steps = recorded.steps("greedy");
    let index = steps.len() / 2;
    let (step, before) = (&steps[index], tokens(&steps[..index]).len());
    let other = (step.emitted[0] + 1) % 64;
    let found = recorded.found(1, "greedy", step.step, &["--set", &format!("token={other}")]);
    let parts = &found["parts"];
    assert_eq!(
        (&parts["kind"], &parts["index"], &parts["step"]),
        (&json!("tokens"), &json!(before), &json!(step.step))
    );
    assert_eq!((&parts["sides"][0]["token"], &parts["sides"][1]["token"]), (&json!(step.emitted[0]), &json!(other)));
    assert!(parts["sides"][1]["rank"].as_u64() > Some(0), "{parts:#}");
    let same = recorded.found(0, "greedy", step.step, &["--set", &format!("token={}", step.emitted[0])]);
    assert_eq!(same["differ"], 0);
}

#[test]
fn ends_and_grammars_change_from_the_step_on() {
    let recorded = Recorded::of(bench(), &[]);
    let steps = recorded.steps("greedy");
    let found = recorded.found(1, "greedy", steps[10].step, &["--set", "max_tokens=15"]);
    assert_eq!((&found["changed"]["stop"], &found["differ"]), (&json!("max_tokens"), &json!(15)), "{found:#}");
    let found = recorded.found(1, "greedy", steps[0].step, &["--set", "max_tokens=35"]);
    assert_eq!(found["changed"]["tokens"].as_array().unwrap().len(), 35);
    let steps = recorded.steps("pattern");
    let found = recorded.found(1, "pattern", steps[3].step, &["--set", "grammar=off"]);
    assert!(found["parts"]["index"].as_u64() >= Some(3), "{found:#}");
    assert_eq!(recorded.found(0, "pattern", steps[3].step, &["--set", "grammar=on"])["differ"], 0);
    // Of two choices the second is looked at, and the first goes on beside it.
    let refused = recorded.run("two", 0, &["--choice", "1", "--set", "seed=4"]);
    assert!(refused.status == 2 && refused.stderr.contains("it has steps 1 to"), "it begins a step later");
    let found = recorded.found(1, "two", 1, &["--choice", "1", "--set", "seed=4"]);
    assert_eq!((&found["choice"], &found["emitted"]), (&json!(1), &json!(0)));
}

/// The incident: what the fault does to an answer, told by ending it one step before it acts.
#[test]
fn a_recording_under_a_fault_comes_out_with_the_fault_alone() {
    let (clean, faulty) = (Recorded::incident("clean.mcap"), Recorded::incident("faulty.mcap"));
    let reader = CaptureReader::open(&faulty.capture).unwrap();
    let ids = reader.requests().filter_map(|request| reader.request(request).unwrap().admission?.client_id);
    let acts = |id: &String| faulty.steps(id).into_iter().find(|step| step.prev_accepted > step.q_len);
    let broken = |id: &String| acts(id).is_some() && tokens(&clean.steps(id)) != tokens(&faulty.steps(id));
    let id = ids.into_iter().find(broken).expect("a request that the fault breaks");
    let step = acts(&id).unwrap().step;

    let found = faulty.found(3, &id, step, &["--set", "temperature=0"]);
    assert_eq!(found["reproduced"], false);
    assert!(["tokens", "rows"].contains(&found["parts"]["kind"].as_str().unwrap()), "{found:#}");
    assert!(found.get("changed").is_none(), "nothing is said of a change: {found:#}");

    let with = ["--inject", FAULT.name()];
    let found = faulty.found(1, &id, step, &[&with[..], &["--set", "inject=none"]].concat());
    assert_eq!(found["control"]["tokens"], json!(tokens(&faulty.steps(&id))));
    assert_eq!(found["changed"]["tokens"], json!(tokens(&clean.steps(&id))));
    assert_eq!(found["changed"]["calls"], "whole", "{found:#}");
    let found = faulty.found(0, &id, step, &[&with[..], &["--set", "seed=5"]].concat());
    assert_eq!(found["differ"], 0);

    // The other way round: the clean run, and the fault from that step on.
    let same = clean.steps(&id).iter().take_while(|step| step.prev_accepted <= step.q_len).count();
    let step = clean.steps(&id)[same].step;
    let found = clean.found(1, &id, step, &["--set", &format!("inject={}", FAULT.name())]);
    assert_eq!(found["changed"]["tokens"], json!(tokens(&faulty.steps(&id))));
    let found = clean.found(0, &id, step, &["--set", "drafts=3", "--set", "scheduling=async"]);
    assert_eq!(found["differ"], 0);
}

#[test]
fn what_cannot_be_run_is_refused_with_what_is_expected() {
    let recorded = Recorded::of(bench(), &[]);
    let refused = |request: &str, step: u64, more: &[&str], words: &str| {
        let run = recorded.run(request, step, more);
        assert_eq!(run.status, 2, "{more:?}: {}", run.stdout);
        assert!(run.stderr.contains(words), "{more:?}: {}", run.stderr);
        assert!(run.stdout.is_empty());
    };
    let last = recorded.steps("greedy").last().unwrap().step;
    refused("greedy", 1, &["--set", "temprature=0"], "accepted: temperature, ");
    refused("greedy", 1, &["--set", "temperature=-1"], "0 (greedy)");
    refused("nobody", 1, &["--set", "temperature=0"], "no request has the client id");
    refused("greedy", last + 1, &["--set", "temperature=0"], &format!("it has steps 0 to {last}"));
    refused("greedy", 1, &["--choice", "1", "--set", "temperature=0"], "choice 1: has no steps");
    refused("greedy", 1, &["--set", "drafts=3"], "there is no drafter");
    refused("greedy", 1, &["--set", "inject=none"], "--inject");
    refused("greedy", 1, &["--set", "token=9999999"], "ids below");
    refused("greedy", 3, &["--set", "max_tokens=99"], "up to 30");
    refused("greedy", 1, &[], "--set");
    let incident =
        Recorded { models: Recorded::incident("clean.mcap").models[..2].to_vec(), ..Recorded::incident("clean.mcap") };
    let run = incident.run("call-00", 1, &["--set", "temperature=0"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("--draft-model"), "{}", run.stderr);
}
