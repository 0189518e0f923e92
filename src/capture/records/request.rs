//! The `request` channel: what was asked, how it was resolved, and how it ended.

use serde::{Deserialize, Serialize};

use super::super::wire;

/// A message of the `request` channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a few per request, and most of them admissions")]
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
    /// What the output had to look like; `None` for free text, or if the recorder could not know.
    pub constraint: Option<ConstraintRecord>,
    /// How tools stood in the prompt and calls in the output; `None` without tools, or if the recorder could not know.
    pub tool_format: Option<String>,
}

/// What an output had to look like.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstraintRecord {
    /// `json_object`, `json_schema`, `regex`, `choice`, `lark` or `ebnf`; or the recording engine's own word for it.
    pub kind: String,
    /// The schema or the choices as JSON text, the expression or the grammar as it is; empty for `json_object`.
    pub source: String,
    /// The token that ends the reasoning section before it; `None` where the output begins with it.
    pub begins_after: Option<u32>,
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
    /// The tool calls that were returned, as JSON text.
    pub tool_calls: Option<String>,
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
