//! A batch of flat columns out of an Arrow IPC stream, as untrusted input.
//!
//! Arrow's accessors verify the metadata, which are short. Of the body nothing is copied: each buffer is held against the
//! bytes that are there, and values are read where they stand.

use std::collections::HashSet;
use std::fmt;

use arrow_ipc::{Buffer, Endianness, Field, FieldNode, Message, MetadataVersion, Schema, Type, root_as_message};

use super::super::limits::short_name;
use super::{ColumnsFault, STEPS_OF_A_BATCH, UNIT};

/// Most columns of a batch.
pub const MAX_COLUMNS: usize = 256;
/// Longest metadata of a message of the stream, in bytes: the schema, and the description of the batch.
pub const MAX_METADATA_BYTES: usize = 256 << 10;

/// What every message of the stream begins with, and how the stream ends.
const CONTINUATION: [u8; 4] = [0xff; 4];
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// A record batch, whose columns all have as many rows.
#[derive(Debug)]
pub struct Batch<'a> {
    rows: usize,
    columns: Vec<BatchColumn<'a>>,
}

/// One column of a batch.
#[derive(Debug)]
pub struct BatchColumn<'a> {
    name: &'a str,
    unit: Option<&'a str>,
    /// One bit per row, lowest first: 0 is null. Nothing is null without it.
    validity: Option<&'a [u8]>,
    values: CellValues<'a>,
}

#[derive(Debug)]
enum CellValues<'a> {
    Small(&'a [[u8; 4]]),
    Large(&'a [[u8; 8]]),
    /// One bit per row, lowest first.
    Truth(&'a [u8]),
    Word(Vec<&'a str>),
}

/// The types that columns may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `uint32`.
    Small,
    /// `uint64`.
    Large,
    /// `bool`.
    Truth,
    /// `utf8`.
    Word,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// Of a [`Kind::Small`] column.
    Small(u32),
    /// Of a [`Kind::Large`] column.
    Large(u64),
    /// Of a [`Kind::Truth`] column.
    Truth(bool),
    /// Of a [`Kind::Word`] column.
    Word(&'a str),
}

impl<'a> Batch<'a> {
    /// Reads a stream of a schema, one batch of `rows` rows, and the end.
    pub(super) fn read(mut stream: &'a [u8], rows: usize) -> Result<Self, ColumnsFault> {
        let fault = ColumnsFault::NotArrow;
        let (schema, body) = next_message(&mut stream).map_err(fault)?;
        let schema = schema.header_as_schema().filter(|_| body.is_empty());
        let fields = schema
            .ok_or_else(|| fault("another message in the schema's place".to_owned()))
            .and_then(|schema| fields(schema).map_err(fault))?;
        let (batch, body) = next_message(&mut stream).map_err(fault)?;
        let Some(batch) = batch.header_as_record_batch() else {
            return Err(fault("another message in the batch's place".to_owned()));
        };
        if batch.length() != rows as i64 || rows > STEPS_OF_A_BATCH {
            return Err(ColumnsFault::Rows { steps: rows as u64, rows: batch.length() });
        }
        if batch.compression().is_some() {
            return Err(fault("a compressed body".to_owned()));
        }
        let mut buffers = Buffers { left: batch.buffers().into_iter().flatten(), body, end: 0 };
        let nodes = batch.nodes().map_or(0, |nodes| nodes.len());
        if nodes != fields.len() {
            return Err(fault(format!("{nodes} nodes of {} columns", fields.len())));
        }
        let columns = fields.into_iter().zip(batch.nodes().into_iter().flatten()).map(|(field, node)| {
            let of_column = |what| fault(format!("{what} in column {:?}", short_name(field.name)));
            field.column(*node, rows, &mut buffers).map_err(of_column)
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        if buffers.left.next().is_some() {
            return Err(fault("more buffers than its columns have".to_owned()));
        }
        if stream != END {
            return Err(fault("something else than the mark of the end after the batch".to_owned()));
        }
        Ok(Self { rows, columns })
    }

    /// How many rows each column has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns, in order; names differ.
    pub fn columns(&self) -> &[BatchColumn<'a>] {
        &self.columns
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&BatchColumn<'a>> {
        self.columns.iter().find(|column| column.name == name)
    }
}

impl<'a> BatchColumn<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// What its metadata say that it counts.
    pub fn unit(&self) -> Option<&'a str> {
        self.unit
    }

    /// The type of its values.
    pub fn kind(&self) -> Kind {
        match self.values {
            CellValues::Small(_) => Kind::Small,
            CellValues::Large(_) => Kind::Large,
            CellValues::Truth(_) => Kind::Truth,
            CellValues::Word(_) => Kind::Word,
        }
    }

    /// The value of a row; `None` is null, or a row that is not there.
    pub fn cell(&self, row: usize) -> Option<Cell<'a>> {
        if self.validity.is_some_and(|validity| bit(validity, row) != Some(true)) {
            return None;
        }
        match &self.values {
            CellValues::Small(values) => values.get(row).map(|value| Cell::Small(u32::from_le_bytes(*value))),
            CellValues::Large(values) => values.get(row).map(|value| Cell::Large(u64::from_le_bytes(*value))),
            CellValues::Truth(values) => bit(values, row).map(Cell::Truth),
            CellValues::Word(values) => values.get(row).copied().map(Cell::Word),
        }
    }
}

impl Kind {
    /// Arrow's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "uint32",
            Self::Large => "uint64",
            Self::Truth => "bool",
            Self::Word => "utf8",
        }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small(value) => value.fmt(formatter),
            Self::Large(value) => value.fmt(formatter),
            Self::Truth(value) => value.fmt(formatter),
            Self::Word(value) => write!(formatter, "{:?}", short_name(value)),
        }
    }
}

