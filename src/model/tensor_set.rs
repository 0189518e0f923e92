//! The tensors of a model's files by name, whatever the container, taken out one by one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::arith::WeightFormat;
use crate::backend::mapped_file::MappedFile;
use crate::model::error::Problem;
use crate::model::weights::Tensor;

/// A tensor as it stands in a file. Its range lies within the file and fits its shape: the reader has checked.
#[derive(Clone)]
pub(crate) struct StoredTensor {
    pub(crate) format: WeightFormat,
    /// Slowest-varying first: the rows of a matrix, then its columns.
    pub(crate) shape: Vec<usize>,
    pub(crate) file: Arc<MappedFile>,
    pub(crate) range: Range<usize>,
}

/// Tensors that nobody has asked for yet. What is left in the end is something that this build does not know, and
/// leaving it out would compute another model.
#[derive(Default)]
pub(crate) struct TensorSet {
    tensors: BTreeMap<String, StoredTensor>,
}

impl TensorSet {
    /// Adds a tensor; names are unique.
    pub(crate) fn insert(&mut self, name: String, tensor: StoredTensor) -> Result<(), Problem> {
        if self.tensors.contains_key(&name) {
            return Err(Problem::tensor(&name, "each name once", "it again"));
        }
        self.tensors.insert(name, tensor);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&StoredTensor> {
        self.tensors.get(name)
    }

    /// Takes the tensor of that name and shape; dimensions of 1 do not count.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<StoredTensor, Problem> {
        let expected = || format!("shape {shape:?}");
        let tensor = self.tensors.remove(name).ok_or_else(|| Problem::tensor(name, expected(), "no such tensor"))?;
        let proper = |shape: &[usize]| shape.iter().copied().filter(|size| *size != 1).collect::<Vec<_>>();
        if proper(&tensor.shape) != proper(shape) {
            return Err(Problem::tensor(name, expected(), format!("{:?}", tensor.shape)));
        }
        Ok(tensor)
    }

    /// Takes a matrix.
    pub(crate) fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Tensor, Problem> {
        let StoredTensor { format, file, range, .. } = self.take(name, &[rows, columns])?;
        Tensor::new(name, format, rows, columns, file, range)
    }

    /// Takes a float tensor as f32 values.
    pub(crate) fn values(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Problem> {
        let StoredTensor { format, file, range, .. } = self.take(name, shape)?;
        let bytes = file.bytes().get(range).unwrap_or_default();
        match format {
            WeightFormat::F32 => Ok(elements(bytes, f32::from_le_bytes)),
            WeightFormat::F16 => Ok(elements(bytes, |pair| half::f16::from_le_bytes(pair).to_f32())),
            WeightFormat::Bf16 => Ok(elements(bytes, |pair| half::bf16::from_le_bytes(pair).to_f32())),
            quantized => Err(Problem::tensor(name, "F32, F16 or BF16 elements", format!("{quantized:?}"))),
        }
    }

    /// Demands that every tensor was taken.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        let Some((name, tensor)) = self.tensors.first_key_value() else { return Ok(()) };
        let others = self.tensors.len() - 1;
        let what = if name.ends_with(".bias") { "a bias, which this build does not compute with" } else { "it" };
        let found = format!("{what} (shape {:?}; {others} more unexpected tensors)", tensor.shape);
        Err(Problem::tensor(name, "no tensor of that name in this architecture", found))
    }
}

fn elements<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|element| convert(*element)).collect()
}
