//! The models of the gates: random ones, small enough to be made each time.

use std::sync::Arc;

use tempfile::TempDir;

use super::GateError;
use crate::model::synthetic::SyntheticModel;
use crate::model::{Model, Tokenizer, write_first_blocks};

/// Decides the weights; any would do.
const SEED: u64 = 23;

/// A hybrid model, its first half as a draft model, and their tokenizer.
pub(super) struct Fixture {
    pub model: Model,
    pub draft: Model,
    pub tokenizer: Arc<Tokenizer>,
    /// The models' weights stay in their files.
    _folder: TempDir,
}

impl Fixture {
    pub fn new() -> Result<Self, GateError> {
        let folder = tempfile::tempdir()?;
        let [model, draft] = ["model.gguf", "draft.gguf"].map(|name| folder.path().join(name));
        SyntheticModel::lfm2(SEED).write_gguf(&model)?;
        write_first_blocks(&model, 2, &draft)?;
        let model = Model::load(&model)?;
        let tokenizer = Arc::clone(&model.tokenizer);
        Ok(Self { model, draft: Model::load(&draft)?, tokenizer, _folder: folder })
    }
}

/// A random model, every matrix in one format, in a folder that lives as long as it.
pub(super) struct SmallModel {
    pub model: Model,
    _folder: TempDir,
}

impl SmallModel {
    pub fn new(description: &SyntheticModel) -> Result<Self, GateError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("model.gguf");
        description.write_gguf(&path)?;
        Ok(Self { model: Model::load(&path)?, _folder: folder })
    }
}
