//! The same model with every tensor as f32: the reference that quantized arithmetic is judged by.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use super::error::{ModelError, Problem};
use super::gguf::{GgufFile, GgufWriter};
use crate::arith::{MatrixView, WeightFormat, scalar};

/// Writes the GGUF file `source` to `target` with every tensor dequantized to f32, as the arithmetic contract defines it.
///
/// # Errors
/// If `source` is no GGUF file that can be read, or `target` cannot be written.
pub fn write_dequantized(source: &Path, target: &Path) -> Result<(), ModelError> {
    let gguf = GgufFile::open(source)?;
    let mut writer = GgufWriter::default();
    for (key, value) in gguf.contents.metadata.iter() {
        // The writer has an alignment of its own.
        if key != "general.alignment" {
            writer.metadata(key, value.clone());
        }
    }
    for tensor in &gguf.contents.tensors {
        let columns = tensor.dimensions.first().copied().unwrap_or(1);
        let rows: usize = tensor.dimensions.iter().skip(1).product();
        let bytes = &gguf.file.bytes()[tensor.range.clone()];
        let matrix = MatrixView::new(tensor.format, rows, columns, bytes)
            .map_err(|error| Problem::tensor(&tensor.name, "bytes that fill its rows", error.to_string()).at(source))?;
        let mut data = Vec::with_capacity(rows * columns * size_of::<f32>());
        let mut row = vec![0.0; columns];
        for index in 0..rows {
            scalar::dequantize_row(&matrix, index, &mut row);
            data.extend(row.iter().flat_map(|value| value.to_le_bytes()));
        }
        writer.tensor(&tensor.name, WeightFormat::F32, &tensor.dimensions, data);
    }
    let file = File::create(target).map_err(|error| Problem::Io(error).at(target))?;
    writer.write(BufWriter::new(file)).map_err(|error| Problem::Io(error).at(target))
}
