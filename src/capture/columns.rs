//! Conditions as Arrow record batches, and back.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::conditions::{Conditions, Values};
use super::records::ColumnsRecord;

/// Steps of a batch: what a recorder writes at most, and a reader takes.
pub const STEPS_OF_A_BATCH: usize = 4096;

/// Key of a field's metadata under which its unit stands.
const UNIT: &str = "unit";

/// Why a batch cannot be read, or says something else than the step records.
#[derive(Debug, thiserror::Error)]
pub enum ColumnsFault {
    /// It is no batch.
    #[error("expected an Arrow IPC stream of one record batch, found {0}")]
    NotArrow(String),
    /// It has another number of rows.
    #[error("expected a batch of {steps} rows ({STEPS_OF_A_BATCH} at most), found {rows}")]
    Rows {
        /// What the message says.
        steps: u32,
        /// What the batch has.
        rows: usize,
    },
    /// A column is not there.
    #[error("expected a column `{0}`, found none")]
    Missing(&'static str),
    /// A column says something else than the step records.
    #[error("column `{column}`: expected {expected}, found {found}, in row {row} of the batch")]
    Differs {
        /// The column.
        column: &'static str,
        /// The first row that differs.
        row: usize,
        /// What the step record says.
        expected: String,
        /// What the batch says.
        found: String,
    },
}

/// The message of a run of steps before which `first` step messages stand in the file.
///
/// # Errors
/// If Arrow refuses the batch.
pub(super) fn encode(conditions: &Conditions, first: u64) -> Result<ColumnsRecord, ArrowError> {
    let batch = batch(conditions)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(&batch)?;
    let steps = u32::try_from(conditions.len()).map_err(|error| ArrowError::InvalidArgumentError(error.to_string()))?;
    Ok(ColumnsRecord { first, steps, batch: writer.into_inner()? })
}

/// Reads a message's batch, as untrusted input.
///
/// # Errors
/// If it is no batch of as many rows as it says.
pub fn decode(record: &ColumnsRecord) -> Result<RecordBatch, ColumnsFault> {
    let not_arrow = |found: String| ColumnsFault::NotArrow(found);
    // The decoder only ever refers to the message's bytes, so that what a length claims costs nothing; that it does not
    // panic over hostile metadata is promised nowhere.
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        let mut bytes = record.batch.clone().into();
        let mut decoder = StreamDecoder::new();
        let batch = decoder.decode(&mut bytes)?;
        // Nothing may follow but the mark of the end.
        let more = decoder.decode(&mut bytes)?;
        decoder.finish()?;
        Ok((batch, more.is_some() || !bytes.is_empty()))
    }));
    let decoded: Result<_, ArrowError> = decoded.map_err(|_| not_arrow("metadata that make no sense".to_owned()))?;
    let (batch, goes_on) = decoded.map_err(|error| not_arrow(error.to_string()))?;
    let batch = batch.ok_or_else(|| not_arrow("the end before a batch".to_owned()))?;
    if goes_on {
        return Err(not_arrow("more after it".to_owned()));
    }
    if batch.num_rows() != record.steps as usize || batch.num_rows() > STEPS_OF_A_BATCH {
        return Err(ColumnsFault::Rows { steps: record.steps, rows: batch.num_rows() });
    }
    Ok(batch)
}

/// Holds a batch against what the step records say. Columns of other names are somebody else's business.
///
/// # Errors
/// With the first difference.
pub(super) fn compare(batch: &RecordBatch, conditions: &Conditions) -> Result<(), ColumnsFault> {
    for (condition, values) in conditions.columns() {
        let found = batch.column_by_name(condition.name).ok_or(ColumnsFault::Missing(condition.name))?;
        let expected = array(values);
        if found.as_ref() == expected.as_ref() {
            continue;
        }
        let shown = |array: &ArrayRef, row: usize| match array.len() > row {
            true => format!("{:?}", array.slice(row, 1)),
            false => "nothing".to_owned(),
        };
        let same = |row: &usize| {
            found.data_type() == expected.data_type()
                && found.len() > *row
                && found.slice(*row, 1).as_ref() == expected.slice(*row, 1).as_ref()
        };
        let row = (0..expected.len()).find(|row| !same(row)).unwrap_or_default();
        let (expected, found) = (shown(&expected, row), shown(found, row));
        return Err(ColumnsFault::Differs { column: condition.name, row, expected, found });
    }
    Ok(())
}

fn batch(conditions: &Conditions) -> Result<RecordBatch, ArrowError> {
    let fields = conditions.columns().map(|(condition, values)| {
        let unit = HashMap::from([(UNIT.to_owned(), condition.unit.name().to_owned())]);
        Field::new(condition.name, data_type(values), true).with_metadata(unit)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, conditions.columns().map(|(_, values)| array(values)).collect())
}

fn data_type(values: &Values) -> DataType {
    match values {
        Values::Small(_) => DataType::UInt32,
        Values::Large(_) => DataType::UInt64,
        Values::Truth(_) => DataType::Boolean,
        Values::Word(_) => DataType::Utf8,
    }
}

fn array(values: &Values) -> ArrayRef {
    match values {
        Values::Small(values) => Arc::new(UInt32Array::from(values.clone())),
        Values::Large(values) => Arc::new(UInt64Array::from(values.clone())),
        Values::Truth(values) => Arc::new(BooleanArray::from(values.clone())),
        Values::Word(values) => Arc::new(StringArray::from(values.clone())),
    }
}
