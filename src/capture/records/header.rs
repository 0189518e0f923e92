//! The `header` channel: what made a capture, and under which rules.

use serde::{Deserialize, Serialize};

use super::super::wire;
use crate::hash::{Hash, Labelled};

/// The first message of a capture: what made it, and under which rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT_VERSION`](super::FORMAT_VERSION) of the writer.
    pub format_version: u32,
    /// The recorder: program, version, and what it was built from.
    pub recorder: Recorder,
    /// Whose rules hold for sampling and acceptance: `stepscope`, `vllm`, `sglang`, `llama.cpp`, ...
    pub sampler_semantics: String,
    /// Version of the arithmetic contract; `None` for an engine that has none.
    pub arithmetic_version: Option<u32>,
    /// Nanoseconds since the Unix epoch at monotonic time 0.
    #[serde(with = "wire")]
    pub epoch_ns: u64,
    /// The model, if known.
    pub model: Option<ModelIdentity>,
    /// The device and the code path that computed the logits.
    pub device: Option<Device>,
    /// The effective configuration, one entry per setting, values as JSON text.
    #[serde(default)]
    pub configuration: Vec<Setting>,
    /// Components that decide what replay may expect: `tokenizers`, `llguidance`, ... with their versions.
    #[serde(default)]
    pub components: Vec<Component>,
    /// Names of planted faults. Read by `info` alone.
    #[serde(default)]
    pub faults: Vec<String>,
    /// The logits tier: `hidden`, `full`, `topk`, `off`.
    pub logits_tier: LogitsTier,
    /// What was left out or hashed at recording, one entry per field.
    #[serde(default)]
    pub redactions: Vec<Redaction>,
}

/// Who wrote a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorder {
    /// Program, e.g. `stepscope`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it was built from and how, e.g. commit and target; `None` if unknown.
    pub build: Option<String>,
}

/// A hash, labelled with how it was computed: unlike algorithms are never compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledHash {
    /// `sha256`, `git-blob-sha1`, `blake3`.
    pub algorithm: String,
    /// Lower-case hexadecimal digits.
    pub hex: String,
}

impl Labelled for LabelledHash {
    fn algorithm(&self) -> &str {
        &self.algorithm
    }

    fn hex(&self) -> &str {
        &self.hex
    }
}

impl From<&Hash> for LabelledHash {
    fn from(hash: &Hash) -> Self {
        Self { algorithm: hash.algorithm.to_owned(), hex: hash.hex.clone() }
    }
}

/// What identifies a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelIdentity {
    /// A name for people; never used as a path.
    pub name: String,
    /// `llama`, `lfm2`, ...
    pub architecture: Option<String>,
    /// Number of logits in a row.
    pub vocabulary_size: Option<u32>,
    /// Length in bytes of the weights file.
    #[serde(with = "wire", default)]
    pub file_bytes: Option<u64>,
    /// Hashes of the weights file.
    #[serde(default)]
    pub hashes: Vec<LabelledHash>,
    /// Hashes of the tokenizer as it was used (vocabulary, merges, special tokens).
    #[serde(default)]
    pub tokenizer_hashes: Vec<LabelledHash>,
    /// Hashes of the chat template's text.
    #[serde(default)]
    pub chat_template_hashes: Vec<LabelledHash>,
    /// Tokens that end generation.
    pub end_tokens: Option<Vec<u32>>,
    /// Longest sequence the engine admits, in tokens.
    pub context_length: Option<u32>,
}

/// Where and by which code the logits were computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// `cpu`, `cuda`, ...
    pub backend: String,
    /// Processor or accelerator, as it names itself.
    pub name: Option<String>,
    /// `scalar`, `avx2`, `avx512`, or the compute capability.
    pub isa: Option<String>,
    /// Worker threads.
    pub threads: Option<u32>,
    /// Kernel sources or binaries that ran, by name, with labelled hashes.
    #[serde(default)]
    pub kernels: Vec<KernelIdentity>,
}

/// One kernel file or built-in kernel set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelIdentity {
    /// Name of the file or set.
    pub name: String,
    /// Its hashes.
    #[serde(default)]
    pub hashes: Vec<LabelledHash>,
}

/// One effective setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Dotted name.
    pub name: String,
    /// The value as JSON text.
    pub value: String,
    /// `flag`, `config-file`, `default`, ...
    pub source: Option<String>,
}

/// A library whose version matters to replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// How much of each logits row is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogitsTier {
    /// What the LM head read; the row is recomputed from it.
    Hidden,
    /// The row itself.
    Full,
    /// The best K ids and values.
    #[serde(rename = "topk")]
    TopK,
    /// Nothing beyond the statistics in the step record.
    Off,
}

/// A field that was left out or replaced by a salted hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// Dotted name of the field.
    pub field: String,
    /// `omitted` or `hashed`.
    pub how: String,
}
