//! Reading what the writer wrote.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::capture::records::*;
use crate::capture::{CaptureWriter, RowKey, WriterOptions};
use crate::types::ChoiceIndex;

fn header() -> Header {
    Header {
        format_version: FORMAT_VERSION,
        recorder: Recorder { name: "stepscope".into(), version: "0.1.0".into(), build: None },
        sampler_semantics: "stepscope".into(),
        arithmetic_version: Some(1),
        epoch_ns: 1_700_000_000_000_000_000,
        model: None,
        device: None,
        configuration: vec![],
        components: vec![],
        faults: vec![],
        logits_tier: LogitsTier::Full,
        redactions: vec![],
    }
}

fn step(step: u64, request: u64) -> StepRecord {
    StepRecord {
        step,
        request,
        choice: 0,
        first_position: step as u32,
        drafts: vec![],
        emitted: vec![7],
        time_ns: Some(step * 1_000),
        q_len: Some(1),
        prev_accepted: None,
        path: Some(StepPath::Decode),
        scheduler: None,
        batch: None,
        input_tokens: None,
        cached_prefix: None,
        drafts_raw: None,
        withheld: None,
        state: None,
        grammar: None,
        verdicts: None,
        bonus: None,
        stop: None,
        rows: vec![],
        timings: None,
    }
}

fn sequence(request: u64) -> SequenceId {
    SequenceId { request: RequestId(request), choice: ChoiceIndex(0) }
}

fn path(directory: &TempDir) -> PathBuf {
    directory.path().join("c.mcap")
}

#[test]
fn steps_and_rows_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let writer = CaptureWriter::create(&path(&directory), header(), WriterOptions::default()).unwrap();
    for index in 0..100 {
        for request in 0..3 {
            writer.write(step(index, request)).unwrap();
            let key = RowKey { step: index, request, choice: 0, row: 0 };
            writer.write_row(key, vec![index as f32; 5_000]).unwrap();
        }
    }
    let summary = writer.finish().unwrap();
    assert_eq!(summary.dropped, 0);

    let reader = CaptureReader::open(&path(&directory)).unwrap();
    assert!(reader.issues().is_empty(), "{:?}", reader.issues());
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.sequences().collect::<Vec<_>>(), [sequence(0), sequence(1), sequence(2)]);
    for request in 0..3 {
        let steps: Result<Vec<_>, _> = reader.steps(sequence(request)).collect();
        assert_eq!(steps.unwrap(), (0..100).map(|index| step(index, request)).collect::<Vec<_>>());
    }
    for index in [0, 57, 99] {
        let Some(LogitsPayload::Full { length, bytes }) = reader.logits(StepId(index), sequence(1), 0).unwrap() else {
            panic!("no row at step {index}");
        };
        assert_eq!(crate::capture::row::decode_full(length, &bytes).unwrap(), vec![index as f32; 5_000]);
    }
    assert_eq!(reader.logits(StepId(3), sequence(1), 1).unwrap(), None);
    assert_eq!(reader.messages().count(), 602);
}
