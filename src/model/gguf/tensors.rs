//! The tensor descriptions of a GGUF file.

use std::collections::HashSet;
use std::ops::Range;

use super::cursor::{Cursor, malformed};
use crate::arith::WeightFormat;
use crate::model::error::Problem;

/// Bytes of the smallest description: an empty name, a dimension count, one dimension, a type and an offset.
pub(super) const SMALLEST_DESCRIPTION: usize = 8 + 4 + 8 + 4 + 8;
/// Most dimensions that the format allows.
const MOST_DIMENSIONS: u32 = 4;

/// One tensor, with its bytes checked to lie within the file and apart from every other's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TensorInfo {
    pub(crate) name: String,
    pub(crate) format: WeightFormat,
    /// Fastest-varying first, as in the file: the columns of a matrix, then its rows.
    pub(crate) dimensions: Vec<usize>,
    /// Where its bytes stand in the file.
    pub(crate) range: Range<usize>,
}

/// Numbers of the tensor types that this build computes with.
pub(super) fn format_of(type_id: u32) -> Option<WeightFormat> {
    Some(match type_id {
        0 => WeightFormat::F32,
        1 => WeightFormat::F16,
        2 => WeightFormat::Q4_0,
        3 => WeightFormat::Q4_1,
        8 => WeightFormat::Q8_0,
        12 => WeightFormat::Q4K,
        14 => WeightFormat::Q6K,
        30 => WeightFormat::Bf16,
        _ => return None,
    })
}

/// The type number of a format.
pub(super) fn type_of(format: WeightFormat) -> u32 {
    match format {
        WeightFormat::F32 => 0,
        WeightFormat::F16 => 1,
        WeightFormat::Q4_0 => 2,
        WeightFormat::Q4_1 => 3,
        WeightFormat::Q8_0 => 8,
        WeightFormat::Q4K => 12,
        WeightFormat::Q6K => 14,
        WeightFormat::Bf16 => 30,
    }
}

const SUPPORTED: &str = "F32 (0), F16 (1), Q4_0 (2), Q4_1 (3), Q8_0 (8), Q4_K (12), Q6_K (14) or BF16 (30)";

/// Names of types that are common in files but not computed with, for the error message.
fn name_of_unsupported(type_id: u32) -> String {
    let name = match type_id {
        6 => "Q5_0",
        7 => "Q5_1",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        13 => "Q5_K",
        15 => "Q8_K",
        16..=23 | 29 => "an i-quant",
        24..=27 => "an integer type",
        28 => "F64",
        34 | 35 => "a ternary type",
        39 => "MXFP4",
        _ => return type_id.to_string(),
    };
    format!("{name} ({type_id})")
}

/// A description as it stands in the file, before its data's place is known.
struct Description {
    /// Of the description itself, for messages.
    start: usize,
    name: String,
    format: WeightFormat,
    dimensions: Vec<usize>,
    /// Of the data, from the start of the data section.
    offset: u64,
    bytes: usize,
}

/// Reads `count` descriptions, and places their data behind them at the next multiple of `alignment`.
pub(super) fn read(cursor: &mut Cursor<'_>, count: usize, alignment: u64) -> Result<Vec<TensorInfo>, Problem> {
    let mut names = HashSet::new();
    let mut descriptions = Vec::new();
    for _ in 0..count {
        let description = read_description(cursor, alignment)?;
        if !names.insert(description.name.clone()) {
            let found = format!("{:?} again", description.name);
            return Err(malformed(description.start, "tensor name", "each name once", found));
        }
        descriptions.push(description);
    }
    let data_start = (cursor.offset() as u64).next_multiple_of(alignment);
    let tensors = descriptions
        .into_iter()
        .map(|description| place(description, data_start, cursor.file_length()))
        .collect::<Result<Vec<_>, _>>()?;
    check_apart(&tensors)?;
    Ok(tensors)
}

fn read_description(cursor: &mut Cursor<'_>, alignment: u64) -> Result<Description, Problem> {
    let start = cursor.offset();
    let name = cursor.text("tensor name")?.to_owned();

    let count_start = cursor.offset();
    let count = cursor.u32(&name)?;
    if !(1..=MOST_DIMENSIONS).contains(&count) {
        return Err(malformed(count_start, &name, format!("1 to {MOST_DIMENSIONS} dimensions"), count));
    }
    let dimensions_start = cursor.offset();
    let dimensions = (0..count).map(|_| cursor.u64(&name)).collect::<Result<Vec<_>, _>>()?;

    let type_start = cursor.offset();
    let type_id = cursor.u32(&name)?;
    let format = format_of(type_id).ok_or_else(|| {
        malformed(type_start, &format!("type of tensor {name}"), SUPPORTED, name_of_unsupported(type_id))
    })?;
    let (dimensions, bytes) = size_in_bytes(&dimensions, format).ok_or_else(|| {
        let expected = format!("positive dimensions, the first a multiple of {}", format.block_elements());
        malformed(dimensions_start, &name, expected, format!("{dimensions:?}"))
    })?;

    let offset_start = cursor.offset();
    let offset = cursor.u64(&name)?;
    if !offset.is_multiple_of(alignment) {
        return Err(malformed(offset_start, &name, format!("an offset that is a multiple of {alignment}"), offset));
    }
    Ok(Description { start, name, format, dimensions, offset, bytes })
}

/// The dimensions as sizes and the length of the data; `None` if either does not fit or rows are no whole blocks.
fn size_in_bytes(dimensions: &[u64], format: WeightFormat) -> Option<(Vec<usize>, usize)> {
    let dimensions = dimensions.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<Vec<_>>>()?;
    let (columns, outer) = dimensions.split_first()?;
    let rows = outer.iter().try_fold(1_usize, |rows, size| rows.checked_mul(*size))?;
    if *columns == 0 || rows == 0 {
        return None;
    }
    let bytes = format.row_bytes(*columns)?.checked_mul(rows)?;
    Some((dimensions, bytes))
}

fn place(description: Description, data_start: u64, file_length: usize) -> Result<TensorInfo, Problem> {
    let Description { start, name, format, dimensions, offset, bytes } = description;
    let range = data_start.checked_add(offset).and_then(|from| {
        let from = usize::try_from(from).ok()?;
        let to = from.checked_add(bytes)?;
        (to <= file_length).then_some(from..to)
    });
    let Some(range) = range else {
        let expected = format!("data within the {file_length} bytes of the file");
        let found = format!("{bytes} bytes at offset {offset} of the data, which begins at byte {data_start}");
        return Err(malformed(start, &format!("tensor {name}"), expected, found));
    };
    Ok(TensorInfo { name, format, dimensions, range })
}

/// Data that two tensors share would be no fault of arithmetic, but of the file.
fn check_apart(tensors: &[TensorInfo]) -> Result<(), Problem> {
    let mut by_place = tensors.iter().collect::<Vec<_>>();
    by_place.sort_by_key(|tensor| tensor.range.start);
    let overlapping = by_place.windows(2).find_map(|pair| match pair {
        [first, second] if second.range.start < first.range.end => Some((*first, *second)),
        _ => None,
    });
    let Some((first, second)) = overlapping else { return Ok(()) };
    let expected = format!("data behind that of {}, which ends at byte {}", first.name, first.range.end);
    Err(malformed(second.range.start, &format!("tensor {}", second.name), expected, "data that overlaps it"))
}
