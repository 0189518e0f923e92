//! Columns repeat the steps, and what they repeat wrongly is found.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use super::support::*;
use crate::capture::columns::{Cell, compare, decode, encode, kind};
use crate::capture::conditions::{CONDITIONS, Conditions};
use crate::capture::records::*;
use crate::capture::{
    CaptureError, CaptureReader, CaptureWriter, Encoding, Record, Topic, Verification, WriterOptions, recover, verify,
};

/// A capture of a request with so many steps, which have no rows.
fn record_steps(path: &Path, steps: u64, version: u32) {
    let header = Header { format_version: version, logits_tier: LogitsTier::Off, ..header() };
    let writer = CaptureWriter::create(path, header, WriterOptions::default()).unwrap();
    writer.write(admission(0)).unwrap();
    for index in 0..steps {
        let mut step = step(index, 0, vec![]);
        step.prev_accepted = (index % 3 != 0).then_some(index as u32 % 7);
        writer.write(step).unwrap();
    }
    writer.write(completion(0, steps)).unwrap();
    writer.finish().unwrap();
}

type Change<'a> = &'a dyn Fn(&mut ColumnsRecord);

fn columns(path: &Path) -> Vec<ColumnsRecord> {
    CaptureReader::open(path).unwrap().columns().map(Result::unwrap).collect()
}

