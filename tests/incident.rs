//! The incident that ships inside: `stepscope demo` tells it, and nothing of it happens without the fault.

#[path = "support/command.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod command;

use std::fs;
use std::path::Path;
use std::process::Command;

use command::stepscope;
use serde_json::Value;
use stepscope::arith::Isa;
use stepscope::incident::Files;

#[test]
fn the_demo_tells_the_incident() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("demo");
    // What it leaves has to hold from elsewhere, too.
    let run = Command::new(env!("CARGO_BIN_EXE_stepscope"))
        .current_dir(folder.path())
        .args(["demo", "--json", "--out-dir", "demo"])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let story: Value = serde_json::from_slice(&run.stdout).unwrap();
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("a number, not {value}, in {story:#}"));
    assert_eq!(story["requests"], 72);
    assert!(number(&story["broken"]["clean"]) <= 2, "at least 70 of 72 calls are those that were asked for: {story:#}");
    assert!(number(&story["broken"]["faulty"]) >= 15, "{story:#}");
    for untouched in ["defaults", "async15"] {
        assert_eq!((&story["broken"][untouched], &story["findings"][untouched]), (&0.into(), &0.into()), "{story:#}");
        for table in ["tokens", "end_token"] {
            assert_eq!(story["tables"][untouched][table]["true"][1], 0, "no query shrinks: {story:#}");
        }
    }
    assert_eq!(story["findings"]["clean"], 0);
    for shrinking in ["faulty", "sync7"] {
        let checks: Vec<&String> = story["findings_by_check"][shrinking].as_object().unwrap().keys().collect();
        assert_eq!(checks, ["forward"], "{shrinking}: {story:#}");
    }
    // By whether the step before had accepted more than this one verifies, the end token apart.
    let side = |side: &str| (number(&story["table"][side][0]), number(&story["table"][side][1]));
    let (misranked, all) = side("true");
    assert!(all >= 20 && misranked * 2 >= all, "{misranked} of {all}: {story:#}");
    let (misranked, all) = side("false");
    assert!(all >= 100 && misranked * 50 <= all, "{misranked} of {all}: {story:#}");
    let first = &story["correlate"]["first"];
    assert_eq!((&first["predicate"], &first["false"][0]), (&"prev_accepted > q_len".into(), &0.into()), "{story:#}");
    assert_eq!(first["true"][0], first["true"][1], "{story:#}");
    let localized = ["layer", "op", "how"].map(|part| &story["localize"][part]);
    assert_eq!(localized, [&Value::from(0), &"short_convolution".into(), &"zeroed".into()], "{story:#}");
    let minimal = serde_json::json!([
        {"setting": "drafts", "good": 7, "bad": 15},
        {"setting": "scheduling", "good": "async", "bad": "sync"},
    ]);
    assert_eq!(story["bisect"]["minimal"], minimal);

    // What it leaves goes on from there.
    let file = |name: &str| place.join(name).display().to_string();
    let (target, draft) = (file("target.gguf"), file("draft.gguf"));
    let replay = |capture: &str| {
        let check = "masks,drafts,accept,commit";
        stepscope(&["replay", &file(capture), "--model", &target, "--draft-model", &draft, "--check", check]).status
    };
    assert_eq!((replay("clean.mcap"), replay("faulty.mcap")), (0, 0));
    let again = stepscope(&[
        "record",
        "--config",
        &file("faulty.toml"),
        "--model",
        &target,
        "--requests",
        &file("requests.jsonl"),
        "--out",
        &file("again.mcap"),
        "--outputs",
        &file("again.jsonl"),
    ]);
    assert_eq!(again.status, 0, "{}", again.stderr);
    assert_eq!(
        answers(&place.join("again.jsonl")),
        answers(&place.join("faulty.jsonl")),
        "the settings are those of the run"
    );
    let second = stepscope(&["demo", "--out-dir", place.to_str().unwrap()]);
    assert_eq!(second.status, 2, "{}", second.stderr);
    assert!(second.stderr.contains("is not empty"), "{}", second.stderr);
}

/// Without the fault: any number of drafts, either scheduling and every instruction set, against plain decoding.
#[test]
fn drafts_change_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::write(folder.path()).unwrap();
    let path = |path: &Path| path.display().to_string();
    let record = |name: &str, way: &[&str]| {
        let place = |extension: &str| path(&folder.path().join(name).with_extension(extension));
        let (model, requests) = (path(&files.target()), path(&files.requests()));
        let (capture, outputs) = (place("mcap"), place("jsonl"));
        let common = [
            "record",
            "--model",
            &model,
            "--requests",
            &requests,
            "--out",
            &capture,
            "--outputs",
            &outputs,
            "--tool-format",
            "tagged",
            "--tier",
            "off",
        ];
        let run = stepscope(&[&common, way].concat());
        assert_eq!(run.status, 0, "{way:?}: {}", run.stderr);
        answers(Path::new(&outputs))
    };
    let plain = record("plain", &["--isa", "scalar"]);
    let isas: Vec<&str> = Isa::ALL.into_iter().filter(|isa| isa.is_supported()).map(name_of).collect();
    let draft = path(&files.draft());
    for drafts in 1..=15_usize {
        for (number, scheduling) in ["sync", "async"].into_iter().enumerate() {
            let isa = isas[(drafts + number) % isas.len()];
            let (name, drafts) = (format!("{scheduling}-{drafts}"), drafts.to_string());
            let way = [
                "--drafter",
                "model",
                "--draft-model",
                &draft,
                "--drafts",
                &drafts,
                "--scheduling",
                scheduling,
                "--isa",
                isa,
            ];
            assert!(
                record(&name, &way) == plain,
                "{drafts} drafts, {scheduling}, {isa}: other answers than plain decoding's"
            );
        }
    }
}

fn name_of(isa: Isa) -> &'static str {
    match isa {
        Isa::Scalar => "scalar",
        Isa::Avx2 => "avx2",
        Isa::Avx512 => "avx512",
    }
}

/// An output file, of which nothing depends on the run.
fn answers(outputs: &Path) -> String {
    let text = fs::read_to_string(outputs).unwrap();
    assert_eq!(text.lines().count(), 72);
    text
}
