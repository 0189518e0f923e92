//! The safetensors files of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::read;
use crate::arith::WeightFormat;
use crate::backend::mapped_file::MappedFile;
use crate::model::error::{ModelError, Problem};
use crate::model::tensor_set::{StoredTensor, TensorSet};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// What `model.safetensors.index.json` says: which file has which tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Maps all weights files and collects their tensors.
pub(super) fn open(folder: &Path) -> Result<(TensorSet, Vec<Arc<MappedFile>>), ModelError> {
    let index_path = folder.join(INDEX);
    let Some(index) = read(&index_path)? else {
        let mut tensors = TensorSet::default();
        let file = open_file(&folder.join(SINGLE), &mut tensors)?;
        return Ok((tensors, vec![file]));
    };
    let Index { weight_map } = serde_json::from_slice(&index).map_err(|error| Problem::Json(error).at(&index_path))?;
    let mut tensors = TensorSet::default();
    let mut files = Vec::new();
    for name in weight_map.values().collect::<BTreeSet<_>>() {
        // The index is untrusted: a file elsewhere is none of the model's.
        if Path::new(name).file_name().is_none_or(|file_name| file_name != name.as_str()) {
            let problem = Problem::setting("weight_map", "names of files in this folder", format!("{name:?}"));
            return Err(problem.at(&index_path));
        }
        files.push(open_file(&folder.join(name), &mut tensors)?);
    }
    if let Some(missing) = weight_map.keys().find(|name| tensors.get(name).is_none()) {
        let problem = Problem::tensor(missing, "it in one of the files, as the index says", "no such tensor");
        return Err(problem.at(&index_path));
    }
    Ok((tensors, files))
}

fn open_file(path: &Path, tensors: &mut TensorSet) -> Result<Arc<MappedFile>, ModelError> {
    let file = MappedFile::open(path).map_err(|error| Problem::Io(error).at(path))?;
    let file = Arc::new(file);
    collect(&file, tensors).map_err(|problem| problem.at(path))?;
    Ok(file)
}

/// The library checks that the header's ranges are whole, in order and within the file.
fn collect(file: &Arc<MappedFile>, tensors: &mut TensorSet) -> Result<(), Problem> {
    let malformed = |found: String| Problem::Malformed {
        offset: 0,
        field: "safetensors header".to_owned(),
        expected: "a valid header".to_owned(),
        found,
    };
    let bytes = file.bytes();
    let (header_length, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| malformed(error.to_string()))?;
    let data_start = header_length + size_of::<u64>();
    for (name, info) in metadata.tensors() {
        let format = match info.dtype {
            Dtype::F32 => WeightFormat::F32,
            Dtype::F16 => WeightFormat::F16,
            Dtype::BF16 => WeightFormat::Bf16,
            other => return Err(Problem::tensor(&name, "elements of type F32, F16 or BF16", format!("{other:?}"))),
        };
        let (from, to) = info.data_offsets;
        let range = data_start.saturating_add(from)..data_start.saturating_add(to);
        let elements = info.shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        let length = elements.and_then(|elements| elements.checked_mul(format.block_bytes()));
        if length != Some(range.len()) || range.end > bytes.len() {
            return Err(malformed(format!("tensor {name} with {} bytes for shape {:?}", range.len(), info.shape)));
        }
        let stored = StoredTensor { format, shape: info.shape.clone(), file: Arc::clone(file), range };
        tensors.insert(name, stored)?;
    }
    Ok(())
}