/// Writes the capture again with its messages changed, or without those that `change` refuses. Each has a chunk of its own.
fn rewrite(path: &Path, change: impl Fn(&mut Record) -> bool) {
    let bytes = std::fs::read(path).unwrap();
    let mut file = Cursor::new(Vec::new());
    let options = mcap::WriteOptions::new().profile("stepscope").compression(None).chunk_size(None);
    let mut writer = options.create(&mut file).unwrap();
    for message in mcap::MessageStream::new(&bytes).unwrap() {
        let mut message = message.unwrap();
        let topic = Topic::from_name(&message.channel.topic).unwrap();
        let mut record = Record::decode(topic, Encoding::Bincode, &message.data).unwrap();
        if change(&mut record) {
            if record.topic() != topic {
                let (id, name) = (record.topic().channel_id(), record.topic().name().to_owned());
                message.channel = Arc::new(mcap::Channel { id, topic: name, ..(*message.channel).clone() });
                message.sequence = 0;
            }
            message.data = Cow::Owned(record.encode(Encoding::Bincode).unwrap());
            writer.write(&message).unwrap();
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
    drop(writer);
    std::fs::write(path, file.into_inner()).unwrap();
}

/// Writes the capture again with its batches changed.
fn rewrite_columns(path: &Path, change: impl Fn(&mut ColumnsRecord)) {
    rewrite(path, |record| {
        if let Record::Columns(columns) = record {
            change(columns);
        }
        true
    });
}

/// Writes the capture again without the batch that begins at that step.
fn remove_columns(path: &Path, first: u64) {
    rewrite(path, |record| !matches!(record, Record::Columns(columns) if columns.first == first));
}

fn verified(path: &Path) -> Verification {
    verify(&CaptureReader::open(path).unwrap()).unwrap()
}

/// Alters a byte of the `index`th chunk that lists messages of that topic.
fn damage_chunk(path: &Path, topic: Topic, index: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let mut chunks = mcap::Summary::read(&bytes).unwrap().unwrap().chunk_indexes;
    chunks.sort_by_key(|chunk| chunk.chunk_start_offset);
    chunks.retain(|chunk| chunk.message_index_offsets.contains_key(&topic.channel_id()));
    bytes[chunks[index].compressed_data_offset().unwrap() as usize + 12] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn conditions(steps: u64) -> Conditions {
    let mut conditions = Conditions::of_format(FORMAT_VERSION);
    (0..steps).for_each(|index| conditions.push(&step(index, 0, vec![row(index, 0)])));
    conditions
}

#[test]
fn every_step_has_its_row() {
    let (_directory, path) = place();
    record_steps(&path, 5_000, FORMAT_VERSION);
    let found = verified(&path);
    assert_eq!((found.findings, found.missing), (vec![], vec![]));
    let columns = columns(&path);
    let runs: Vec<(u64, u32)> = columns.iter().map(|columns| (columns.first, columns.steps)).collect();
    assert_eq!(runs, [(0, 4_096), (4_096, 904)]);
    let batch = decode(&columns[1]).unwrap();
    let steps = batch.column("step").unwrap();
    assert_eq!((steps.cell(0), steps.cell(903)), (Some(Cell::Large(4_096)), Some(Cell::Large(4_999))));
    let accepted = batch.column("prev_accepted").unwrap();
    // 4098 is divisible by 3.
    assert_eq!((accepted.cell(2), accepted.cell(1)), (None, Some(Cell::Small(4_097 % 7))), "unknown is null");
    assert_eq!(accepted.unit(), Some("tokens"));
}

#[test]
fn columns_that_say_something_else_are_found_and_made_anew() {
    let other = |columns: &mut ColumnsRecord| {
        let mut conditions = Conditions::of_format(FORMAT_VERSION);
        (0..10).for_each(|index| conditions.push(&step(index.max(1), 0, vec![])));
        *columns = encode(&conditions, 0).unwrap();
    };
    let changes: [(&str, Change<'_>); 5] = [
        ("column `step`: expected", &other),
        ("expected the 10 steps from number 0 on", &|columns| columns.first = 3),
        ("expected the 10 steps from number 0 on", &|columns| {
            *columns = encode(&Conditions::of_format(FORMAT_VERSION), 0).unwrap();
        }),
        ("expected an Arrow IPC stream", &|columns| columns.batch.truncate(100)),
        ("expected an Arrow IPC stream", &|columns| columns.batch = columns.batch.repeat(2)),
    ];
    for (expected, change) in changes {
        let (_directory, path) = place();
        record_steps(&path, 10, FORMAT_VERSION);
        rewrite_columns(&path, change);
        let reader = CaptureReader::open(&path).unwrap();
        let findings = verify(&reader).unwrap().findings;
        assert!(matches!(&findings[..], [finding] if finding.contains(expected)), "{expected}: {findings:?}");
        let out = path.with_file_name("recovered.mcap");
        let recovery = recover(&reader, &out).unwrap();
        assert_eq!(recovery.verification.findings, Vec::<String>::new(), "{expected}");
        assert_eq!(columns(&out).len(), 1, "{expected}");
    }
}

#[test]
fn columns_that_leave_steps_out_are_found() {
    // How many steps, which batch is not there, and how many it had.
    for (steps, gone, left_out) in [(8_192, 0, 4_096), (8_292, 0, 4_096), (4_100, 4_096, 4), (20_480, 8_192, 4_096)] {
        let (_directory, path) = place();
        record_steps(&path, steps, FORMAT_VERSION);
        remove_columns(&path, gone);
        let expected =
            format!("`columns` messages leave out {left_out} of {steps} steps; they cover all steps or are not there");
        assert_eq!(verified(&path).findings, [expected]);
        let out = path.with_file_name("recovered.mcap");
        let recovery = recover(&CaptureReader::open(&path).unwrap(), &out).unwrap();
        assert!(recovery.losses.is_empty(), "columns are made anew: {:?}", recovery.losses);
        assert_eq!(recovery.verification.findings, Vec::<String>::new());
    }
}

#[test]
fn columns_that_a_recorder_says_it_lost_are_no_finding() {
    for gone in [0, 4_096] {
        let (_directory, path) = place();
        record_steps(&path, 4_100, FORMAT_VERSION);
        rewrite(&path, |record| {
            if let Record::Columns(columns) = record
                && columns.first == gone
            {
                let (channel, reason) = ("columns".into(), "refused".into());
                let loss = LossRecord { time_ns: 0, channel, messages: Some(1), bytes: None, steps: None, reason };
                *record = loss.into();
            }
            true
        });
        let found = verified(&path);
        assert_eq!(found.findings, Vec::<String>::new(), "without the batch at {gone}");
        assert!(found.missing.iter().any(|missing| missing.contains("lost: 1 messages of `columns`")), "{found:?}");
    }
}

#[test]
fn a_gap_elsewhere_does_not_end_the_comparison() {
    let (_directory, path) = place();
    record_steps(&path, 5_000, FORMAT_VERSION);
    rewrite_columns(&path, |columns| {
        if columns.first > 0 {
            *columns = ColumnsRecord { first: columns.first, ..encode(&conditions(904), 0).unwrap() };
        }
    });
    // A chunk of the first batch alone, and that of the admission.
    for topic in [Topic::Columns, Topic::Request] {
        damage_chunk(&path, topic, 0);
    }
    let found = verified(&path);
    assert!(
        found.findings.iter().any(|finding| finding.contains("column `step`: expected 4096, found 0")),
        "{found:?}"
    );
    assert!(!found.missing.iter().any(|missing| missing.contains("not compared")), "{found:?}");
    let left_out = found.findings.iter().any(|finding| finding.contains("leave out"));
    assert!(!left_out, "what is damaged is told once: {found:?}");
}

#[test]
fn columns_behind_missing_steps_are_read_and_not_compared() {
    let (_directory, path) = place();
    record_steps(&path, 5_000, FORMAT_VERSION);
    rewrite_columns(&path, |columns| {
        if columns.first > 0 {
            columns.batch.truncate(100);
        }
    });
    damage_chunk(&path, Topic::Step, 10);
    let found = verified(&path);
    let not_compared: Vec<&String> = found.missing.iter().filter(|missing| missing.contains("not compared")).collect();
    assert_eq!(
        not_compared,
        ["columns not compared: 1 of 2 `columns` messages stand where step records may be missing"]
    );
    assert!(found.findings.iter().any(|finding| finding.contains("expected an Arrow IPC stream")), "{found:?}");
}

#[test]
fn damage_to_a_chunk_of_columns_is_an_error_among_them() {
    let (_directory, path) = place();
    record_steps(&path, 5_000, FORMAT_VERSION);
    damage_chunk(&path, Topic::Columns, 0);
    let found: Vec<_> = CaptureReader::open(&path).unwrap().columns().collect();
    assert!(
        matches!(&found[..], [Err(CaptureError::Damaged { .. }), Ok(ColumnsRecord { first: 4_096, .. })]),
        "{found:?}"
    );
}

#[test]
fn an_older_format_has_none() {
    let (_directory, path) = place();
    record_steps(&path, 10, 2);
    assert_eq!(columns(&path), []);
    let declared = mcap::Summary::read(&std::fs::read(&path).unwrap()).unwrap().unwrap().channels;
    assert!(declared.values().all(|channel| channel.topic != "columns"));
    let out = path.with_file_name("recovered.mcap");
    let reader = CaptureReader::open(&path).unwrap();
    assert_eq!(verify(&reader).unwrap().findings, Vec::<String>::new());
    recover(&reader, &out).unwrap();
    assert_eq!((CaptureReader::open(&out).unwrap().header().format_version, columns(&out)), (2, vec![]));
}

#[test]
fn in_an_older_format_a_channel_of_that_name_is_somebody_else_s() {
    let (_directory, path) = place();
    record_steps(&path, 10, FORMAT_VERSION);
    rewrite(&path, |record| {
        match record {
            Record::Header(header) => header.format_version = 2,
            Record::Columns(columns) => columns.batch = b"whatever".to_vec(),
            _ => {}
        }
        true
    });
    let found = verified(&path);
    assert_eq!((found.findings, found.missing), (vec![], vec![]));
    assert_eq!(columns(&path), []);
}

#[test]
fn columns_of_other_names_are_passed_over_and_recovery_says_that_they_are_gone() {
    let (_directory, path) = place();
    record_steps(&path, 10, FORMAT_VERSION);
    rewrite_columns(&path, |columns| columns.batch = super::batches::with_another_column(&columns.batch, "energy"));
    let reader = CaptureReader::open(&path).unwrap();
    assert_eq!(verify(&reader).unwrap().findings, Vec::<String>::new());
    let recovery = recover(&reader, &path.with_file_name("recovered.mcap")).unwrap();
    let reasons: Vec<&str> = recovery.losses.iter().map(|loss| loss.reason.as_str()).collect();
    assert_eq!(reasons, ["recover: columns of other names are not made anew: energy"]);
}

#[test]
fn a_value_that_differs_is_named() {
    let mut others = Conditions::of_format(FORMAT_VERSION);
    (0..5).for_each(|index| {
        let mut step = step(index, 0, vec![row(index, 0)]);
        step.q_len = if index == 3 { None } else { step.q_len };
        others.push(&step);
    });
    let record = encode(&others, 0).unwrap();
    let batch = decode(&record).unwrap();
    assert!(compare(&batch, &others).is_ok());
    let fault = compare(&batch, &conditions(5)).unwrap_err().to_string();
    assert_eq!(fault, "column `q_len`: expected 1, found null, in row 3 of the batch");
    let record = encode(&conditions(6), 0).unwrap();
    let more = compare(&decode(&record).unwrap(), &conditions(5)).unwrap_err().to_string();
    assert!(more.contains("expected a batch of 5 rows"), "{more}");
}

/// With `STEPSCOPE_WRITE_GOLDEN` set, writes the table instead of comparing it.
#[test]
fn the_document_lists_the_conditions() {
    const OPENING: &str = "| column | Arrow type | unit | what it says |\n|---|---|---|---|\n";
    let mut table = String::new();
    for condition in CONDITIONS {
        let kind = kind(&condition.column(FORMAT_VERSION)).name();
        writeln!(table, "| `{}` | {kind} | {} | {} |", condition.name, condition.unit.name(), condition.meaning)
            .unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/capture-format.md");
    let mut document = std::fs::read_to_string(&path).unwrap();
    let start = document.find(OPENING).expect("the table") + OPENING.len();
    let end = start + document[start..].find("\n\n").expect("the table's end") + 1;
    if std::env::var_os("STEPSCOPE_WRITE_GOLDEN").is_some() {
        document.replace_range(start..end, &table);
        std::fs::write(&path, document).unwrap();
    } else {
        assert_eq!(document[start..end], table);
    }
}
