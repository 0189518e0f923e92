//! GGUF files, versions 2 and 3: one file with metadata, tokenizer and weights.
//!
//! Layout: magic, version, counts, metadata pairs, tensor descriptions, padding, tensor data. All numbers are
//! little-endian. The format's text is `docs/gguf.md` in the ggml repository.

mod cursor;
mod metadata;
mod tensors;
mod writer;

use std::path::Path;
use std::sync::Arc;

pub(crate) use metadata::{Array, Metadata, Value, required};
pub(crate) use tensors::TensorInfo;
pub(crate) use writer::GgufWriter;

use self::cursor::Cursor;
use crate::backend::mapped_file::MappedFile;
use crate::model::error::{ModelError, Problem};

const MAGIC: &[u8; 4] = b"GGUF";
/// Where tensor data is aligned to unless the metadata says otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;

/// A GGUF file whose descriptions have all been checked against its length.
pub(crate) struct GgufFile {
    pub(crate) file: Arc<MappedFile>,
    pub(crate) contents: Contents,
}

/// What the file describes.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<TensorInfo>,
}

impl GgufFile {
    /// Maps and checks `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let file = MappedFile::open(path).map_err(|error| Problem::Io(error).at(path))?;
        let contents = Contents::read(file.bytes()).map_err(|problem| problem.at(path))?;
        Ok(Self { file: Arc::new(file), contents })
    }
}

impl Contents {
    /// Reads and checks the descriptions of a whole file.
    pub(crate) fn read(file: &[u8]) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(file);
        check_magic_and_version(&mut cursor)?;
        let tensor_count = cursor.count("tensor count", tensors::SMALLEST_DESCRIPTION)?;
        let metadata_count = cursor.count("metadata count", metadata::SMALLEST_PAIR)?;
        let metadata = Metadata::read(&mut cursor, metadata_count)?;
        let alignment = alignment(&metadata)?;
        let tensors = tensors::read(&mut cursor, tensor_count, alignment)?;
        Ok(Self { metadata, tensors })
    }
}

fn check_magic_and_version(cursor: &mut Cursor<'_>) -> Result<(), Problem> {
    let start = cursor.offset();
    let magic = cursor.take(MAGIC.len(), "magic")?;
    if magic != MAGIC {
        return Err(cursor::malformed(start, "magic", "\"GGUF\"", format!("\"{}\"", magic.escape_ascii())));
    }
    let start = cursor.offset();
    let version = cursor.u32("version")?;
    match version {
        2 | 3 => Ok(()),
        _ if matches!(version.swap_bytes(), 2 | 3) => {
            Err(cursor::malformed(start, "version", "a little-endian file", "a big-endian one"))
        }
        _ => Err(cursor::malformed(start, "version", "2 or 3", version)),
    }
}

/// Alignment of the tensor data, as the metadata says.
fn alignment(metadata: &Metadata) -> Result<u64, Problem> {
    const KEY: &str = "general.alignment";
    const LARGEST: u64 = 1 << 20;
    let Some(alignment) = metadata.unsigned(KEY)? else { return Ok(DEFAULT_ALIGNMENT) };
    if alignment.is_power_of_two() && (8..=LARGEST).contains(&alignment) {
        Ok(alignment)
    } else {
        Err(Problem::setting(KEY, format!("a power of two from 8 to {LARGEST}"), alignment.to_string()))
    }
}

#[cfg(test)]
mod tests;
