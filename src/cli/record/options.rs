//! The flags of `record`. The same names, as keys of a TOML file, make a `--config`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;

use super::count::Count;
use crate::capture::records::MOST_DRAFTS;
use crate::engine::faults::{Fault, UnknownFault};
use crate::grammar::{Backend, GrammarSettings, Whitespace};
use crate::tools::{JsonFormat, TaggedFormat, ToolFormat};

/// Most sequences at a time, and most threads: far more than a machine has use for.
pub const MANY: usize = 1024;
/// Most of what a run can be told to hold or to compute at a time.
pub const MOST: usize = 1 << 24;

/// Run a file of requests through a model, and capture every step
///
/// Requests are one OpenAI chat or completions body per line, or OpenAI Batch input lines (`custom_id`, `url`, `body`).
/// A request that is refused or fails does not keep the others from running. Equal runs give equal outputs, whatever
/// the batch size, thread count, instruction set, prefix cache and prefill chunk.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[command(
    after_help = "Warnings, and why a request is refused, go to stderr and into the summary of --json. Every flag can stand in the --config file under its name, and a flag goes before the file. A flag \
                        that nothing reads (--drafts without a drafter) is refused; in the file it waits for what reads it. The \
                        table [sampling] of the file overrides what the model recommends, for fields that a request \
                        leaves out.\n\n\
                        Exit status: 0 every request was answered; 1 some were refused or failed, their lines in the \
                        outputs say why; 2 could not run; 3 every request was answered, but the capture lacks payloads \
                        that were dropped (--overflow drop)."
)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// Model to run: a GGUF file, or a folder with config.json, safetensors and tokenizer.json (required)
    #[arg(long, value_name = "PATH")]
    pub model: Option<PathBuf>,
    /// File of requests, one per line (required)
    #[arg(long, value_name = "FILE")]
    pub requests: Option<PathBuf>,
    /// Capture to write; it must not exist yet (required)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// File for the answers, one OpenAI Batch output line per request, in input order; it must not exist yet
    #[arg(long, value_name = "FILE")]
    pub outputs: Option<PathBuf>,
    /// Sequences that run at a time, 1 to 1024 [default: 8]
    #[arg(long, value_name = "N")]
    pub max_batch: Option<Count<MANY>>,
    /// Prompt tokens computed per step [default: 256]
    #[arg(long, value_name = "N")]
    pub prefill_chunk: Option<Count<MOST>>,
    /// Whether computed prefixes are kept for later requests [default: on]
    #[arg(long, value_name = "SWITCH")]
    pub prefix_cache: Option<Switch>,
    /// Tokens of the longest sequence, 2 or more [default: the model's context]
    #[arg(long, value_name = "N")]
    pub context_length: Option<Count<MOST>>,
    /// Type of the key-value cache; it is part of the arithmetic, so f16 gives other logits [default: f32]
    #[arg(long, value_name = "TYPE")]
    pub kv_type: Option<KvTypeOption>,
    /// Pages of the key-value cache, of 32 positions each, and the most that a draft model's may have [default: for --max-batch
    /// sequences of full length, within 2 GiB, and for one at least]
    #[arg(long, value_name = "N")]
    pub kv_pages: Option<Count<MOST>>,
    /// Threads that compute, 1 to 1024 [default: the machine's processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<Count<MANY>>,
    /// Device [default: auto]
    #[arg(long, value_name = "DEVICE")]
    pub backend: Option<BackendOption>,
    /// Instruction set of the CPU backend; the results are the same [default: auto]
    #[arg(long, value_name = "ISA")]
    pub isa: Option<IsaOption>,
    /// What proposes tokens for a step to verify [default: none]
    #[arg(long, value_name = "DRAFTER")]
    pub drafter: Option<DrafterOption>,
    /// Most drafts per step and sequence, 1 to 64 [default: 4]
    #[arg(long, value_name = "N")]
    pub drafts: Option<Count<MOST_DRAFTS>>,
    /// Model of the drafter `model`, with the same tokenizer as --model; its key-value cache has room for --max-batch sequences
    /// of full length, which may take up to 2 GiB, or as many pages as --kv-pages says
    #[arg(long, value_name = "PATH")]
    pub draft_model: Option<PathBuf>,
    /// What the drafter `scripted` proposes: JSON lines with `custom_id`, `tokens` and, for further choices, `choice`
    #[arg(long, value_name = "FILE")]
    pub draft_script: Option<PathBuf>,
    /// When the length of a step's queries is decided; the results are the same [default: sync]
    #[arg(long, value_name = "MODE")]
    pub scheduling: Option<SchedulingOption>,
    /// How drafts of sampled requests are verified [default: coupled]
    #[arg(long, value_name = "RULE")]
    pub verify_rule: Option<VerifyRuleOption>,
    /// Token that ends a reasoning section, such as `</think>`: what constrains the output begins after it
    #[arg(long, value_name = "TOKEN")]
    pub reasoning_end: Option<String>,
    /// How tool calls are written [default: as the model's chat template does, or else json]
    #[arg(long, value_name = "FORMAT")]
    pub tool_format: Option<ToolFormatOption>,
    /// What does the grammars of constrained outputs [default: llguidance]
    #[arg(long, value_name = "BACKEND")]
    pub grammar_backend: Option<GrammarBackendOption>,
    /// White space in JSON that a constraint asks for: any amount, one space after each `,` and `:`, or none [default: any]
    #[arg(long, value_name = "AMOUNT")]
    pub grammar_whitespace: Option<WhitespaceOption>,
    /// Whether a text that a constraint forces comes in the tokens that the tokenizer would make of it; `off` allows any
    /// tokens that spell it [default: on with llguidance, off with xgrammar, which knows no other]
    #[arg(long, value_name = "SWITCH")]
    pub grammar_canonical: Option<Switch>,
    /// Plant a fault, to prove that it is found; `stepscope faults` lists them
    #[arg(long, value_name = "FAULT")]
    pub inject: Option<FaultOption>,
    /// What the capture keeps of each logits row [default: hidden]
    #[arg(long, value_name = "TIER")]
    pub tier: Option<TierOption>,
    /// Values per row that the tier `topk` keeps [default: 64]
    #[arg(long, value_name = "K")]
    pub top_k_rows: Option<Count<MOST>>,
    /// Whether the capture keeps a few projections of what each logits row passes through, layer by layer, by which `replay`
    /// names the operation that first went wrong [default: off]
    #[arg(long, value_name = "SWITCH")]
    pub sketches: Option<Switch>,
    /// What happens when the capture's writer falls behind: the engine waits, or payloads are dropped and each loss is
    /// recorded [default: block]
    #[arg(long, value_name = "POLICY")]
    pub overflow: Option<OverflowOption>,
    /// Print the summary as one JSON object
    #[arg(long)]
    #[serde(default)]
    pub json: bool,
    /// Print nothing; for the commands that record by themselves.
    #[arg(skip)]
    #[serde(skip)]
    pub quiet: bool,
    /// TOML file with any of these flags, and a table `[sampling]` of overrides
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// The operator's overrides of sampling parameters; they can stand in the file alone.
    #[arg(skip)]
    pub sampling: Option<toml::Table>,
}

