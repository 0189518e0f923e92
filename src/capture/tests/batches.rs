//! Batches of columns as untrusted input.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, ListViewArray, RecordBatch, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{Buffer, FieldNode, root_as_message};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;

use super::support::*;
use crate::capture::columns::{
    Batch, Cell, ColumnsFault, MAX_COLUMNS, MAX_METADATA_BYTES, STEPS_OF_A_BATCH, compare, decode, encode,
};
use crate::capture::conditions::{CONDITIONS, Conditions};
use crate::capture::records::*;

fn conditions(steps: u64) -> Conditions {
    let mut conditions = Conditions::of_format(FORMAT_VERSION);
    for index in 0..steps {
        let mut step = step(index, 0, vec![row(index, 0)]);
        step.prev_accepted = (index % 3 != 0).then_some(3);
        step.bonus = (index % 2 == 0).then_some(index % 4 == 0);
        conditions.push(&step);
    }
    conditions
}

fn stream(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    written(RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap())
}

fn written(batch: RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn with_arrow(stream: &[u8]) -> RecordBatch {
    StreamReader::try_new(stream, None).unwrap().next().unwrap().unwrap()
}

/// The same batch with one more column.
pub(super) fn with_another_column(stream: &[u8], name: &str) -> Vec<u8> {
    let batch = with_arrow(stream);
    let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(name, DataType::UInt32, true)));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(UInt32Array::from(vec![7; batch.num_rows()])));
    written(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap())
}

fn numbers(rows: u32) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(0..rows))
}

fn record(steps: u32, batch: Vec<u8>) -> ColumnsRecord {
    ColumnsRecord { first: 0, steps, batch }
}

fn fault(record: &ColumnsRecord) -> String {
    decode(record).expect_err("must be refused").to_string()
}

/// Where the descriptions of columns and buffers stand in a stream, as 16 bytes each.
fn descriptions(stream: &[u8]) -> (Range<usize>, Range<usize>) {
    let length = |at: usize| u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
    let start = 8 + length(0);
    let metadata = &stream[start + 8..start + 8 + length(start)];
    let message = root_as_message(metadata).unwrap();
    let batch = message.header_as_record_batch().unwrap();
    let place = |bytes: &[u8]| {
        let start = bytes.as_ptr().addr() - stream.as_ptr().addr();
        start..start + bytes.len()
    };
    let nodes = batch.nodes().unwrap();
    let buffers = batch.buffers().unwrap();
    assert_eq!((nodes.bytes().len(), buffers.bytes().len()), (nodes.len() * 16, buffers.len() * 16));
    (place(nodes.bytes()), place(buffers.bytes()))
}

#[test]
fn arrow_reads_the_same() {
    let conditions = conditions(9);
    let record = encode(&conditions, 0).unwrap();
    let (found, expected) = (decode(&record).unwrap(), with_arrow(&record.batch));
    assert!(compare(&found, &conditions).is_ok());
    assert_eq!((found.columns().len(), found.rows()), (expected.num_columns(), 9));
    for (column, array) in found.columns().iter().zip(expected.columns()) {
        for row in 0..9 {
            let cell = (!array.is_null(row)).then(|| match array.data_type() {
                DataType::UInt32 => Cell::Small(array.as_primitive::<UInt32Type>().value(row)),
                DataType::UInt64 => Cell::Large(array.as_primitive::<UInt64Type>().value(row)),
                DataType::Boolean => Cell::Truth(array.as_boolean().value(row)),
                _ => Cell::Word(array.as_string::<i32>().value(row)),
            });
            assert_eq!(column.cell(row), cell, "{} {row}", column.name());
        }
        assert_eq!(column.cell(9), None);
    }
}

#[test]
fn a_batch_of_no_rows_is_read() {
    let record = encode(&conditions(0), 0).unwrap();
    assert_eq!(decode(&record).unwrap().columns().len(), CONDITIONS.len());
}

#[test]
fn many_columns_over_the_same_bytes_are_refused() {
    // Every column's buffers are the same few bytes, which no reader may copy once for each.
    let mut batch = stream(vec![("a", numbers(8)), ("b", numbers(8))]);
    assert!(decode(&record(8, batch.clone())).is_ok());
    let (_, buffers) = descriptions(&batch);
    let second = buffers.start + 16..buffers.start + 32;
    batch.copy_within(second, buffers.start + 48);
    let fault = fault(&record(8, batch));
    assert!(fault.contains("overlaps one before") && fault.contains("column \"b\""), "{fault}");
}

