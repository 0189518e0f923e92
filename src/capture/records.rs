//! The records of a capture, as they are written to a file.
//!
//! `docs/capture-format.md` is the normative text: field order here is wire order. A recorder inside another engine
//! knows less than Stepscope's own: whatever is an `Option` may be unknown, and unknown is never zero or false.

use serde::{Deserialize, Serialize};

use super::wire;

/// The version of the capture format. Every change of a record bumps it and adds an upgrader.
pub const FORMAT_VERSION: u32 = 1;

/// The first message of a capture: what made it, and under which rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT_VERSION`] of the writer.
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

/// A message of the `request` channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestRecord {
    /// A request was admitted.
    Admitted(Admission),
    /// A request was refused before it ran.
    Refused(Refusal),
    /// One choice of a request ended.
    Finished(Completion),
}

impl RequestRecord {
    /// The request it is about.
    pub fn request(&self) -> u64 {
        match self {
            Self::Admitted(record) => record.request,
            Self::Refused(record) => record.request,
            Self::Finished(record) => record.request,
        }
    }

    /// Monotonic time.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Admitted(record) => record.time_ns,
            Self::Refused(record) => record.time_ns,
            Self::Finished(record) => record.time_ns,
        }
    }
}

/// A request as it was received and as it was resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Number of the request in this capture.
    #[serde(with = "wire")]
    pub request: u64,
    /// The client's id for it (`custom_id`, request id header).
    pub client_id: Option<String>,
    /// Monotonic time of admission.
    #[serde(with = "wire")]
    pub time_ns: u64,
    /// The protocol's path, e.g. `/v1/chat/completions`.
    pub endpoint: Option<String>,
    /// The body exactly as received (JSON text).
    pub body: Option<String>,
    /// The prompt after the chat template, before the tokenizer.
    pub prompt_text: Option<String>,
    /// Whether the tokenizer was to add its own special tokens (begin of sequence).
    pub add_special_tokens: Option<bool>,
    /// The prompt as the model read it.
    pub prompt_tokens: Vec<u32>,
    /// Every sampling parameter, resolved; `None` if the recorder could not know.
    pub params: Option<Vec<ResolvedField>>,
    /// The session or owner whose cache entries the request may use.
    pub owner: Option<String>,
    /// How many choices run; 1 unless the request said otherwise.
    pub choices: u32,
    /// Values of the server's override layer, as JSON text, so that the chain can be resolved again.
    pub server_overrides: Option<String>,
    /// Values of the model's generation configuration, as JSON text, likewise.
    pub generation_config: Option<String>,
    /// Things that were accepted but have no effect, or are likely mistakes, in words.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One parameter with where its value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedField {
    /// Name, as in the protocol.
    pub name: String,
    /// The value as JSON text; `null` where resolution ends in "no limit" or "not set".
    pub value: String,
    /// The layer that set it.
    pub source: ParamSource,
}

/// The layers of parameter resolution, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamSource {
    /// The client's request said so.
    Client,
    /// The operator's override.
    ServerOverride,
    /// The model's `generation_config.json` or its GGUF counterpart.
    GenerationConfig,
    /// The protocol's documented default.
    ProtocolDefault,
    /// Made by the engine for this request (a fresh seed).
    Generated,
}

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Number of the request in this capture.
    #[serde(with = "wire")]
    pub request: u64,
    /// The client's id for it.
    pub client_id: Option<String>,
    /// Monotonic time.
    #[serde(with = "wire")]
    pub time_ns: u64,
    /// The body exactly as received.
    pub body: Option<String>,
    /// The error that was returned.
    pub error: String,
}

/// The end of one choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// The request.
    #[serde(with = "wire")]
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Monotonic time.
    #[serde(with = "wire")]
    pub time_ns: u64,
    /// Why it ended; `None` if the recorder could not know.
    pub stop: Option<StopReason>,
    /// How many tokens were emitted in all.
    pub emitted_tokens: u32,
    /// The text that was returned.
    pub text: Option<String>,
}

/// Why a choice ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// An end-of-generation token.
    EndToken(u32),
    /// One of `stop_token_ids`.
    StopToken(u32),
    /// One of `stop`.
    StopString(String),
    /// `max_tokens` reached.
    MaxTokens,
    /// Context full.
    ContextFull,
    /// The grammar allows nothing but the end.
    GrammarEnd,
    /// The request failed.
    Failed(String),
    /// The client went away.
    Cancelled,
}

