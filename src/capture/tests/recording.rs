//! The writer's promises: bounded, accounted, durable, and silent about nothing.

use std::time::Duration;

use super::support::*;
use crate::capture::limits::MAX_MESSAGE_BYTES;
use crate::capture::records::EventRecord;
use crate::capture::writer::CopyWriter;
use crate::capture::{CaptureError, CaptureReader, CaptureWriter, Overflow, WriterOptions, verify};
use crate::types::StepId;

#[test]
fn every_dropped_payload_is_accounted() {
    let (_directory, path) = place();
    let options = WriterOptions { queue_bytes: 4_000, overflow: Overflow::DropPayloads, ..WriterOptions::default() };
    let steps = 500;
    let summary = record(&path, 1, steps, options);
    let reader = CaptureReader::open(&path).unwrap();
    // Nothing but payloads goes.
    assert_eq!(reader.step_count(sequence(0)), steps as usize);
    let lost: u64 = reader.losses().map(|loss| loss.unwrap().messages.unwrap()).sum();
    let absent = (0..steps).filter(|step| reader.logits(StepId(*step), sequence(0), 0).unwrap().is_none());
    let absent: Vec<u64> = absent.collect();
    assert!(!absent.is_empty(), "a queue of one row never overflowed");
    assert_eq!((lost, summary.dropped), (absent.len() as u64, absent.len() as u64));
    for step in absent {
        let is_named = reader.losses().any(|loss| {
            let (first, last) = loss.unwrap().steps.unwrap();
            (first..=last).contains(&step)
        });
        assert!(is_named, "no loss record covers step {step}");
    }
    let found = verify(&reader).unwrap();
    assert_eq!(found.findings, Vec::<String>::new());
    assert!(!found.missing.is_empty());
}

#[test]
fn blocking_loses_nothing_however_small_the_queue() {
    let (_directory, path) = place();
    record(&path, 2, 300, WriterOptions { queue_bytes: 1, ..WriterOptions::default() });
    let found = verify(&CaptureReader::open(&path).unwrap()).unwrap();
    assert_eq!((found.findings, found.missing, found.rows.payloads), (vec![], vec![], 600));
}

#[test]
fn a_missing_payload_that_no_record_accounts_for_is_found() {
    let (_directory, path) = place();
    let writer = CaptureWriter::create(&path, header(), WriterOptions::default()).unwrap();
    writer.write(admission(0)).unwrap();
    writer.write(step(0, 0, vec![row(0, 0)])).unwrap();
    writer.write(completion(0, 1)).unwrap();
    writer.finish().unwrap();
    let found = verify(&CaptureReader::open(&path).unwrap()).unwrap();
    assert!(found.findings.iter().any(|finding| finding.contains("no loss record")), "{:?}", found.findings);
}

#[test]
fn a_killed_recorder_leaves_whole_chunks() {
    let (directory, path) = place();
    let options = WriterOptions { flush_interval: Duration::from_millis(1), ..WriterOptions::default() };
    let writer = CaptureWriter::create(&path, header(), options).unwrap();
    writer.write(admission(0)).unwrap();
    let partial = path.with_extension("mcap.partial");
    let mut steps = 0;
    // What is in the file at any time is what a kill at that time would leave.
    let copy = directory.path().join("killed.mcap");
    let seen = loop {
        fill(&writer, 1, steps..steps + 50);
        steps += 50;
        std::fs::copy(&partial, &copy).unwrap();
        let reader = CaptureReader::open(&copy).unwrap();
        assert!(!reader.is_finished());
        let seen = reader.step_count(sequence(0));
        if seen > 0 {
            break seen;
        }
        assert!(steps < 1_000_000, "nothing reached the file");
    };
    assert!(seen <= steps as usize);
    let reader = CaptureReader::open(&copy).unwrap();
    let read: Vec<_> = reader.steps(sequence(0)).map(|step| step.unwrap().step).collect();
    assert_eq!(read, (0..seen as u64).collect::<Vec<_>>());
    let found = verify(&reader).unwrap();
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    assert!(!found.missing.is_empty());
}

#[test]
fn a_dropped_writer_leaves_all_it_was_given() {
    let (_directory, path) = place();
    let writer = CaptureWriter::create(&path, header(), WriterOptions::default()).unwrap();
    writer.write(admission(0)).unwrap();
    fill(&writer, 1, 0..10);
    drop(writer);
    assert!(!path.exists());
    let reader = CaptureReader::open(&path.with_extension("mcap.partial")).unwrap();
    assert!(!reader.is_finished());
    assert_eq!(reader.step_count(sequence(0)), 10);
    assert!(reader.logits(StepId(9), sequence(0), 0).unwrap().is_some());
}