#[test]
fn a_crowd_of_columns_is_refused_by_its_description() {
    let names: Vec<String> = (0..130_000).map(|index| index.to_string()).collect();
    let crowd = |count: usize| stream(names[..count].iter().map(|name| (name.as_str(), numbers(1))).collect());
    assert!(decode(&record(1, crowd(MAX_COLUMNS))).is_ok());
    let many = fault(&record(1, crowd(MAX_COLUMNS + 1)));
    assert!(many.contains("257 columns, where 256 are the most"), "{many}");
    let crowd = crowd(130_000);
    assert!(crowd.len() > MAX_METADATA_BYTES);
    let crowd = fault(&record(1, crowd));
    assert!(crowd.contains("bytes of metadata"), "{crowd}");
}

#[test]
fn other_types_are_refused_by_name() {
    let nested = |depth: usize| {
        (0..depth).fold(Arc::new(Int32Array::from(vec![1])) as ArrayRef, |values, _| {
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            Arc::new(ListViewArray::new(field, vec![0].into(), vec![1].into(), values, None))
        })
    };
    let words: DictionaryArray<Int8Type> = ["word"].into_iter().collect();
    let others: [(&str, ArrayRef); 4] = [
        ("of type int64", Arc::new(Int64Array::from(vec![1]))),
        ("of type ListView", nested(1)),
        ("of type ListView", nested(30)),
        ("of type dictionary", Arc::new(words)),
    ];
    for (expected, array) in others {
        let fault = fault(&record(1, stream(vec![("step", array)])));
        assert!(fault.contains(expected) && fault.len() < 200, "{fault}");
    }
}

#[test]
fn a_condition_of_another_type_or_unit_is_named_and_not_shown() {
    let conditions = conditions(1);
    let changed = |change: &dyn Fn(&Field) -> (Field, Option<ArrayRef>)| {
        let batch = with_arrow(&encode(&conditions, 0).unwrap().batch);
        let mut columns = batch.columns().to_vec();
        let fields: Vec<Field> = batch
            .schema()
            .fields()
            .iter()
            .zip(&mut columns)
            .map(|(field, column)| {
                let (field, array) = change(field);
                *column = array.unwrap_or_else(|| Arc::clone(column));
                field
            })
            .collect();
        let record = record(1, written(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()));
        compare(&decode(&record).unwrap(), &conditions).unwrap_err().to_string()
    };
    let other_type = changed(&|field| match field.name().as_str() {
        "q_len" => {
            let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
            (field.clone().with_data_type(DataType::Utf8), Some(text))
        }
        _ => (field.clone(), None),
    });
    assert_eq!(other_type, "column `q_len`: expected the type uint32, found utf8");
    let long_word = changed(&|field| match field.name().as_str() {
        "path" => (field.clone(), Some(Arc::new(StringArray::from(vec!["x".repeat(1 << 20)])))),
        _ => (field.clone(), None),
    });
    assert!(long_word.starts_with("column `path`: expected \"decode\"") && long_word.len() < 200, "{long_word}");
    let other_unit = changed(&|field| match field.name().as_str() {
        "q_len" => (field.clone().with_metadata(HashMap::from([("unit".into(), "rows".into())])), None),
        _ => (field.clone(), None),
    });
    assert_eq!(other_unit, "column `q_len`: expected the unit \"tokens\", found \"rows\"");
    let no_unit = changed(&|field| (field.clone().with_metadata(HashMap::new()), None));
    assert_eq!(no_unit, "column `step`: expected the unit \"id\", found none");
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let fault = fault(&record(1, stream(vec![("a", numbers(1)), ("a", Arc::new(UInt64Array::from(vec![1])))])));
    assert!(fault.contains("two columns \"a\""), "{fault}");
}