/// A column as the schema declares it.
struct Declared<'a> {
    name: &'a str,
    unit: Option<&'a str>,
    kind: Kind,
}

impl<'a> Declared<'a> {
    /// Takes the column's buffers.
    fn column(
        &self,
        node: FieldNode,
        rows: usize,
        buffers: &mut Buffers<'a, impl Iterator<Item = &'a Buffer>>,
    ) -> Result<BatchColumn<'a>, String> {
        if node.length() != rows as i64 || !(0..=node.length()).contains(&node.null_count()) {
            return Err(format!("{} values and {} nulls in {rows} rows", node.length(), node.null_count()));
        }
        let validity = buffers.next()?;
        let validity = (node.null_count() > 0).then(|| at_least(validity, rows.div_ceil(8))).transpose()?;
        if let Some(validity) = validity {
            let nulls = (0..rows).filter(|row| bit(validity, *row) == Some(false)).count();
            if nulls as i64 != node.null_count() {
                return Err(format!("{nulls} nulls where {} are said", node.null_count()));
            }
        }
        let values = match self.kind {
            Kind::Small => CellValues::Small(at_least(buffers.next()?, rows * 4)?.as_chunks().0),
            Kind::Large => CellValues::Large(at_least(buffers.next()?, rows * 8)?.as_chunks().0),
            Kind::Truth => CellValues::Truth(at_least(buffers.next()?, rows.div_ceil(8))?),
            Kind::Word => {
                let offsets = buffers.next()?;
                CellValues::Word(words(offsets, buffers.next()?, rows)?)
            }
        };
        Ok(BatchColumn { name: self.name, unit: self.unit, validity, values })
    }
}

/// The buffers that are left, each within the body and behind the one before.
struct Buffers<'a, I> {
    left: I,
    body: &'a [u8],
    end: usize,
}

impl<'a, I: Iterator<Item = &'a Buffer>> Buffers<'a, I> {
    fn next(&mut self) -> Result<&'a [u8], String> {
        let buffer = self.left.next().ok_or("too few buffers")?;
        if buffer.length() == 0 {
            return Ok(&[]);
        }
        let start = usize::try_from(buffer.offset()).ok();
        let end =
            start.zip(usize::try_from(buffer.length()).ok()).and_then(|(start, length)| start.checked_add(length));
        let range = start.filter(|start| *start >= self.end).zip(end);
        let bytes = range.and_then(|(start, end)| self.body.get(start..end));
        self.end = end.unwrap_or(self.end);
        bytes.ok_or_else(|| {
            let (at, length, body) = (buffer.offset(), buffer.length(), self.body.len());
            format!("a buffer of {length} bytes at {at} that overlaps one before, or is not within the {body} bytes of the body,")
        })
    }
}

