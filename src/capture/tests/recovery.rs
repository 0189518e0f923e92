//! Recovered files pass verification and say what is gone.

use super::support::*;
use super::verifying;
use crate::capture::{CaptureError, CaptureReader, Topic, WriterOptions, recover, verify};

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

#[test]
fn whatever_contradicts_is_left_out_and_accounted_for() {
    for (what, change) in verifying::contradictions() {
        let (_directory, path) = place();
        let mut records = verifying::records();
        change(&mut records);
        verifying::write(&path, records);
        let out = path.with_file_name("recovered.mcap");
        let recovery = recover(&CaptureReader::open(&path).unwrap(), &out).unwrap();
        let found = verify(&CaptureReader::open(&out).unwrap()).unwrap();
        assert_eq!(found.findings, Vec::<String>::new(), "{what}");
        // A repetition and a payload's wrong time cost nothing.
        let costs_nothing = ["row 0: 2 `logits` messages", "it will not be found"].contains(&what);
        assert_eq!(recovery.losses.is_empty(), costs_nothing, "{what}: {:?}", recovery.losses);
    }
}

#[test]
fn a_capture_that_stands_in_the_file_twice_is_recovered_once() {
    let (_directory, path) = place();
    record(&path, 2, 20, WriterOptions::default());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, [bytes.clone(), bytes].concat()).unwrap();
    let out = path.with_file_name("recovered.mcap");
    let recovery = recover(&CaptureReader::open(&path).unwrap(), &out).unwrap();
    let found = verify(&CaptureReader::open(&out).unwrap()).unwrap();
    assert_eq!(found.findings, Vec::<String>::new());
    assert_eq!((found.channels[&Topic::Step].messages, found.channels[&Topic::Logits].messages), (40, 40));
    assert_eq!(recovery.repeated, 40 + 40 + 2 + 2);
}

/// The file without the chunk at `gone` and its indexes, and without a summary or CRCs that would betray it.
fn without(bytes: &[u8], gone: usize) -> Vec<u8> {
    let summary = mcap::Summary::read(bytes).unwrap().unwrap();
    let mut chunks = summary.chunk_indexes.clone();
    chunks.sort_by_key(|chunk| chunk.chunk_start_offset);
    let mut file = bytes[..chunks[0].chunk_start_offset as usize].to_vec();
    for (index, chunk) in chunks.iter().enumerate() {
        if index != gone {
            let start = chunk.chunk_start_offset as usize;
            file.extend(&bytes[start..start + (chunk.chunk_length + chunk.message_index_length) as usize]);
        }
    }
    file.extend([0x0f, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([&[2, 20, 0, 0, 0, 0, 0, 0, 0][..], &[0; 20], mcap::MAGIC].concat());
    file
}

#[test]
fn a_chunk_that_is_gone_without_a_trace_is_accounted_for() {
    let (_directory, path) = place();
    record_in_small_chunks(&path, 1, 6);
    let bytes = std::fs::read(&path).unwrap();
    let mut chunks = mcap::Summary::read(&bytes).unwrap().unwrap().chunk_indexes;
    chunks.sort_by_key(|chunk| chunk.chunk_start_offset);
    for (gone, chunk) in chunks.iter().enumerate().skip(1) {
        std::fs::write(&path, without(&bytes, gone)).unwrap();
        let out = path.with_file_name(format!("{gone}.mcap"));
        let reader = CaptureReader::open(&path).unwrap();
        assert!(reader.is_finished());
        let recovery = recover(&reader, &out).unwrap();
        assert_eq!(recovery.verification.findings, Vec::<String>::new(), "without chunk {gone}");
        let is_said = !recovery.losses.is_empty() || !recovery.verification.missing.is_empty();
        // The header is repeated, and columns are made anew.
        let no_loss = [Topic::Header, Topic::Columns].map(Topic::channel_id);
        let is_derived = chunk.message_index_offsets.keys().all(|id| no_loss.contains(id));
        assert!(is_said || is_derived, "without chunk {gone} nothing was said to be missing");
    }
}

#[test]
fn records_that_a_wrong_index_hides_are_found() {
    let (_directory, path) = place();
    record_in_small_chunks(&path, 1, 6);
    let mut bytes = std::fs::read(&path).unwrap();
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let mut hidden = 0;
    for chunk in &summary.chunk_indexes {
        let offsets: Vec<_> = chunk.message_index_offsets.iter().collect();
        if let [(channel, offset)] = offsets[..]
            && *channel == Topic::Step.channel_id()
        {
            // The channel stands behind the record's prefix.
            bytes[*offset as usize + 9] = Topic::Logits.channel_id() as u8;
            hidden += 1;
        }
    }
    assert!(hidden > 0, "no chunk holds steps alone");
    std::fs::write(&path, &bytes).unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    assert!(reader.step_count(sequence(0)) < 6);
    let found = verify(&reader).unwrap().findings.join("\n");
    assert!(
        found.contains("message indexes list 1 messages of `logits`, it holds 0")
            || found.contains("messages of `step`, it holds"),
        "{found}"
    );
    let out = path.with_file_name("recovered.mcap");
    recover(&reader, &out).unwrap();
    assert_eq!(CaptureReader::open(&out).unwrap().step_count(sequence(0)), 6);
}