#[test]
fn nothing_is_overwritten() {
    let (_directory, path) = place();
    record(&path, 1, 1, WriterOptions::default());
    let before = std::fs::read(&path).unwrap();
    let error = CaptureWriter::create(&path, header(), WriterOptions::default()).unwrap_err();
    assert!(matches!(error, CaptureError::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);

    let (_directory, path) = place();
    let writer = CaptureWriter::create(&path, header(), WriterOptions::default()).unwrap();
    assert!(matches!(
        CaptureWriter::create(&path, header(), WriterOptions::default()),
        Err(CaptureError::Exists { .. })
    ));
    // A name taken while recording is respected too.
    std::fs::write(&path, b"somebody else's").unwrap();
    assert!(matches!(writer.finish(), Err(CaptureError::Stopped(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody else's");
    assert!(CaptureReader::open(&path.with_extension("mcap.partial")).unwrap().is_finished());
}

#[test]
fn a_payload_without_its_step_is_refused() {
    let (_directory, path) = place();
    let writer = CaptureWriter::create(&path, header(), WriterOptions::default()).unwrap();
    let error = writer.write_row(key(0, 0), vec![1.0]).unwrap_err();
    assert!(matches!(error, CaptureError::PayloadBeforeStep { step: 0, .. }), "{error}");
}

#[test]
fn a_record_that_is_too_long_becomes_a_loss() {
    let (_directory, path) = place();
    let writer = CaptureWriter::create(&path, header(), WriterOptions::default()).unwrap();
    let crate::capture::records::RequestRecord::Admitted(mut long) = admission(0) else { unreachable!() };
    long.body = Some("x".repeat(crate::capture::limits::MAX_MESSAGE_BYTES));
    writer.write(crate::capture::records::RequestRecord::Admitted(long)).unwrap();
    writer.finish().unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    let losses: Vec<_> = reader.losses().map(Result::unwrap).collect();
    assert_eq!((losses.len(), losses[0].channel.as_str(), losses[0].messages), (1, "request", Some(1)));
}

/// A disk that is full after some bytes.
struct FullDisk {
    left: usize,
}

impl std::io::Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let written = bytes.len().min(self.left);
        self.left -= written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl crate::capture::writer::Output for FullDisk {
    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_stops_the_recording_and_is_reported() {
    let options = WriterOptions { flush_interval: Duration::ZERO, ..WriterOptions::default() };
    for left in [0, 100, 3_000, 20_000] {
        let (_directory, path) = place();
        let created = CaptureWriter::create_on(&path, Box::new(FullDisk { left }), header(), options);
        let writer = match created {
            Ok(writer) => writer,
            Err(error) => {
                assert!(left < 3_000 && error.to_string().contains("cannot write"), "{error}");
                continue;
            }
        };
        let stopped = (0..100_000).find_map(|index| writer.write(step(index, 0, vec![row(index, 0)])).err());
        let stopped = stopped.expect("the disk is full long before");
        assert!(matches!(stopped, CaptureError::Stopped(_)), "{stopped}");
        assert!(writer.finish().unwrap_err().to_string().contains("cannot write"));
        assert!(!path.exists());
    }
}

#[test]
fn what_cannot_be_written_counts_towards_its_chunk() {
    let (_directory, path) = place();
    let mut writer = CopyWriter::create(&path, header(), &WriterOptions::default()).unwrap();
    let event = |bytes: usize| EventRecord {
        time_ns: 0,
        kind: "warning".into(),
        request: None,
        choice: None,
        step: None,
        message: "x".repeat(bytes),
    };
    // Almost a chunk, a message that is too long (of which a loss record comes, and fills it), and another chunk.
    for bytes in [(512 << 10) - 50, MAX_MESSAGE_BYTES + 1, 1 << 20] {
        writer.write(event(bytes).into(), 0).unwrap();
    }
    writer.finish().unwrap();
    let chunks = mcap::Summary::read(&std::fs::read(&path).unwrap()).unwrap().unwrap().chunk_indexes;
    let sizes: Vec<u64> = chunks.iter().map(|chunk| chunk.uncompressed_size).collect();
    assert_eq!(sizes.iter().filter(|size| **size > 512 << 10).count(), 2, "{sizes:?}");
}