impl Options {
    /// What masks depend on beside constraint and tokenizer, by these options alone.
    pub fn grammar_settings(&self) -> GrammarSettings {
        let default = GrammarSettings::default();
        let backend = self.grammar_backend.map_or(default.backend, Backend::from);
        let canonical = self.grammar_canonical.map(|switch| switch == Switch::On);
        GrammarSettings {
            backend,
            canonical_tokens: canonical.unwrap_or(backend.has_canonical_tokens()),
            whitespace: self.grammar_whitespace.map_or(default.whitespace, Whitespace::from),
            ..default
        }
    }
}

/// A planted fault, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultOption(pub Fault);

impl FromStr for FaultOption {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Self, UnknownFault> {
        name.parse().map(Self)
    }
}

impl<'de> Deserialize<'de> for FaultOption {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendOption {
    /// The best there is
    Auto,
    /// The processor
    Cpu,
    /// An NVIDIA GPU (not there yet)
    Cuda,
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IsaOption {
    /// The best that the machine has
    Auto,
    /// Plain code, which defines the results
    Scalar,
    /// AVX2 and FMA
    Avx2,
    /// AVX-512 with VNNI
    Avx512,
}

/// What proposes drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DrafterOption {
    /// Nothing: one token per step
    None,
    /// What came after the same few tokens the last time
    Ngram,
    /// A small model
    Model,
    /// The tokens that the request's grammar forces
    Grammar,
    /// What a file says
    Scripted,
    /// Chaos: random counts of random tokens
    Random,
}

/// When the length of a step's queries is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulingOption {
    /// Once the drafts are known: those that cannot count are trimmed
    Sync,
    /// Before: every query has its full length, and drafts that cannot count are withheld
    Async,
}

/// How drafts of sampled requests are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerifyRuleOption {
    /// Accepted when it is the token that is drawn without it: a seed gives the same text with any drafts
    Coupled,
    /// Accepted by chance, p against q: the distribution is the same, the text depends on the drafts
    Rejection,
}

/// How tool calls are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolFormatOption {
    /// A JSON object in `<tool_call>` tags
    Json,
    /// `<function=...>` and `<parameter=...>` tags in `<tool_call>` tags, with text between them
    Tagged,
}

impl From<ToolFormatOption> for &'static dyn ToolFormat {
    fn from(option: ToolFormatOption) -> Self {
        match option {
            ToolFormatOption::Json => &JsonFormat,
            ToolFormatOption::Tagged => &TaggedFormat,
        }
    }
}

/// What does the grammars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GrammarBackendOption {
    /// The llguidance library
    Llguidance,
    /// The xgrammar library, in builds that have it (`make xgrammar`); it has no canonical tokens
    Xgrammar,
}

impl From<GrammarBackendOption> for Backend {
    fn from(option: GrammarBackendOption) -> Self {
        match option {
            GrammarBackendOption::Llguidance => Self::Llguidance,
            GrammarBackendOption::Xgrammar => Self::Xgrammar,
        }
    }
}

/// White space in constrained JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhitespaceOption {
    /// As much as the model likes
    Any,
    /// One space after each comma and each colon
    Single,
    /// None
    None,
}

impl From<WhitespaceOption> for Whitespace {
    fn from(option: WhitespaceOption) -> Self {
        match option {
            WhitespaceOption::Any => Self::Any,
            WhitespaceOption::Single => Self::Single,
            WhitespaceOption::None => Self::None,
        }
    }
}

/// What is kept of a logits row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierOption {
    /// What the LM head read; the row is recomputed from it, bit for bit
    Hidden,
    /// The row itself, compressed without loss
    Full,
    /// The best ids and values
    #[value(name = "topk")]
    TopK,
    /// Its statistics alone
    Off,
}

/// A type of the key-value cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvTypeOption {
    /// As computed
    F32,
    /// Rounded to binary16
    F16,
}

/// What happens when the writer falls behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverflowOption {
    /// The engine waits
    Block,
    /// Payloads are dropped, and recorded as lost
    Drop,
}