/// What one step did for one choice of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// Number of the step in this capture.
    #[serde(with = "wire")]
    pub step: u64,
    /// The request.
    #[serde(with = "wire")]
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Position of the first token the step fed.
    pub first_position: u32,
    /// Tokens that were verified, in order, after the last committed token; -1 where a draft was withheld.
    pub drafts: Vec<i64>,
    /// Tokens committed by the step, in order; empty for a prefill chunk that does not end the prompt.
    pub emitted: Vec<u32>,
    /// Monotonic time at which the step was committed.
    #[serde(with = "wire", default)]
    pub time_ns: Option<u64>,
    /// Rows the step ran for this choice, prefill tokens included.
    pub q_len: Option<u32>,
    /// Accepted length of this choice's step before; 1 after prefill; `None` before the first decode.
    pub prev_accepted: Option<u32>,
    /// The code path.
    pub path: Option<StepPath>,
    /// How the step was scheduled.
    pub scheduler: Option<SchedulerMode>,
    /// Where in the batch it ran, and with whom.
    pub batch: Option<BatchPlace>,
    /// Tokens the model read in this step, where they are not simply the last token and the drafts.
    pub input_tokens: Option<Vec<u32>>,
    /// Positions that were taken from the prefix cache just before this step.
    pub cached_prefix: Option<u32>,
    /// What the drafter proposed, before trimming or padding.
    pub drafts_raw: Option<Vec<u32>>,
    /// For each -1 in `drafts`, why.
    pub withheld: Option<Vec<WithheldDraft>>,
    /// Recurrent state that was read.
    pub state: Option<StateRead>,
    /// The grammar around the step.
    pub grammar: Option<GrammarStep>,
    /// One entry per verified draft.
    pub verdicts: Option<Vec<DraftVerdict>>,
    /// Whether the last emitted token came from the row after the last draft.
    pub bonus: Option<bool>,
    /// Whether the step ended the choice.
    pub stop: Option<StopReason>,
    /// One entry per logits row.
    #[serde(default)]
    pub rows: Vec<RowRecord>,
    /// Where the time went.
    pub timings: Option<Timings>,
}

/// The code path a step took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPath {
    /// A chunk of the prompt.
    Prefill,
    /// One token, no drafts.
    Decode,
    /// One token and its drafts.
    Verify,
}

/// How steps are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerMode {
    /// The step's inputs are final before it starts.
    Sync,
    /// The step is prepared before the one before it is known.
    Async,
}

/// A place in the batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchPlace {
    /// Index in the batch.
    pub slot: u32,
    /// The others in the batch, as (request, choice), in batch order and without this one.
    #[serde(with = "wire")]
    pub neighbours: Vec<(u64, u32)>,
}

/// Why a draft is -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithheldDraft {
    /// Index in `drafts`.
    pub index: u32,
    /// The reason.
    pub reason: WithheldReason,
}

/// Reasons of a -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithheldReason {
    /// The grammar refuses it.
    Grammar,
    /// The drafter did not deliver in time.
    Missing,
    /// A limit (`max_tokens`, context, budget) cut it.
    Limit,
}

/// The recurrent state a step read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRead {
    /// Row of the state table.
    pub slot: u32,
    /// Column the history began at.
    pub column: u32,
}

/// The grammar around a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrammarStep {
    /// Tokens the grammar had consumed before the step.
    #[serde(with = "wire")]
    pub before: u64,
    /// And after.
    #[serde(with = "wire")]
    pub after: u64,
    /// Whether it had terminated after the step.
    pub terminated: bool,
    /// Whether the step ran in a reasoning section, unconstrained.
    pub reasoning: bool,
}

/// What became of one draft.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftVerdict {
    /// The target's probability of the draft.
    #[serde(with = "wire", default)]
    pub p: Option<f64>,
    /// The drafter's probability of it.
    #[serde(with = "wire", default)]
    pub q: Option<f64>,
    /// The uniform it was tested with.
    #[serde(with = "wire", default)]
    pub u: Option<f64>,
    /// The verdict.
    pub accepted: bool,
    /// Why.
    pub reason: VerdictReason,
}

/// Reasons of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictReason {
    /// It is the token the target's row gives.
    Match,
    /// The target's row gives another.
    Mismatch,
    /// Accepted by p/q against u.
    Ratio,
    /// The grammar refuses it.
    Grammar,
    /// An earlier draft was rejected.
    AfterRejection,
    /// The sequence had ended before it.
    AfterEnd,
}

/// What is known of one logits row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowRecord {
    /// Position of the token that the row was computed after; the row decides the token at `position + 1`.
    pub position: u32,
    /// The token that was emitted for the next position, or judged there; `None` for a row past the end.
    pub token: Option<u32>,
    /// Statistics of the raw row.
    pub statistics: Option<RowStatistics>,
    /// How many values of the raw row come before `token`'s in (value descending, id ascending) order.
    pub rank: Option<u32>,
    /// The row's maximum minus `token`'s value.
    #[serde(with = "wire", default)]
    pub margin: Option<f32>,
    /// Hash of the mask the scheduler filled.
    #[serde(with = "wire", default)]
    pub scheduler_mask: Option<[u8; 32]>,
    /// Hash of the mask the sampler used.
    #[serde(with = "wire", default)]
    pub applied_mask: Option<[u8; 32]>,
    /// Allowed tokens in the applied mask.
    pub mask_population: Option<u32>,
    /// What the client was told: natural-log probability of `token`.
    #[serde(with = "wire", default)]
    pub logprob: Option<f32>,
}

