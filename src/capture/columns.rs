//! Conditions as Arrow record batches, and back.

mod batch;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};

pub use self::batch::{Batch, BatchColumn, Cell, Kind, MAX_COLUMNS, MAX_METADATA_BYTES};
use super::conditions::{Conditions, Values};
use super::limits::short_name;
use super::records::ColumnsRecord;

/// Steps of a batch: what a recorder writes at most, and a reader takes.
pub const STEPS_OF_A_BATCH: usize = 4096;

/// Key of a field's metadata under which its unit stands.
const UNIT: &str = "unit";

/// Why a batch cannot be read, or says something else than the step records.
#[derive(Debug, thiserror::Error)]
pub enum ColumnsFault {
    /// It is no such batch.
    #[error("expected an Arrow IPC stream of one batch of flat columns, found {0}")]
    NotArrow(String),
    /// It has another number of rows.
    #[error("expected a batch of {steps} rows ({STEPS_OF_A_BATCH} at most), found {rows}")]
    Rows {
        /// What the message says.
        steps: u64,
        /// What the batch has.
        rows: i64,
    },
    /// A column is not there.
    #[error("expected a column `{0}`, found none")]
    Missing(&'static str),
    /// A column has another type.
    #[error("column `{column}`: expected the type {expected}, found {found}")]
    Type {
        /// The column.
        column: &'static str,
        /// The type that it has to have.
        expected: &'static str,
        /// The type that it has.
        found: &'static str,
    },
    /// A column says that it counts something else.
    #[error("column `{column}`: expected the unit {expected:?}, found {found}")]
    Unit {
        /// The column.
        column: &'static str,
        /// What it counts.
        expected: &'static str,
        /// What its metadata say.
        found: String,
    },
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
pub fn decode(record: &ColumnsRecord) -> Result<Batch<'_>, ColumnsFault> {
    Batch::read(&record.batch, record.steps as usize)
}

/// Holds a batch against what the records of the last steps say, as many as it has rows. Columns of other names are somebody
/// else's business.
///
/// # Errors
/// With the first difference.
pub(super) fn compare(batch: &Batch<'_>, conditions: &Conditions) -> Result<(), ColumnsFault> {
    let Some(skipped) = conditions.len().checked_sub(batch.rows()) else {
        return Err(ColumnsFault::Rows { steps: conditions.len() as u64, rows: batch.rows() as i64 });
    };
    for (condition, values) in conditions.columns() {
        let column = condition.name;
        let found = batch.column(column).ok_or(ColumnsFault::Missing(column))?;
        let (expected, kind) = (kind(values), found.kind());
        if expected != kind {
            return Err(ColumnsFault::Type { column, expected: expected.name(), found: kind.name() });
        }
        let unit = condition.unit.name();
        if found.unit() != Some(unit) {
            let found = found.unit().map_or("none".to_owned(), |unit| format!("{:?}", short_name(unit)));
            return Err(ColumnsFault::Unit { column, expected: unit, found });
        }
        let differs = |row: &usize| cell(values, skipped + row) != found.cell(*row);
        if let Some(row) = (0..batch.rows()).find(differs) {
            let shown = |cell: Option<Cell<'_>>| cell.map_or("null".to_owned(), |cell| cell.to_string());
            let (expected, found) = (shown(cell(values, skipped + row)), shown(found.cell(row)));
            return Err(ColumnsFault::Differs { column, row, expected, found });
        }
    }
    Ok(())
}

fn batch(conditions: &Conditions) -> Result<RecordBatch, ArrowError> {
    let fields = conditions.columns().map(|(condition, values)| {
        let unit = HashMap::from([(UNIT.to_owned(), condition.unit.name().to_owned())]);
        Field::new(condition.name, data_type(kind(values)), true).with_metadata(unit)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, conditions.columns().map(|(_, values)| array(values)).collect())
}

/// The type that the values have in a batch.
pub(super) fn kind(values: &Values) -> Kind {
    match values {
        Values::Small(_) => Kind::Small,
        Values::Large(_) => Kind::Large,
        Values::Truth(_) => Kind::Truth,
        Values::Word(_) => Kind::Word,
    }
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Small => DataType::UInt32,
        Kind::Large => DataType::UInt64,
        Kind::Truth => DataType::Boolean,
        Kind::Word => DataType::Utf8,
    }
}

fn array(values: &Values) -> ArrayRef {
    match values {
        Values::Small(column) => Arc::new(UInt32Array::from(column.values().to_vec())),
        Values::Large(column) => Arc::new(UInt64Array::from(column.values().to_vec())),
        Values::Truth(column) => Arc::new(BooleanArray::from(column.values().to_vec())),
        Values::Word(column) => Arc::new(StringArray::from(column.values().to_vec())),
    }
}

fn cell(values: &Values, row: usize) -> Option<Cell<'_>> {
    match values {
        Values::Small(column) => column.values().get(row).copied()?.map(Cell::Small),
        Values::Large(column) => column.values().get(row).copied()?.map(Cell::Large),
        Values::Truth(column) => column.values().get(row).copied()?.map(Cell::Truth),
        Values::Word(column) => column.values().get(row).copied()?.map(Cell::Word),
    }
}