#[test]
fn descriptions_that_do_not_fit_are_refused() {
    let nulls: ArrayRef = Arc::new(UInt32Array::from(vec![Some(1), None, Some(3)]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["é", "", "word"]));
    let whole = stream(vec![("a", nulls), ("b", words)]);
    assert!(decode(&record(3, whole.clone())).is_ok());
    let (nodes, buffers) = descriptions(&whole);
    let body = descriptions_end(&whole);
    // What is put where, and the words of the fault.
    let buffer = |offset, length| Buffer::new(offset, length).0.to_vec();
    let cases: [(usize, Vec<u8>, &str); 9] = [
        (nodes.start, FieldNode::new(4, 1).0.to_vec(), "4 values and 1 nulls in 3 rows"),
        (nodes.start, FieldNode::new(3, -1).0.to_vec(), "3 values and -1 nulls in 3 rows"),
        (nodes.start, FieldNode::new(3, 2).0.to_vec(), "1 nulls where 2 are said"),
        (buffers.start + 16, buffer(64, 8), "a buffer of 8 bytes, where 12 are needed"),
        (buffers.start + 16, buffer(64, i64::MAX), "is not within the"),
        (buffers.start + 16, buffer(-64, 12), "is not within the"),
        (buffers.start, buffer(0, 0), "a buffer of 0 bytes, where 1 are needed"),
        (body + offset_of(&whole, 3), vec![1], "offsets or text that make no sense"),
        (body + offset_of(&whole, 3) + 4, vec![0xff; 4], "offsets or text that make no sense"),
    ];
    for (at, bytes, expected) in cases {
        let mut batch = whole.clone();
        batch[at..at + bytes.len()].copy_from_slice(&bytes);
        let fault = fault(&record(3, batch));
        assert!(fault.contains(expected), "expected {expected}: {fault}");
    }
    let rows = fault(&record(4, whole.clone()));
    assert!(rows.contains("expected a batch of 4 rows (4096 at most), found 3"), "{rows}");
    let endless = fault(&record(3, whole[..whole.len() - 8].to_vec()));
    assert!(endless.contains("mark of the end"), "{endless}");
}

/// Where the body of the batch begins.
fn descriptions_end(stream: &[u8]) -> usize {
    let length = |at: usize| u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
    let start = 8 + length(0);
    start + 8 + length(start)
}

/// Where a buffer begins in the body.
fn offset_of(stream: &[u8], buffer: usize) -> usize {
    let (_, buffers) = descriptions(stream);
    let at = buffers.start + buffer * 16;
    u64::from_le_bytes(stream[at..at + 8].try_into().unwrap()) as usize
}

#[test]
fn cut_and_altered_batches_are_refused_or_read() {
    let whole = encode(&conditions(9), 0).unwrap();
    for length in 0..whole.batch.len() {
        assert!(decode(&record(9, whole.batch[..length].to_vec())).is_err(), "cut at {length}");
    }
    let mut refused = 0;
    for at in 0..whole.batch.len() {
        for flip in [1, 0x80, 0xff] {
            let mut flipped = whole.clone();
            flipped.batch[at] ^= flip;
            // Whatever is read has the length that was promised, or is refused.
            match decode(&flipped) {
                Ok(batch) => read_all(&batch),
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

fn read_all(batch: &Batch<'_>) {
    for column in batch.columns() {
        for row in 0..=batch.rows() {
            std::hint::black_box(column.cell(row));
        }
    }
}

proptest! {
    // As many cases as PROPTEST_CASES says.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No panic, whatever the metadata and the body say.
    #[test]
    fn mutated_batches_never_panic(
        steps in 0_u64..20,
        mutations in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..6, any::<u64>(), 0_usize..4), 1..60),
    ) {
        let mut batch = match steps {
            0..10 => encode(&conditions(steps), 0).unwrap().batch,
            _ => stream(vec![("step", numbers(steps as u32)), ("b", Arc::new(StringArray::from(vec!["é"; steps as usize])))]),
        };
        let whole = batch.clone();
        for (count, (at, kind, value, width)) in mutations.into_iter().enumerate() {
            let at = at.index(batch.len());
            // Lengths and offsets are small, or at the ends of their types.
            let value = match kind {
                0 => value,
                1 => value % 64,
                2 => u64::MAX - value % 8,
                3 => (1 << 31) - value % 4,
                4 => whole.get(value as usize % whole.len()).copied().map_or(0, u64::from),
                _ => 1 << (value % 64),
            };
            let bytes = value.to_le_bytes();
            let end = batch.len().min(at + (1 << width));
            let length = end - at;
            batch[at..end].copy_from_slice(&bytes[..length]);
            if let Ok(found) = decode(&record(steps as u32, batch.clone())) {
                read_all(&found);
                let _ = compare(&found, &conditions(steps));
            }
            // Mostly one change at a time gets furthest.
            if count % 3 != 0 {
                batch.clone_from(&whole);
            }
        }
    }
}