/// Statistics of a raw logits row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowStatistics {
    /// Id of the greatest value; the lowest such id; `None` when the row has a NaN or nothing finite.
    pub argmax: Option<u32>,
    /// The greatest value, NaN left out.
    #[serde(with = "wire")]
    pub maximum: f32,
    /// Log of the sum of exponentials.
    #[serde(with = "wire")]
    pub log_sum_exp: f32,
    /// NaN values.
    pub nan_count: u32,
    /// Values of +infinity.
    pub positive_infinity_count: u32,
    /// Values of -infinity.
    pub negative_infinity_count: u32,
    /// Checksum of the row (docs/arithmetic.md).
    #[serde(with = "wire")]
    pub checksum: u64,
}

/// Where a step's time went, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timings {
    /// Drafting and scheduling.
    #[serde(with = "wire")]
    pub schedule_ns: u64,
    /// The model's forward pass.
    #[serde(with = "wire")]
    pub forward_ns: u64,
    /// Masks, sampling and acceptance.
    #[serde(with = "wire")]
    pub sample_ns: u64,
}

/// A message of the `mask` channel: a mask row, stored once per content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskRecord {
    /// BLAKE3 of the row's bytes.
    #[serde(with = "wire")]
    pub hash: [u8; 32],
    /// Number of tokens the row covers.
    pub tokens: u32,
    /// One bit per token, lowest first, 1 = allowed.
    #[serde(with = "wire")]
    pub bits: Vec<u8>,
}

impl MaskRecord {
    /// The record of a mask row, with its hash.
    pub fn new(tokens: u32, bits: Vec<u8>) -> Self {
        Self { hash: *blake3::hash(&bits).as_bytes(), tokens, bits }
    }
}

/// A message of the `logits` channel: one row's payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogitsRecord {
    /// The step.
    #[serde(with = "wire")]
    pub step: u64,
    /// The request.
    #[serde(with = "wire")]
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Index into the step record's `rows`.
    pub row: u32,
    /// The payload.
    pub payload: LogitsPayload,
}

/// A row's payload, by tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogitsPayload {
    /// What a quantized LM head read.
    HiddenQuantized {
        /// One per element, within -127..=127.
        #[serde(with = "wire")]
        values: Vec<i8>,
        /// One scale per activation block.
        #[serde(with = "wire")]
        scales: Vec<f32>,
    },
    /// What a float LM head read.
    HiddenFloat {
        /// One per element.
        #[serde(with = "wire")]
        values: Vec<f32>,
    },
    /// The row: byte-shuffled little-endian f32, then zstd.
    Full {
        /// Number of logits.
        length: u32,
        /// Compressed bytes.
        #[serde(with = "wire")]
        bytes: Vec<u8>,
    },
    /// The best K of the row, in (value descending, id ascending) order.
    #[serde(rename = "topk")]
    TopK {
        /// Token ids.
        #[serde(with = "wire")]
        ids: Vec<u32>,
        /// Their values.
        #[serde(with = "wire")]
        values: Vec<f32>,
    },
}

/// A message of the `sketch` channel: random projections of one operation's output for one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SketchRecord {
    /// The step.
    #[serde(with = "wire")]
    pub step: u64,
    /// The request.
    #[serde(with = "wire")]
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Index of the token within the step.
    pub row: u32,
    /// Layer, or `None` outside the layers.
    pub layer: Option<u32>,
    /// Name of the operation.
    pub operation: String,
    /// The projections.
    #[serde(with = "wire")]
    pub values: Vec<f32>,
}

/// A message of the `event` channel: something worth a person's attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRecord {
    /// Monotonic time.
    #[serde(with = "wire")]
    pub time_ns: u64,
    /// `invalid_row`, `warning`, ...
    pub kind: String,
    /// The request it is about, if any.
    #[serde(with = "wire", default)]
    pub request: Option<u64>,
    /// The choice.
    pub choice: Option<u32>,
    /// The step.
    #[serde(with = "wire", default)]
    pub step: Option<u64>,
    /// In words.
    pub message: String,
}

/// A message of the `loss` channel: something that should be here and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossRecord {
    /// Monotonic time.
    #[serde(with = "wire")]
    pub time_ns: u64,
    /// Channel of what was lost; `*` when it may be any.
    pub channel: String,
    /// Messages lost, if known.
    #[serde(with = "wire", default)]
    pub messages: Option<u64>,
    /// Their bytes, if known.
    #[serde(with = "wire", default)]
    pub bytes: Option<u64>,
    /// First and last step concerned, if known.
    #[serde(with = "wire", default)]
    pub steps: Option<(u64, u64)>,
    /// Why.
    pub reason: String,
}
