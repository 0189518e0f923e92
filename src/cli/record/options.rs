//! The flags of `record`. The same names, as keys of a TOML file, make a `--config`.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;

use super::count::Count;

/// Most sequences at a time, and most threads: far more than a machine has use for.
const MANY: usize = 1024;
/// Most of what a run can be told to hold or to compute at a time.
const MOST: usize = 1 << 24;

/// Run a file of requests through a model, and capture every step
///
/// Requests are one OpenAI chat or completions body per line, or OpenAI Batch input lines (`custom_id`, `url`, `body`).
/// A request that is refused or fails does not keep the others from running. Equal runs give equal outputs, whatever
/// the batch size, thread count, instruction set, prefix cache and prefill chunk.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[command(
    after_help = "Warnings, and why a request is refused, go to stderr and into the summary of --json. Every flag can stand in the --config file under its name, and a flag goes before the file; the \
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
    /// Pages of the key-value cache, of 32 positions each [default: for --max-batch sequences of full length, within
    /// 2 GiB, and for one at least]
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
    /// What the capture keeps of each logits row [default: hidden]
    #[arg(long, value_name = "TIER")]
    pub tier: Option<TierOption>,
    /// Values per row that the tier `topk` keeps [default: 64]
    #[arg(long, value_name = "K")]
    pub top_k_rows: Option<Count<MOST>>,
    /// What happens when the capture's writer falls behind: the engine waits, or payloads are dropped and each loss is
    /// recorded [default: block]
    #[arg(long, value_name = "POLICY")]
    pub overflow: Option<OverflowOption>,
    /// Print the summary as one JSON object
    #[arg(long)]
    #[serde(default)]
    pub json: bool,
    /// TOML file with any of these flags, and a table `[sampling]` of overrides
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// The operator's overrides of sampling parameters; they can stand in the file alone.
    #[arg(skip)]
    pub sampling: Option<toml::Table>,
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
