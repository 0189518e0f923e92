//! `stepscope provenance` lists what made a capture, compares like with like, and notices patches whose origin moved.

#[path = "support/command.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use command::{Run, stepscope};
use serde_json::Value;
use stepscope::hash::{git_blob_sha1, sha256};
use stepscope::model::synthetic::SyntheticModel;
use tempfile::TempDir;

fn root() -> &'static str {
    env!("CARGO_MANIFEST_DIR")
}

/// A capture of this build, with the model that made it.
fn recorded(folder: &Path) -> PathBuf {
    let path = |name: &str| folder.join(name).display().to_string();
    SyntheticModel::lfm2(5).write_gguf(Path::new(&path("model.gguf"))).unwrap();
    let request =
        r#"{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "ab", "max_tokens": 2}}"#;
    fs::write(path("requests.jsonl"), request).unwrap();
    let run = stepscope(&[
        "record",
        "--model",
        &path("model.gguf"),
        "--requests",
        &path("requests.jsonl"),
        "--out",
        &path("capture.mcap"),
    ]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    folder.join("capture.mcap")
}

fn provenance(capture: &Path, arguments: &[&str]) -> Run {
    stepscope(&[&["provenance", &capture.display().to_string()], arguments].concat())
}

/// The JSON of a run, which has to end with that status.
fn found(status: i32, capture: &Path, arguments: &[&str]) -> Value {
    let run = provenance(capture, &[arguments, &["--json"]].concat());
    assert_eq!(run.status, status, "{arguments:?}: {}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

/// What is said of one part.
fn compared<'a>(found: &'a Value, name: &str) -> &'a Value {
    let compared = found["against"]["compared"].as_array().unwrap_or_else(|| panic!("{found:#}"));
    compared.iter().find(|compared| compared["name"] == name).unwrap_or_else(|| panic!("{name} is not in {found:#}"))
}

fn git(repository: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    let output =
        Command::new("git").arg("-C").arg(repository).args(identity).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with one file in one commit.
fn repository(folder: &Path, file: &str, text: &str) -> PathBuf {
    let repository = folder.join("repository");
    let path = repository.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    git(&repository, &["init", "--quiet"]);
    commit(&repository);
    repository
}

fn commit(repository: &Path) {
    git(repository, &["add", "--all"]);
    git(repository, &["commit", "--quiet", "--message", "a"]);
}

const CONVOLUTION: &str = "src/backend/cpu/convolution.rs";

#[test]
fn sources_and_model_are_listed_by_both_algorithms() {
    let folder = TempDir::new().unwrap();
    let capture = recorded(folder.path());
    let found = found(0, &capture, &[]);
    let parts = found["parts"].as_array().unwrap();
    let part =
        |wanted: &dyn Fn(&Value) -> bool| parts.iter().find(|part| wanted(part)).unwrap_or_else(|| panic!("{found:#}"));
    let hashes = |part: &Value, bytes: &[u8]| {
        let hashes = [sha256(&[bytes]), git_blob_sha1(bytes)];
        let expected: Vec<Value> =
            hashes.iter().map(|hash| serde_json::json!({"algorithm": hash.algorithm, "hex": hash.hex})).collect();
        assert_eq!(part["hashes"], Value::from(expected));
    };
    hashes(part(&|part| part["name"] == CONVOLUTION), &fs::read(Path::new(root()).join(CONVOLUTION)).unwrap());
    hashes(part(&|part| part["kind"] == "model"), &fs::read(folder.path().join("model.gguf")).unwrap());
    let program = part(&|part| part["name"].as_str().is_some_and(|name| name.starts_with("cpu ")));
    assert_eq!(program["hashes"][0]["algorithm"], "blake3");
    let text = provenance(&capture, &[]);
    assert!(text.stdout.contains("git-blob-sha1  ") && text.stdout.contains("kernel src/arith/"), "{}", text.stdout);
}

#[test]
fn a_folder_and_a_revision_are_told_from_changed_ones() {
    let folder = TempDir::new().unwrap();
    let capture = recorded(folder.path());
    let model = found(0, &capture, &["--against", folder.path().to_str().unwrap(), "--only", "model"]);
    assert_eq!(model["against"]["compared"][0]["with"], "model.gguf", "the tokenizer is no file: {model:#}");
    let kernels = found(0, &capture, &["--against", root(), "--only", "kernel"]);
    assert_eq!(compared(&kernels, CONVOLUTION)["verdict"], "equal");

    // The same file, with one byte more.
    let text = fs::read_to_string(Path::new(root()).join(CONVOLUTION)).unwrap();
    let repository = repository(folder.path(), CONVOLUTION, &text);
    let at = |revision: &str| format!("{}@{revision}", repository.display());
    let same = found(3, &capture, &["--against", &at("HEAD"), "--only", "kernel"]);
    assert_eq!(compared(&same, CONVOLUTION)["algorithm"], "git-blob-sha1", "git knows its own hash");
    assert_eq!(compared(&same, "src/arith/mod.rs")["verdict"], "not_comparable", "it has no such file");
    fs::write(repository.join(CONVOLUTION), text + "\n").unwrap();
    let as_it_lies = found(1, &capture, &["--against", repository.to_str().unwrap(), "--only", "kernel"]);
    assert_eq!(compared(&as_it_lies, CONVOLUTION)["verdict"], "differs");
    let committed = found(3, &capture, &["--against", &at("HEAD"), "--only", "kernel"]);
    assert_eq!(compared(&committed, CONVOLUTION)["verdict"], "equal", "the commit still has it");
    commit(&repository);
    let moved = found(1, &capture, &["--against", &at("HEAD"), "--only", "kernel"]);
    let compared = compared(&moved, CONVOLUTION);
    assert_eq!((&compared["verdict"], &compared["algorithm"]), (&"differs".into(), &"git-blob-sha1".into()));

    let model = folder.path().join("model.gguf");
    let mut bytes = fs::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&model, bytes).unwrap();
    let changed = found(1, &capture, &["--against", folder.path().to_str().unwrap(), "--only", "model"]);
    assert_eq!(changed["against"]["compared"][0]["verdict"], "differs");
    for nothing in [at("no-such-branch"), folder.path().join("nowhere").display().to_string()] {
        assert_eq!(provenance(&capture, &["--against", &nothing]).status, 2, "{nothing}");
    }
}

#[test]
fn captures_are_compared_by_what_both_name() {
    let folder = TempDir::new().unwrap();
    let capture = recorded(folder.path());
    let path = capture.display().to_string();
    let itself = found(0, &capture, &["--against", &path]);
    assert!(itself["against"]["compared"].as_array().unwrap().iter().all(|compared| compared["verdict"] == "equal"));
    // It names its program by blake3, no sources, and another model.
    let incident = format!("{}/captures/incident/faulty.mcap", root());
    let other = found(1, &capture, &["--against", &incident]);
    assert_eq!(compared(&other, CONVOLUTION)["verdict"], "not_comparable", "{other:#}");
    assert!(other["against"]["compared"].as_array().unwrap().iter().any(|compared| compared["verdict"] == "differs"));
}

#[test]
fn a_patch_fails_when_its_origin_moved() {
    let folder = TempDir::new().unwrap();
    let capture = recorded(folder.path());
    let repository = repository(folder.path(), "a.cu", "one");
    let manifest = folder.path().join("carried.toml");
    let state = |commit: &str, blob: &str| {
        let patch = "[[patch]]\nname = \"bound\"\norigin = \"repository\"\nfile = \"a.cu\"\n";
        fs::write(&manifest, format!("{patch}commit = \"{commit}\"\ngit-blob-sha1 = \"{blob}\"\n")).unwrap();
    };
    let check = |status: i32| found(status, &capture, &["--patches", manifest.to_str().unwrap()]);
    let (head, blob) = (git(&repository, &["rev-parse", "HEAD"]), git(&repository, &["rev-parse", "HEAD:a.cu"]));
    state(&head, &blob);
    check(0);
    // The origin goes on, first elsewhere, then in the file.
    fs::write(repository.join("b.cu"), "two").unwrap();
    commit(&repository);
    let current = |found: &Value| {
        let checked = found["patches"][0]["checked"].as_array().unwrap();
        checked.iter().map(|checked| checked["current"].as_bool()).collect::<Vec<_>>()
    };
    assert_eq!(current(&check(1)), [Some(false), Some(true)]);
    fs::write(repository.join("a.cu"), "three").unwrap();
    commit(&repository);
    assert_eq!(current(&check(1)), [Some(false), Some(false)]);
    let text = provenance(&capture, &["--patches", manifest.to_str().unwrap()]);
    let now = git(&repository, &["rev-parse", "HEAD"]);
    assert!(text.stdout.contains(&format!("moved: commit was {head}, and is {now}")), "{}", text.stdout);
    fs::remove_file(repository.join("a.cu")).unwrap();
    commit(&repository);
    assert_eq!(check(1)["patches"][0]["checked"][1]["now"], Value::Null, "the file is gone");

    fs::rename(&repository, folder.path().join("elsewhere")).unwrap();
    let unreached = check(3);
    assert_eq!(current(&unreached), [None, None]);
    assert!(
        unreached["patches"][0]["checked"][0]["why"].as_str().is_some_and(|why| why.contains("git")),
        "{unreached:#}"
    );
    // A hash that is none is no patch's.
    state("12", &blob);
    let run = provenance(&capture, &["--patches", manifest.to_str().unwrap()]);
    assert!(run.status == 2 && run.stderr.contains("40 hexadecimal digits"), "{}", run.stderr);
}

#[test]
fn an_origin_that_is_asked_over_a_protocol_is_held_by_its_commit() {
    let folder = TempDir::new().unwrap();
    let capture = recorded(folder.path());
    let manifest = folder.path().join("carried.toml");
    // Nothing listens there.
    let patch = "[[patch]]\nname = \"bound\"\norigin = \"https://127.0.0.1:9/owner/project\"\nfile = \"a.cu\"\n";
    fs::write(&manifest, format!("{patch}commit = \"{}\"\n", "1".repeat(40))).unwrap();
    let unreached = found(3, &capture, &["--patches", manifest.to_str().unwrap()]);
    assert_eq!(unreached["patches"][0]["checked"][0]["current"], Value::Null, "{unreached:#}");
    fs::write(&manifest, format!("{patch}git-blob-sha1 = \"{}\"\n", "1".repeat(40))).unwrap();
    let unknowable = found(3, &capture, &["--patches", manifest.to_str().unwrap()]);
    assert!(unknowable["patches"][0]["checked"][0]["why"].as_str().unwrap().contains("clone it"), "{unknowable:#}");
}
