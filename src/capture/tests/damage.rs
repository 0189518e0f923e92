//! Files that were cut, altered or crafted: no panic, what is intact is read, and what is not is said.

use std::collections::BTreeSet;

use super::support::*;
use crate::capture::{CaptureReader, verify};

/// Steps of each of two requests.
const STEPS: u64 = 12;
/// Bytes of an MCAP record's opcode and length.
const PREFIX: usize = 1 + 8;
/// Step records in all.
const RECORDS: usize = 2 * STEPS as usize;

/// A capture of several chunks and where its chunks begin and end.
fn sample() -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>, Vec<(usize, usize)>) {
    let (directory, path) = place();
    record_in_small_chunks(&path, 2, STEPS);
    let bytes = std::fs::read(&path).unwrap();
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let chunks = summary.chunk_indexes.iter().map(|chunk| {
        let start = chunk.chunk_start_offset as usize;
        (start, start + chunk.chunk_length as usize)
    });
    let chunks: Vec<_> = chunks.collect();
    assert!(chunks.len() >= 4, "{} chunks are too few to cut between", chunks.len());
    (directory, path, bytes, chunks)
}

/// Step numbers that can be read, if the file can be opened; every other access must not panic either.
fn readable(path: &std::path::Path) -> Option<BTreeSet<(u64, u64)>> {
    let reader = CaptureReader::open(path).ok()?;
    let _ = verify(&reader);
    let mut steps = BTreeSet::new();
    for sequence in reader.sequences() {
        for step in reader.steps(sequence).flatten() {
            let _ = reader.logits(crate::types::StepId(step.step), sequence, 0);
            steps.insert((step.step, step.request));
        }
    }
    Some(steps)
}

#[test]
fn a_file_cut_at_a_chunk_boundary_keeps_what_is_before() {
    let (_directory, path, bytes, chunks) = sample();
    let mut before = BTreeSet::new();
    for (_, end) in chunks {
        std::fs::write(&path, &bytes[..end]).unwrap();
        let steps = readable(&path).expect("the first chunk has the header");
        assert!(steps.is_superset(&before), "a longer file gave fewer steps");
        let reader = CaptureReader::open(&path).unwrap();
        assert!(reader.issues().iter().all(|issue| issue.kind.is_missing_data()), "{:?}", reader.issues());
        assert!(!reader.issues().is_empty(), "a cut file passed for a finished one");
        before = steps;
    }
    assert_eq!(before.len(), RECORDS);
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_chunks() {
    let (_directory, path, bytes, chunks) = sample();
    let mut cut = 12_345;
    for _ in 0..60 {
        cut = cut * 48_271 % 2_147_483_647;
        let length = cut % bytes.len();
        std::fs::write(&path, &bytes[..length]).unwrap();
        let steps = readable(&path);
        if length >= chunks[0].1 {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(steps.is_some(), "cut to {length} bytes: the header chunk ends at {}", chunks[0].1);
            assert!(!CaptureReader::open(&path).unwrap().is_finished());
        }
    }
}

#[test]
fn a_flipped_byte_costs_one_chunk_and_is_noticed() {
    let (_directory, path, bytes, chunks) = sample();
    let mut random = 777_usize;
    for _ in 0..100 {
        random = random * 48_271 % 2_147_483_647;
        let at = 8 + random % (bytes.len() - 8);
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (random % 8);
        std::fs::write(&path, &flipped).unwrap();
        let reader = match CaptureReader::open(&path) {
            Ok(reader) => reader,
            // The MCAP header names the profile; a file that says it is something else is not ours to read.
            Err(error) => {
                assert!(at < 64, "byte {at}: {error}");
                continue;
            }
        };
        let found = verify(&reader).unwrap();
        assert!(!found.findings.is_empty() || !found.missing.is_empty(), "byte {at} changed and nothing was noticed");
        let in_chunk = chunks.iter().any(|(start, end)| (*start..*end).contains(&at));
        let steps = readable(&path).unwrap();
        if in_chunk {
            assert!(steps.len() >= RECORDS - largest_chunk(&bytes), "byte {at}: only {} steps are left", steps.len());
        } else {
            assert_eq!(steps.len(), RECORDS, "byte {at} is in no chunk");
        }
    }
}

#[test]
fn a_chunk_whose_header_gives_other_times_is_named() {
    let (_directory, path, bytes, chunks) = sample();
    for (start, _) in chunks {
        // After the record's prefix: the time of its earliest message, and that of its latest.
        for (place, time) in [(start + PREFIX, u64::MAX), (start + PREFIX + 8, 0)] {
            let mut damaged = bytes.clone();
            damaged[place..place + 8].copy_from_slice(&time.to_le_bytes());
            std::fs::write(&path, &damaged).unwrap();
            let found = verify(&CaptureReader::open(&path).unwrap()).unwrap();
            let is_named = found
                .findings
                .iter()
                .any(|words| words.contains("the chunk's header says") && words.contains(&start.to_string()));
            assert!(is_named, "byte {place}: {:?}", found.findings);
        }
    }
}

/// Most step records in one chunk.
fn largest_chunk(bytes: &[u8]) -> usize {
    let summary = mcap::Summary::read(bytes).unwrap().unwrap();
    let step = summary.channels.values().find(|channel| channel.topic == "step").unwrap().id;
    let counts = summary.chunk_indexes.iter().map(|chunk| {
        let messages = summary.read_message_indexes(bytes, chunk).unwrap();
        messages.iter().filter(|(channel, _)| channel.id == step).map(|(_, entries)| entries.len()).sum()
    });
    counts.max().unwrap()
}

#[test]
fn a_damaged_chunk_is_named_with_its_bytes_and_what_it_held() {
    let (_directory, path, bytes, chunks) = sample();
    let mut damaged = bytes.clone();
    // The first chunk holds nothing but the header and stays.
    for chunk in &mcap::Summary::read(&bytes).unwrap().unwrap().chunk_indexes[1..] {
        damaged[chunk.compressed_data_offset().unwrap() as usize + 12] ^= 0x10;
    }
    std::fs::write(&path, &damaged).unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    let first = reader.issues().iter().find(|issue| issue.bytes.is_some()).unwrap();
    let bytes = first.bytes.clone().unwrap();
    assert!(chunks.contains(&(bytes.start as usize, bytes.end as usize)), "{first}");
    let words = first.to_string();
    assert!(words.contains("it held: ") && (words.contains(" step") || words.contains(" request")), "{words}");
    let lost: u64 = reader.issues().iter().flat_map(|issue| &issue.lost).map(|(_, count)| count).sum();
    assert_eq!(lost, RECORDS as u64 + 2 + 2 + 1, "steps, admissions, completions and the second header\n{words}");
}

#[test]
fn crafted_sizes_cost_no_memory() {
    let (_directory, path, bytes, chunks) = sample();
    let start = chunks[1].0;
    let sizes = [u64::MAX, u64::MAX / 2, 1 << 40, (64 << 20) + 1, 0];
    for size in sizes {
        // Record length, uncompressed size, compressed size.
        for offset in [1, 1 + 8 + 16, 1 + 8 + 32 + 4] {
            let mut crafted = bytes.clone();
            crafted[start + offset..start + offset + 8].copy_from_slice(&size.to_le_bytes());
            std::fs::write(&path, &crafted).unwrap();
            let reader = CaptureReader::open(&path).unwrap();
            assert!(!reader.issues().is_empty() || !verify(&reader).unwrap().findings.is_empty(), "{size} at {offset}");
        }
    }
}

#[test]
fn random_files_never_panic() {
    let (_directory, path) = place();
    let mut random = 99_u64;
    for round in 0..200 {
        let mut bytes = mcap::MAGIC.to_vec();
        if round % 2 == 0 {
            // As far as an MCAP header of the right profile.
            bytes.extend([1, 21, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0]);
            bytes.extend(b"stepscope");
            bytes.extend([4, 0, 0, 0]);
            bytes.extend(b"fuzz");
        }
        for _ in 0..400 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let byte = (random >> 56) as u8;
            // Opcodes and small lengths often enough to get somewhere.
            bytes.push(if byte & 3 == 0 {
                byte >> 4
            } else if byte & 3 == 1 {
                0
            } else {
                byte
            });
        }
        std::fs::write(&path, &bytes).unwrap();
        readable(&path);
    }
}

