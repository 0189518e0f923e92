//! Writing GGUF files, version 3.

use std::io::{self, Write};

use super::metadata::type_id;
use super::{Array, DEFAULT_ALIGNMENT, MAGIC, Value, tensors};
use crate::arith::WeightFormat;

/// Collects metadata and tensors, and writes them as one file.
#[derive(Default)]
pub(crate) struct GgufWriter {
    metadata: Vec<(String, Value)>,
    tensors: Vec<PendingTensor>,
}

struct PendingTensor {
    name: String,
    format: WeightFormat,
    dimensions: Vec<usize>,
    data: Vec<u8>,
}

impl GgufWriter {
    /// Adds a pair, in file order.
    pub(crate) fn metadata(&mut self, key: &str, value: Value) {
        self.metadata.push((key.to_owned(), value));
    }

    /// Adds a tensor, in file order; dimensions are fastest-varying first.
    pub(crate) fn tensor(&mut self, name: &str, format: WeightFormat, dimensions: &[usize], data: Vec<u8>) {
        self.tensors.push(PendingTensor { name: name.to_owned(), format, dimensions: dimensions.to_vec(), data });
    }

    /// Writes the file.
    pub(crate) fn write(&self, mut out: impl Write) -> io::Result<()> {
        let head = self.head();
        out.write_all(&head)?;
        write_padding(&mut out, head.len())?;
        for tensor in &self.tensors {
            out.write_all(&tensor.data)?;
            write_padding(&mut out, tensor.data.len())?;
        }
        out.flush()
    }

    fn head(&self) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend(3_u32.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_text(&mut head, key);
            put_value(&mut head, value);
        }
        let mut offset = 0_u64;
        for tensor in &self.tensors {
            put_text(&mut head, &tensor.name);
            head.extend((tensor.dimensions.len() as u32).to_le_bytes());
            for size in &tensor.dimensions {
                head.extend((*size as u64).to_le_bytes());
            }
            head.extend(tensors::type_of(tensor.format).to_le_bytes());
            head.extend(offset.to_le_bytes());
            offset = (offset + tensor.data.len() as u64).next_multiple_of(DEFAULT_ALIGNMENT);
        }
        head
    }
}

fn write_padding(out: &mut impl Write, written: usize) -> io::Result<()> {
    let padding = written.next_multiple_of(DEFAULT_ALIGNMENT as usize) - written;
    out.write_all(&[0; DEFAULT_ALIGNMENT as usize][..padding])
}

fn put_text(head: &mut Vec<u8>, text: &str) {
    head.extend((text.len() as u64).to_le_bytes());
    head.extend(text.as_bytes());
}

/// Unsigned and signed numbers are written with 32 bits where they fit, floats with 32, as other writers do.
fn put_value(head: &mut Vec<u8>, value: &Value) {
    let start = head.len();
    head.extend([0; 4]);
    let type_id = match value {
        Value::Unsigned(number) => put_unsigned(head, std::slice::from_ref(number)),
        Value::Signed(number) => put_signed(head, std::slice::from_ref(number)),
        Value::Float(number) => put_floats(head, std::slice::from_ref(number)),
        Value::Bool(value) => put_booleans(head, std::slice::from_ref(value)),
        Value::Text(text) => put_texts(head, std::slice::from_ref(text)),
        Value::Array(array) => put_array(head, array),
    };
    head[start..start + 4].copy_from_slice(&type_id.to_le_bytes());
}

fn put_array(head: &mut Vec<u8>, array: &Array) -> u32 {
    let start = head.len();
    head.extend([0; 4]);
    let count = match array {
        Array::Unsigned(numbers) => numbers.len(),
        Array::Signed(numbers) => numbers.len(),
        Array::Float(numbers) => numbers.len(),
        Array::Bool(values) => values.len(),
        Array::Text(texts) => texts.len(),
    };
    head.extend((count as u64).to_le_bytes());
    let element_type = match array {
        Array::Unsigned(numbers) => put_unsigned(head, numbers),
        Array::Signed(numbers) => put_signed(head, numbers),
        Array::Float(numbers) => put_floats(head, numbers),
        Array::Bool(values) => put_booleans(head, values),
        Array::Text(texts) => put_texts(head, texts),
    };
    head[start..start + 4].copy_from_slice(&element_type.to_le_bytes());
    type_id::ARRAY
}

fn put_unsigned(head: &mut Vec<u8>, numbers: &[u64]) -> u32 {
    if let Ok(narrow) = numbers.iter().map(|number| u32::try_from(*number)).collect::<Result<Vec<_>, _>>() {
        head.extend(narrow.iter().flat_map(|number| number.to_le_bytes()));
        return type_id::U32;
    }
    head.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    type_id::U64
}

fn put_signed(head: &mut Vec<u8>, numbers: &[i64]) -> u32 {
    if let Ok(narrow) = numbers.iter().map(|number| i32::try_from(*number)).collect::<Result<Vec<_>, _>>() {
        head.extend(narrow.iter().flat_map(|number| number.to_le_bytes()));
        return type_id::I32;
    }
    head.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    type_id::I64
}

fn put_floats(head: &mut Vec<u8>, numbers: &[f64]) -> u32 {
    head.extend(numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()));
    type_id::F32
}

fn put_booleans(head: &mut Vec<u8>, values: &[bool]) -> u32 {
    head.extend(values.iter().map(|value| u8::from(*value)));
    type_id::BOOL
}

fn put_texts(head: &mut Vec<u8>, texts: &[String]) -> u32 {
    for text in texts {
        put_text(head, text);
    }
    type_id::TEXT
}
