//! `info`, `verify`, `recover` and `dump`, as a user runs them, on a recorded sample and on damaged copies of it.

#[path = "support/command.rs"]
mod command;

use std::path::{Path, PathBuf};

use command::{Run, stepscope};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures/filters/filters.mcap");

fn run(command: &str, capture: &Path, more: &[&str]) -> Run {
    let capture = capture.to_str().unwrap();
    stepscope(&[&[command, capture], more].concat())
}

fn folder_with(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.mcap");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn the_sample_is_whole() {
    for command in ["info", "verify", "dump"] {
        assert_eq!(run(command, Path::new(SAMPLE), &[]).status, 0, "{command}");
    }
}

/// Wherever the bit is, in a payload chunk or in an index, `info` says that something is damaged.
#[test]
fn info_finds_a_flipped_bit() {
    let sample = std::fs::read(SAMPLE).unwrap();
    for part in 1..24 {
        let mut bytes = sample.clone();
        bytes[sample.len() * part / 24] ^= 4;
        let (_folder, path) = folder_with(&bytes);
        let info = run("info", &path, &[]);
        assert_eq!(info.status, 1, "part {part}\n{}{}", info.stdout, info.stderr);
        assert!(info.stdout.contains("damaged"), "part {part}\n{}", info.stdout);
        assert_eq!(run("verify", &path, &[]).status, 1, "part {part}");
    }
}

#[test]
fn a_cut_capture_is_missing_data_and_is_recovered() {
    let sample = std::fs::read(SAMPLE).unwrap();
    let (folder, path) = folder_with(&sample[..sample.len() / 2]);
    assert_eq!(run("info", &path, &[]).status, 3);
    let verify = run("verify", &path, &[]);
    assert_eq!(verify.status, 3, "{}", verify.stdout);
    assert!(!verify.stdout.contains("missing: missing"), "{}", verify.stdout);
    let out = folder.path().join("out.mcap");
    let recovered = run("recover", &path, &["--out", out.to_str().unwrap()]);
    assert_eq!(recovered.status, 3, "{}{}", recovered.stdout, recovered.stderr);
    assert!(recovered.stdout.contains("missing: "), "{}", recovered.stdout);
    assert_eq!(run("verify", &out, &[]).status, 3);
}

#[test]
fn a_whole_capture_is_recovered_without_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.mcap");
    let recovered = run("recover", Path::new(SAMPLE), &["--out", out.to_str().unwrap()]);
    assert_eq!(recovered.status, 0, "{}{}", recovered.stdout, recovered.stderr);
    assert_eq!(run("verify", &out, &[]).status, 0);
}

#[test]
fn dump_says_when_nothing_is_about_the_steps_asked_for() {
    let dump = run("dump", Path::new(SAMPLE), &["--steps", "99999"]);
    assert_eq!((dump.status, dump.stdout.as_str()), (2, ""));
    assert!(
        dump.stderr.contains("no record is about step 99999") && dump.stderr.contains("has steps 0 to"),
        "{}",
        dump.stderr
    );
    let sample = std::fs::read(SAMPLE).unwrap();
    let (_folder, path) = folder_with(&sample[..sample.len() / 2]);
    let dump = run("dump", &path, &["--steps", "99999"]);
    assert_eq!(dump.status, 3, "the step may have been in what is missing");
    assert!(dump.stderr.contains("no record is about step 99999"), "{}", dump.stderr);
    assert_eq!(run("dump", Path::new(SAMPLE), &["--steps", "0"]).status, 0);
}