#[test]
fn an_opcode_that_became_a_footer_s_does_not_end_the_reading() {
    let (_directory, path, bytes, chunks) = sample();
    // Every opcode that one flipped bit can make of a chunk's.
    for bit in 0..8 {
        let mut flipped = bytes.clone();
        flipped[chunks[2].0] ^= 1 << bit;
        std::fs::write(&path, &flipped).unwrap();
        let reader = CaptureReader::open(&path).unwrap();
        assert!(!reader.issues().is_empty(), "opcode {:#04x} passed", flipped[chunks[2].0]);
        assert!(readable(&path).unwrap().len() >= RECORDS - largest_chunk(&bytes), "opcode {:#04x}", 6 ^ (1 << bit));
    }
}

#[test]
fn an_mcap_header_of_absurd_length_is_no_panic() {
    let (_directory, path, mut bytes, _) = sample();
    bytes[9..17].copy_from_slice(&u64::MAX.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(readable(&path).unwrap().len(), RECORDS);
}

#[test]
fn events_and_losses_that_would_not_fit_are_not_read() {
    use crate::capture::limits::MAX_NOTE_BYTES;
    let (_directory, path) = place();
    let message = |index: u64| {
        let text = "z".repeat(1 << 20);
        ("event", format!(r#"{{"time_ns":{index},"kind":"warning","message":"{text}"}}"#).into_bytes())
    };
    let count = MAX_NOTE_BYTES / (1 << 20) + 10;
    super::foreign::write_json(&path, &(0..count).map(message).collect::<Vec<_>>());
    assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20, "it is a small file");
    let reader = CaptureReader::open(&path).unwrap();
    let kept: u64 = reader.events().map(|event| event.unwrap().message.len() as u64).sum();
    assert!((MAX_NOTE_BYTES / 2..MAX_NOTE_BYTES).contains(&kept), "{kept}");
    assert!(reader.issues().iter().any(|issue| issue.message.contains("bytes of events and losses")));
    let out = path.with_file_name("recovered.mcap");
    let recovery = crate::capture::recover(&reader, &out).unwrap();
    assert_eq!(recovery.verification.findings, Vec::<String>::new());
    assert!(recovery.losses.iter().any(|loss| loss.channel == "event" && loss.messages > Some(9)));
}

#[test]
fn payloads_beyond_the_limit_are_counted_out() {
    let (_directory, path) = place();
    let message = r#"{"step":0,"request":0,"choice":0,"row":0,"payload":{"hidden_float":{"values":""}}}"#;
    let count = (1 << 20) + (1 << 16);
    super::foreign::write_json(&path, &vec![("logits", message.as_bytes().to_vec()); count as usize]);
    let bytes = std::fs::metadata(&path).unwrap().len();
    let limit = crate::capture::limits::indexed_messages(bytes);
    assert!(limit < count, "{bytes} bytes");
    let found = verify(&CaptureReader::open(&path).unwrap()).unwrap();
    assert!(found.findings.iter().any(|finding| finding.contains("`logits` messages; the rest is not checked")));
    assert_eq!(found.findings.len() as u64 + found.more_findings, limit + 1, "each is of a step that is not here");
}
