//! Models and requests for the tests of the server.

use std::path::PathBuf;

use serde_json::{Value, json};
use stepscope::incident;
use stepscope::model::synthetic::SyntheticModel;
use tempfile::TempDir;

/// A folder with a model.
pub struct Bench {
    folder: TempDir,
    pub model: PathBuf,
}

impl Bench {
    /// A random model whose sequences may be long.
    pub fn random() -> Self {
        Self::of(&SyntheticModel { context_length: 16_384, ..SyntheticModel::llama(7) })
    }

    pub fn of(model: &SyntheticModel) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        model.write_gguf(&path).unwrap();
        Self { folder, model: path }
    }

    /// The incident's model, which calls tools.
    pub fn incident() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = incident::Files::write(folder.path()).unwrap();
        Self { model: files.target(), folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The first `count` requests of the incident: each has to call one tool.
pub fn calls(count: usize) -> Vec<Value> {
    let body = |line: &str| serde_json::from_str::<Value>(line).unwrap()["body"].clone();
    incident::REQUESTS.lines().take(count).map(body).collect()
}

/// The same body with other fields.
pub fn with(body: &Value, fields: Value) -> Value {
    let mut body = body.clone();
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// A request that goes on until somebody ends it.
pub fn endless(stream: bool) -> Value {
    json!({"prompt": "the order of", "max_tokens": 16_000, "ignore_eos": true, "temperature": 1, "stream": stream})
}
