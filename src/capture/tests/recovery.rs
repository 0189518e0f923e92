//! Recovered files pass verification and say what is gone.

use super::support::*;
use crate::capture::{CaptureError, CaptureReader, WriterOptions, recover, verify};

/// Recovers `path` and checks the result; returns how many steps it has.
fn check(path: &std::path::Path, round: usize) -> usize {
    let out = path.with_file_name(format!("recovered-{round}.mcap"));
    let damaged = CaptureReader::open(path).unwrap();
    recover(&damaged, &out).unwrap();
    let reader = CaptureReader::open(&out).unwrap();
    let found = verify(&reader).unwrap();
    assert_eq!(found.findings, Vec::<String>::new(), "round {round}");
    let count = |reader: &CaptureReader| reader.sequences().map(|sequence| reader.step_count(sequence)).sum::<usize>();
    let intact: usize =
        damaged.sequences().map(|sequence| damaged.steps(sequence).filter(|step| step.is_ok()).count()).sum();
    assert_eq!(count(&reader), intact, "round {round}: not every intact step was kept");
    count(&reader)
}

#[test]
fn a_whole_capture_is_recovered_whole() {
    let (_directory, path) = place();
    record(&path, 2, 50, WriterOptions::default());
    let out = path.with_file_name("copy.mcap");
    let recovery = recover(&CaptureReader::open(&path).unwrap(), &out).unwrap();
    assert!(recovery.losses.is_empty());
    let found = verify(&CaptureReader::open(&out).unwrap()).unwrap();
    assert_eq!((found.findings, found.missing, found.rows.compared), (vec![], vec![], 100));
    let error = recover(&CaptureReader::open(&path).unwrap(), &out).unwrap_err();
    assert!(matches!(error, CaptureError::Exists { .. }), "{error}");
}

#[test]
fn cut_and_altered_captures_are_recovered() {
    let (_directory, path) = place();
    record_in_small_chunks(&path, 2, 12);
    let bytes = std::fs::read(&path).unwrap();
    let mut random = 4_242_usize;
    let mut least = usize::MAX;
    for round in 0..30 {
        random = random * 48_271 % 2_147_483_647;
        let mut damaged = bytes.clone();
        let at = 1_000 + random % (bytes.len() - 1_000);
        if round % 2 == 0 {
            damaged.truncate(at);
        } else {
            damaged[at] ^= 0x20;
        }
        std::fs::write(&path, &damaged).unwrap();
        if CaptureReader::open(&path).is_ok() {
            least = least.min(check(&path, round));
        }
    }
    assert!(least < 24, "no round lost anything");
}

#[test]
fn several_damaged_chunks_become_loss_records_with_counts() {
    let (_directory, path) = place();
    record_in_small_chunks(&path, 2, 12);
    let mut bytes = std::fs::read(&path).unwrap();
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    for chunk in summary.chunk_indexes.iter().skip(1).step_by(2) {
        bytes[chunk.compressed_data_offset().unwrap() as usize + 12] ^= 1;
    }
    std::fs::write(&path, &bytes).unwrap();
    let kept = check(&path, 0);
    assert!(kept < 24);
    let out = path.with_file_name("again.mcap");
    let recovery = recover(&CaptureReader::open(&path).unwrap(), &out).unwrap();
    let steps = recovery.losses.iter().find(|loss| loss.channel == "step").unwrap();
    assert_eq!(steps.messages, Some(24 - kept as u64));
}
