//! The first blocks of a model as a model: a draft model that is right often enough to be of use in tests.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use super::error::{ModelError, Problem};
use super::gguf::{Array, GgufFile, GgufWriter, Value};

/// Writes a GGUF file with the first `blocks` blocks of `source`, and everything else of it, to `target`.
///
/// # Errors
/// If `source` is no GGUF file with at least as many blocks, or `target` cannot be written.
pub fn write_first_blocks(source: &Path, blocks: usize, target: &Path) -> Result<(), ModelError> {
    let gguf = GgufFile::open(source)?;
    let all =
        block_count(&gguf).ok_or_else(|| Problem::setting("block_count", "a number of blocks", "none").at(source))?;
    if !(1..=all).contains(&blocks) {
        return Err(Problem::setting("blocks to keep", format!("1 to {all}"), blocks.to_string()).at(source));
    }
    let mut writer = GgufWriter::default();
    for (key, value) in gguf.contents.metadata.iter() {
        match value {
            // The writer has an alignment of its own.
            _ if key == "general.alignment" => {}
            _ if key.ends_with(".block_count") => writer.metadata(key, Value::Unsigned(blocks as u64)),
            Value::Array(array) if !key.starts_with("tokenizer.") => {
                writer.metadata(key, Value::Array(first(array, all, blocks)));
            }
            value => writer.metadata(key, value.clone()),
        }
    }
    for tensor in
        gguf.contents.tensors.iter().filter(|tensor| block_of(&tensor.name).is_none_or(|block| block < blocks))
    {
        let data = gguf.file.bytes()[tensor.range.clone()].to_vec();
        writer.tensor(&tensor.name, tensor.format, &tensor.dimensions, data);
    }
    let file = File::create(target).map_err(|error| Problem::Io(error).at(target))?;
    writer.write(BufWriter::new(file)).map_err(|error| Problem::Io(error).at(target))
}

fn block_count(gguf: &GgufFile) -> Option<usize> {
    let is_count = |key: &str| key.ends_with(".block_count");
    gguf.contents.metadata.iter().find(|(key, _)| is_count(key)).and_then(|(_, value)| match value {
        Value::Unsigned(count) => usize::try_from(*count).ok(),
        _ => None,
    })
}

/// The block that a tensor belongs to: `blk.7.attn_q.weight` is of block 7.
fn block_of(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// What an array with one element per block has of the first blocks; any other array as it is.
fn first(array: &Array, all: usize, blocks: usize) -> Array {
    fn cut<T: Clone>(values: &[T], all: usize, blocks: usize) -> Vec<T> {
        if values.len() == all { values[..blocks].to_vec() } else { values.to_vec() }
    }
    match array {
        Array::Unsigned(values) => Array::Unsigned(cut(values, all, blocks)),
        Array::Signed(values) => Array::Signed(cut(values, all, blocks)),
        Array::Float(values) => Array::Float(cut(values, all, blocks)),
        Array::Bool(values) => Array::Bool(cut(values, all, blocks)),
        Array::Text(values) => Array::Text(cut(values, all, blocks)),
    }
}
