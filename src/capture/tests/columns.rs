//! Columns repeat the steps, and what they repeat wrongly is found.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};

use super::support::*;
use crate::capture::columns::{ColumnsFault, STEPS_OF_A_BATCH, compare, decode, encode};
use crate::capture::conditions::{CONDITIONS, Conditions, Values};
use crate::capture::records::*;
use crate::capture::{CaptureReader, CaptureWriter, Encoding, Record, Topic, WriterOptions, recover, verify};

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

/// Writes the capture again with its messages changed.
fn rewrite(path: &Path, change: impl Fn(&mut Record)) {
    let bytes = std::fs::read(path).unwrap();
    let mut file = Cursor::new(Vec::new());
    let options = mcap::WriteOptions::new().profile("stepscope").compression(None);
    let mut writer = options.create(&mut file).unwrap();
    for message in mcap::MessageStream::new(&bytes).unwrap() {
        let mut message = message.unwrap();
        let topic = Topic::from_name(&message.channel.topic).unwrap();
        let mut record = Record::decode(topic, Encoding::Bincode, &message.data).unwrap();
        change(&mut record);
        message.data = Cow::Owned(record.encode(Encoding::Bincode).unwrap());
        writer.write(&message).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    std::fs::write(path, file.into_inner()).unwrap();
}

fn conditions(steps: u64) -> Conditions {
    let mut conditions = Conditions::default();
    (0..steps).for_each(|index| conditions.push(&step(index, 0, vec![row(index, 0)])));
    conditions
}

#[test]
fn every_step_has_its_row() {
    let (_directory, path) = place();
    record_steps(&path, 5_000, FORMAT_VERSION);
    let found = verify(&CaptureReader::open(&path).unwrap()).unwrap();
    assert_eq!((found.findings, found.missing), (vec![], vec![]));
    let columns = columns(&path);
    let runs: Vec<(u64, u32)> = columns.iter().map(|columns| (columns.first, columns.steps)).collect();
    assert_eq!(runs, [(0, 4_096), (4_096, 904)]);
    let batch = decode(&columns[1]).unwrap();
    let steps = batch.column_by_name("step").unwrap().as_primitive::<UInt64Type>();
    assert_eq!((steps.value(0), steps.value(903)), (4_096, 4_999));
    let accepted = batch.column_by_name("prev_accepted").unwrap().as_primitive::<UInt32Type>();
    // 4098 is divisible by 3.
    assert_eq!((accepted.is_null(2), accepted.value(1)), (true, 4_097 % 7), "unknown is null");
    assert_eq!(batch.schema().field_with_name("prev_accepted").unwrap().metadata()["unit"], "tokens");
}

#[test]
fn columns_that_say_something_else_are_found_and_made_anew() {
    let other = |columns: &mut ColumnsRecord| {
        let mut conditions = Conditions::default();
        (0..10).for_each(|index| conditions.push(&step(index.max(1), 0, vec![])));
        *columns = encode(&conditions, 0).unwrap();
    };
    let changes: [(&str, Change<'_>); 4] = [
        ("column `step`: expected", &other),
        ("expected the 10 steps from number 0 on", &|columns| columns.first = 3),
        ("expected an Arrow IPC stream", &|columns| columns.batch.truncate(100)),
        ("expected an Arrow IPC stream", &|columns| columns.batch = columns.batch.repeat(2)),
    ];
    for (expected, change) in changes {
        let (_directory, path) = place();
        record_steps(&path, 10, FORMAT_VERSION);
        rewrite(&path, |record| {
            if let Record::Columns(columns) = record {
                change(columns);
            }
        });
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
    let (_directory, path) = place();
    record_steps(&path, 10, FORMAT_VERSION);
    rewrite(&path, |record| {
        if let Record::Columns(columns) = record {
            *columns = ColumnsRecord { steps: 0, ..encode(&Conditions::default(), 0).unwrap() };
        }
    });
    let findings = verify(&CaptureReader::open(&path).unwrap()).unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
}

#[test]
fn an_older_format_has_none() {
    let (_directory, path) = place();
    record_steps(&path, 10, 2);
    assert_eq!(columns(&path), []);
    let out = path.with_file_name("recovered.mcap");
    let reader = CaptureReader::open(&path).unwrap();
    assert_eq!(verify(&reader).unwrap().findings, Vec::<String>::new());
    recover(&reader, &out).unwrap();
    assert_eq!((CaptureReader::open(&out).unwrap().header().format_version, columns(&out)), (2, vec![]));
}

#[test]
fn a_value_that_differs_is_named() {
    let mut others = Conditions::default();
    (0..5).for_each(|index| {
        let mut step = step(index, 0, vec![row(index, 0)]);
        step.q_len = if index == 3 { None } else { step.q_len };
        others.push(&step);
    });
    let batch = decode(&encode(&others, 0).unwrap()).unwrap();
    assert!(compare(&batch, &others).is_ok());
    let fault = compare(&batch, &conditions(5)).unwrap_err();
    assert!(matches!(fault, ColumnsFault::Differs { column: "q_len", row: 3, .. }), "{fault}");
    let fewer = compare(&decode(&encode(&conditions(4), 0).unwrap()).unwrap(), &conditions(5)).unwrap_err();
    assert!(matches!(fewer, ColumnsFault::Differs { row: 4, .. }), "{fewer}");
}

#[test]
fn hostile_batches_are_refused() {
    let whole = encode(&conditions(9), 0).unwrap();
    for length in 0..whole.batch.len() {
        let cut = ColumnsRecord { batch: whole.batch[..length].to_vec(), ..whole.clone() };
        // Without the mark of the end a stream may be whole.
        assert!(decode(&cut).is_err() || length + 8 >= whole.batch.len(), "cut at {length}");
    }
    let mut refused = 0;
    for at in 0..whole.batch.len() {
        for flip in [1, 0x80, 0xff] {
            let mut flipped = whole.clone();
            flipped.batch[at] ^= flip;
            // Whatever is read has the length that was promised, or is refused.
            match decode(&flipped) {
                Ok(batch) => assert_eq!(batch.num_rows(), 9),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100, "{refused}");
    let many = ColumnsRecord { steps: u32::MAX, ..whole };
    assert!(matches!(decode(&many), Err(ColumnsFault::Rows { .. })));
    let long = encode(&conditions(STEPS_OF_A_BATCH as u64 + 1), 0).unwrap();
    assert!(matches!(decode(&long), Err(ColumnsFault::Rows { .. })));
}

/// With `STEPSCOPE_WRITE_GOLDEN` set, writes the table instead of comparing it.
#[test]
fn the_document_lists_the_conditions() {
    const OPENING: &str = "| column | Arrow type | unit | what it says |\n|---|---|---|---|\n";
    let mut table = String::new();
    for condition in CONDITIONS {
        let kind = match condition.empty() {
            Values::Small(_) => "uint32",
            Values::Large(_) => "uint64",
            Values::Truth(_) => "bool",
            Values::Word(_) => "utf8",
        };
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
