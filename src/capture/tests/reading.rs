//! Reading what the writer wrote.

use super::foreign;
use super::support::*;
use crate::capture::records::{FORMAT_VERSION, LogitsPayload, MaskRecord};
use crate::capture::row::decode_full;
use crate::capture::{CaptureError, CaptureReader, CaptureWriter, Topic, WriterOptions, verify};
use crate::types::{RequestId, StepId};

#[test]
fn steps_rows_and_requests_come_back() {
    let (_directory, path) = place();
    let summary = record(&path, 3, 100, WriterOptions::default());
    assert_eq!(summary.dropped, 0);
    assert_eq!(summary.file_bytes, std::fs::metadata(&path).unwrap().len());

    let reader = CaptureReader::open(&path).unwrap();
    assert!(reader.issues().is_empty(), "{:?}", reader.issues());
    assert!(reader.is_finished());
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.sequences().collect::<Vec<_>>(), [sequence(0), sequence(1), sequence(2)]);
    for request in 0..3 {
        let steps: Result<Vec<_>, _> = reader.steps(sequence(request)).collect();
        let expected: Vec<_> = (0..100).map(|index| step(index, request, vec![row(index, request)])).collect();
        assert_eq!(steps.unwrap(), expected);
        let records = reader.request(RequestId(request)).unwrap();
        assert_eq!(records.admission.unwrap().client_id, Some(format!("client-{request}")));
        assert_eq!(records.completions.len(), 1);
    }
    for index in [0, 57, 99] {
        let Some(LogitsPayload::Full { length, bytes }) = reader.logits(StepId(index), sequence(1), 0).unwrap() else {
            panic!("no row at step {index}");
        };
        assert_eq!(decode_full(length, &bytes).unwrap(), logits(index, 1));
    }
    assert_eq!(reader.logits(StepId(3), sequence(1), 1).unwrap(), None);
    assert_eq!(reader.logits(StepId(300), sequence(1), 0).unwrap(), None);
    let found = verify(&reader).unwrap();
    assert_eq!((found.findings, found.missing), (vec![], vec![]));
    assert_eq!((found.rows.rows, found.rows.compared), (300, 300));
}

#[test]
fn payloads_stand_in_chunks_that_steps_do_not_need() {
    let (_directory, path) = place();
    record(&path, 2, 400, WriterOptions::default());
    let whole = std::fs::read(&path).unwrap();
    // Break every chunk that the summary's index says holds `logits`.
    let summary = mcap::Summary::read(&whole).unwrap().unwrap();
    let logits_id = summary.channels.values().find(|channel| channel.topic == "logits").unwrap().id;
    let mut broken = whole.clone();
    let mut count = 0;
    for chunk in &summary.chunk_indexes {
        if chunk.message_index_offsets.contains_key(&logits_id) {
            assert_eq!(chunk.message_index_offsets.len(), 1, "payloads share a chunk with records");
            broken[chunk.compressed_data_offset().unwrap() as usize + 20] ^= 0xff;
            count += 1;
        }
    }
    assert!(count > 0);
    std::fs::write(&path, &broken).unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    assert!(reader.issues().is_empty(), "opening read the payloads: {:?}", reader.issues());
    assert_eq!(reader.steps(sequence(0)).filter_map(Result::ok).count(), 400);
    let error = reader.logits(StepId(0), sequence(0), 0).unwrap_err();
    assert!(matches!(error, CaptureError::Damaged { .. }), "{error}");
    assert!(!verify(&reader).unwrap().findings.is_empty());
}

#[test]
fn masks_are_written_once_per_content() {
    let (_directory, path) = place();
    let writer = CaptureWriter::create(&path, header(), WriterOptions::default()).unwrap();
    let mask = MaskRecord::new(12, vec![0b1010_0001, 0b0000_1000]);
    for _ in 0..50 {
        writer.write(mask.clone()).unwrap();
    }
    let other = MaskRecord::new(12, vec![1, 0]);
    writer.write(other.clone()).unwrap();
    let summary = writer.finish().unwrap();
    let masks = summary.channels.iter().find(|channel| channel.topic == Topic::Mask).unwrap();
    assert_eq!(masks.messages, 2);
    let reader = CaptureReader::open(&path).unwrap();
    assert_eq!(reader.mask(&mask.hash).unwrap(), Some(mask));
    assert_eq!(reader.mask(&other.hash).unwrap(), Some(other));
    assert_eq!(reader.mask(&[0; 32]).unwrap(), None);
    assert!(verify(&reader).unwrap().findings.is_empty());
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let (_directory, path) = place();
    let mut header = header();
    header.format_version = FORMAT_VERSION + 1;
    let refused = CaptureWriter::create(&path, header, WriterOptions::default()).unwrap_err();
    assert!(matches!(refused, CaptureError::NewerFormat { found, .. } if found == FORMAT_VERSION + 1), "{refused}");
    foreign::write_json_of_version(&path, FORMAT_VERSION + 1);
    let error = CaptureReader::open(&path).unwrap_err();
    assert!(matches!(error, CaptureError::NewerFormat { found, .. } if found == FORMAT_VERSION + 1), "{error}");
}

#[test]
fn other_files_are_refused() {
    let (_directory, path) = place();
    for (bytes, expected) in [(&b""[..], "byte 0"), (b"GGUF\x03\0\0\0 and more", "byte 0"), (b"\x89MCAP0\r", "byte 0")]
    {
        std::fs::write(&path, bytes).unwrap();
        assert!(CaptureReader::open(&path).unwrap_err().to_string().contains(expected));
    }
    let mut foreign = Vec::new();
    mcap::WriteOptions::new().profile("ros2").create(std::io::Cursor::new(&mut foreign)).unwrap().finish().unwrap();
    std::fs::write(&path, &foreign).unwrap();
    assert!(CaptureReader::open(&path).unwrap_err().to_string().contains("ros2"));
}