/// The next message of the stream, and its body.
fn next_message<'a>(stream: &mut &'a [u8]) -> Result<(Message<'a>, &'a [u8]), String> {
    let start = take(stream, 8).ok_or("the end before a batch")?;
    let (continuation, length) = start.split_at(4);
    let length = length.try_into().map_or(0, u32::from_le_bytes) as usize;
    if continuation != CONTINUATION {
        return Err("no continuation marker before a message".to_owned());
    }
    if length > MAX_METADATA_BYTES {
        return Err(format!("{length} bytes of metadata, where {MAX_METADATA_BYTES} are the most"));
    }
    let metadata = take(stream, length).filter(|_| length > 0).ok_or("the end before a batch")?;
    let message = root_as_message(metadata).map_err(|error| {
        let words = error.to_string();
        format!("metadata that make no sense: {}", words.lines().next().unwrap_or_default())
    })?;
    if !matches!(message.version(), MetadataVersion::V4 | MetadataVersion::V5) {
        return Err("metadata of another version than V4 or V5".to_owned());
    }
    let body = usize::try_from(message.bodyLength()).ok().and_then(|length| take(stream, length));
    Ok((message, body.ok_or("a body that is not all there")?))
}

/// The columns that the schema declares.
fn fields(schema: Schema<'_>) -> Result<Vec<Declared<'_>>, String> {
    if schema.endianness() != Endianness::Little {
        return Err("values in big-endian order".to_owned());
    }
    let count = schema.fields().map_or(0, |fields| fields.len());
    if count > MAX_COLUMNS {
        return Err(format!("{count} columns, where {MAX_COLUMNS} are the most"));
    }
    let mut names = HashSet::new();
    let declared = schema.fields().into_iter().flatten().map(|field| {
        let name = field.name().unwrap_or_default();
        if !names.insert(name) {
            return Err(format!("two columns {:?}", short_name(name)));
        }
        let kind = kind(field).map_err(|found| format!("a column {:?} of type {found}", short_name(name)))?;
        let metadata = field.custom_metadata().into_iter().flatten();
        let unit = metadata.filter(|entry| entry.key() == Some(UNIT)).find_map(|entry| entry.value());
        Ok(Declared { name, unit, kind })
    });
    declared.collect()
}

/// A field's type, or its name if columns cannot have it.
fn kind(field: Field<'_>) -> Result<Kind, String> {
    if field.dictionary().is_some() {
        return Err("dictionary".to_owned());
    }
    match (field.type_type(), field.type_as_int().map(|int| (int.bitWidth(), int.is_signed()))) {
        (Type::Int, Some((32, false))) => Ok(Kind::Small),
        (Type::Int, Some((64, false))) => Ok(Kind::Large),
        (Type::Int, Some((bits, is_signed))) => Err(format!("{}int{bits}", if is_signed { "" } else { "u" })),
        (Type::Bool, _) => Ok(Kind::Truth),
        (Type::Utf8, _) => Ok(Kind::Word),
        (other, _) => Err(other.variant_name().unwrap_or("unknown").to_owned()),
    }
}

/// The words between each two offsets.
fn words<'a>(offsets: &'a [u8], bytes: &'a [u8], rows: usize) -> Result<Vec<&'a str>, String> {
    // A column of no rows may have no offsets.
    let offsets = at_least(offsets, if rows == 0 { 0 } else { (rows + 1) * 4 })?;
    let offsets = offsets.as_chunks().0.iter().take(rows + 1).map(|offset| i32::from_le_bytes(*offset));
    let offsets: Vec<usize> = offsets.map(|offset| usize::try_from(offset).unwrap_or(usize::MAX)).collect();
    let words = offsets.windows(2).map(|pair| match pair {
        [start, end] => bytes.get(*start..*end).and_then(|word| std::str::from_utf8(word).ok()),
        _ => None,
    });
    words.collect::<Option<Vec<_>>>().ok_or_else(|| "offsets or text that make no sense".to_owned())
}

fn at_least(bytes: &[u8], length: usize) -> Result<&[u8], String> {
    let wrong = || format!("a buffer of {} bytes, where {length} are needed,", bytes.len());
    (bytes.len() >= length).then_some(bytes).ok_or_else(wrong)
}

fn take<'a>(stream: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = stream.split_at_checked(length)?;
    *stream = rest;
    Some(taken)
}

fn bit(bits: &[u8], index: usize) -> Option<bool> {
    bits.get(index / 8).map(|byte| byte >> (index % 8) & 1 == 1)
}
