//! From flags and `--config` to the effective configuration, with where each value came from.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::count::Count;
use super::options::{
    BackendOption, DrafterOption, GrammarBackendOption, IsaOption, KvTypeOption, Options, OverflowOption,
    SchedulingOption, Switch, TierOption, ToolFormatOption, VerifyRuleOption, WhitespaceOption,
};
use super::speculation::SpeculationSettings;
use crate::arith::{ATTENTION_CHUNK, Isa, KvType};
use crate::backend::BackendKind;
use crate::capture::Overflow;
use crate::capture::records::Setting;
use crate::capture::tap::Tier;
use crate::engine::faults::Fault;
use crate::engine::sampler::VerifyRule;
use crate::engine::speculation::Scheduling;
use crate::exchange::Preparation;
use crate::grammar::{Backend, GrammarSettings, HOW_TO_BUILD};
use crate::model::{LayerKind, ModelConfig};
use crate::params::RequestFields;

/// Most bytes of key-value cache that are set aside unasked.
const KV_BYTES: usize = 2 << 30;

/// The files of a run, and what it prints.
#[derive(Debug)]
pub(super) struct Run {
    pub requests: PathBuf,
    pub out: PathBuf,
    pub outputs: Option<PathBuf>,
    pub json: bool,
    pub quiet: bool,
}

/// The effective configuration of an engine and of what is recorded of it.
#[derive(Debug)]
pub(in crate::cli) struct Settings {
    pub model: PathBuf,
    pub max_batch: usize,
    pub prefill_chunk: usize,
    pub prefix_cache: bool,
    pub kv_type: KvType,
    pub threads: usize,
    pub backend: BackendKind,
    /// `None` for the best that the machine has.
    pub isa: Option<Isa>,
    pub(super) speculation: SpeculationSettings,
    /// The token that ends a reasoning section.
    pub reasoning_end: Option<String>,
    /// How tool calls are written; `None` leaves it to the chat template.
    pub tool_format: Option<ToolFormatOption>,
    /// What masks depend on beside constraint and tokenizer.
    pub grammar: GrammarSettings,
    /// The planted fault. It stands in the header by itself, so that nothing else in a capture depends on it.
    pub inject: Option<Fault>,
    pub tier: Tier,
    /// Whether what the rows pass through is sketched.
    pub sketches: bool,
    pub overflow: Overflow,
    /// The operator's layer of parameter resolution.
    pub overrides: RequestFields,
    /// `None` leaves it to the model.
    context_length: Option<usize>,
    /// `None` leaves it to the model and the batch.
    kv_pages: Option<usize>,
    /// Every setting as it goes into the capture.
    pub recorded: Vec<Setting>,
}

/// Sizes that depend on the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Sizes {
    /// Tokens of the longest sequence.
    pub context_length: usize,
    /// Pages of the key-value cache.
    pub pages: usize,
}

impl Settings {
    /// Flags first, then the file, then defaults: those of a run over a file of requests.
    pub(super) fn resolve(flags: &Options) -> anyhow::Result<(Self, Run)> {
        Self::resolve_with(flags, |layers| {
            Ok(Run {
                requests: layers.required("requests", |options| options.requests.clone())?,
                out: layers.required("out", |options| options.out.clone())?,
                outputs: layers.choose(
                    "outputs",
                    |options| options.outputs.clone(),
                    |path| json!(path.to_string_lossy()),
                ),
                json: flags.json || layers.file.json,
                quiet: flags.quiet,
            })
        })
    }

    /// The same for an engine that gets its requests in another way; the file's settings of a run are left alone.
    pub fn of_engine(flags: &Options) -> anyhow::Result<Self> {
        Ok(Self::resolve_with(flags, |_| Ok(()))?.0)
    }

    /// `own` looks up what is not the engine's.
    fn resolve_with<T>(
        flags: &Options,
        own: impl FnOnce(&mut Layers<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<(Self, T)> {
        let file = flags.config.as_deref().map(read_config).transpose()?.unwrap_or_default();
        let mut layers = Layers { flags, file: &file, recorded: Vec::new() };
        let processors = available_parallelism().context("count the processors; give --threads")?;
        let sampling = file.sampling.clone().unwrap_or_default();
        let overrides = RequestFields::from_toml(&sampling).context("table [sampling] of --config")?;
        let path = |path: &PathBuf| json!(path.to_string_lossy());
        let model = layers.required("model", |options| options.model.clone())?;
        let own = own(&mut layers)?;
        let settings = Self {
            model,
            max_batch: layers.or("max-batch", |options| options.max_batch, Count::nearest(8), number).get(),
            prefill_chunk: layers
                .or("prefill-chunk", |options| options.prefill_chunk, Count::nearest(256), number)
                .get(),
            prefix_cache: layers.or("prefix-cache", |options| options.prefix_cache, Switch::On, name) == Switch::On,
            kv_type: match layers.or("kv-type", |options| options.kv_type, KvTypeOption::F32, name) {
                KvTypeOption::F32 => KvType::F32,
                KvTypeOption::F16 => KvType::F16,
            },
            threads: layers.or("threads", |options| options.threads, Count::nearest(processors.get()), number).get(),
            backend: match layers.or("backend", |options| options.backend, BackendOption::Auto, name) {
                BackendOption::Auto => BackendKind::Auto,
                BackendOption::Cpu => BackendKind::Cpu,
                BackendOption::Cuda => BackendKind::Cuda,
            },
            isa: match layers.or("isa", |options| options.isa, IsaOption::Auto, name) {
                IsaOption::Auto => None,
                IsaOption::Scalar => Some(Isa::Scalar),
                IsaOption::Avx2 => Some(Isa::Avx2),
                IsaOption::Avx512 => Some(Isa::Avx512),
            },
            speculation: SpeculationSettings {
                drafter: layers.or("drafter", |options| options.drafter, DrafterOption::None, name),
                drafts: layers.or("drafts", |options| options.drafts, Count::nearest(4), number).get(),
                draft_model: layers.choose("draft-model", |options| options.draft_model.clone(), path),
                draft_script: layers.choose("draft-script", |options| options.draft_script.clone(), path),
                scheduling: match layers.or("scheduling", |options| options.scheduling, SchedulingOption::Sync, name) {
                    SchedulingOption::Sync => Scheduling::Sync,
                    SchedulingOption::Async => Scheduling::Async,
                },
                rule: match layers.or("verify-rule", |options| options.verify_rule, VerifyRuleOption::Coupled, name) {
                    VerifyRuleOption::Coupled => VerifyRule::Coupled,
                    VerifyRuleOption::Rejection => VerifyRule::Rejection,
                },
            },
            reasoning_end: layers.choose("reasoning-end", |options| options.reasoning_end.clone(), |text| json!(text)),
            tool_format: layers.choose("tool-format", |options| options.tool_format, name),
            grammar: layers.grammar()?,
            inject: flags.inject.or(file.inject).map(|option| option.0),
            tier: layers.tier(),
            sketches: layers.or("sketches", |options| options.sketches, Switch::Off, name) == Switch::On,
            overflow: match layers.or("overflow", |options| options.overflow, OverflowOption::Block, name) {
                OverflowOption::Block => Overflow::Block,
                OverflowOption::Drop => Overflow::DropPayloads,
            },
            context_length: layers.choose("context-length", |options| options.context_length, number).map(|n| n.get()),
            kv_pages: layers.choose("kv-pages", |options| options.kv_pages, number).map(|n| n.get()),
            overrides,
            recorded: Vec::new(),
        };
        settings.speculation.check(flags)?;
        if flags.top_k_rows.is_some() && !matches!(settings.tier, Tier::TopK(_)) {
            bail!("--top-k-rows is given, and the tier keeps no such rows: give --tier topk, or leave it out");
        }
        let mut recorded = layers.recorded;
        for (field, value) in settings.overrides.to_json().as_object().into_iter().flatten() {
            recorded.push(setting(&format!("sampling.{field}"), value, "config-file"));
        }
        Ok((Self { recorded, ..settings }, own))
    }

    /// The preparation of requests as the settings have it.
    pub fn apply<'a>(&self, preparation: Preparation<'a>) -> Preparation<'a> {
        let preparation = preparation.with_fault(self.inject);
        match self.tool_format {
            Some(format) => preparation.with_tool_format(format.into()),
            None => preparation,
        }
    }

    /// What the model decides unless the configuration does.
    pub fn sizes(&self, model: &ModelConfig) -> anyhow::Result<Sizes> {
        let context_length = context_length(self.context_length, model)?;
        let pages_of_one = context_length.div_ceil(ATTENTION_CHUNK);
        let most = pages_of_one.saturating_mul(self.max_batch);
        let affordable = KV_BYTES / page_bytes(model, self.kv_type).max(1);
        let pages = self.kv_pages.unwrap_or(affordable.clamp(pages_of_one, most));
        Ok(Sizes { context_length, pages })
    }

    /// Pages of the draft model's key-value cache, for every sequence however long: what is drafted must not depend on who
    /// else runs. So none are left out to fit the bytes that are set aside, which are those that are set aside unasked, or as
    /// many pages as `kv-pages` asks for.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn draft_pages(&self, draft: &ModelConfig, sizes: &Sizes) -> anyhow::Result<usize> {
        let pages_of_one = (sizes.context_length + self.speculation.drafts).div_ceil(ATTENTION_CHUNK);
        let pages = pages_of_one.saturating_mul(self.max_batch);
        let of_pages = |pages: usize| pages.saturating_mul(page_bytes(draft, self.kv_type));
        let set_aside = self.kv_pages.map_or(KV_BYTES, |pages| of_pages(pages).max(KV_BYTES));
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        if of_pages(pages) > set_aside {
            bail!(
                "the draft model's key-value cache: accepted: {} MiB at most; found: {} MiB, for {} sequences of {} tokens and \
                 {} drafts; give --kv-pages {pages} to set as many pages aside for each of both models, or --kv-type f16, or a \
                 smaller --max-batch or --context-length",
                mib(set_aside),
                mib(of_pages(pages)),
                self.max_batch,
                sizes.context_length,
                self.speculation.drafts
            );
        }
        Ok(pages)
    }
}

/// Tokens of the longest sequence: as configured, or else as many as the model was made for.
pub(in crate::cli) fn context_length(configured: Option<usize>, model: &ModelConfig) -> anyhow::Result<usize> {
    match configured {
        Some(length) if length > model.context_length => {
            bail!("context-length: accepted: 2 to the model's context of {}; found: {length}", model.context_length)
        }
        Some(1) => bail!("context-length: accepted: 2 or more, for a prompt and an answer; found: 1"),
        configured => Ok(configured.unwrap_or(model.context_length)),
    }
}

/// Bytes of one page of keys and values, over all layers.
fn page_bytes(model: &ModelConfig, kv_type: KvType) -> usize {
    let attention_layers = model.layers.iter().filter(|&&layer| layer == LayerKind::Attention).count();
    let element = match kv_type {
        KvType::F32 => 4,
        KvType::F16 => 2,
    };
    2 * attention_layers * model.kv_heads * model.head_size * ATTENTION_CHUNK * element
}

/// Looks a setting up in the flags and in the file, and keeps what it found.
struct Layers<'a> {
    flags: &'a Options,
    file: &'a Options,
    recorded: Vec<Setting>,
}

impl Layers<'_> {
    /// What masks depend on beside constraint and tokenizer.
    fn grammar(&mut self) -> anyhow::Result<GrammarSettings> {
        let backend = |options: &Options| options.grammar_backend;
        let backend = Backend::from(self.or("grammar-backend", backend, GrammarBackendOption::Llguidance, name));
        if !backend.is_built() {
            bail!("grammar-backend: this build lacks {}; {HOW_TO_BUILD}", backend.name());
        }
        let default = if backend.has_canonical_tokens() { Switch::On } else { Switch::Off };
        let canonical = |options: &Options| options.grammar_canonical;
        let switch = |switch: &Switch| json!(*switch == Switch::On);
        let canonical_tokens = self.or("grammar.canonical-tokens", canonical, default, switch) == Switch::On;
        if canonical_tokens && !backend.has_canonical_tokens() {
            let name = backend.name();
            bail!("grammar-canonical: {name} allows any tokens that spell a text; accepted with it: off; found: on");
        }
        let whitespace = |options: &Options| options.grammar_whitespace;
        let whitespace = self.or("grammar.whitespace", whitespace, WhitespaceOption::Any, name).into();
        Ok(GrammarSettings { backend, canonical_tokens, whitespace, as_vllm: false })
    }

    fn choose<T>(&mut self, key: &str, get: fn(&Options) -> Option<T>, json: impl Fn(&T) -> Value) -> Option<T> {
        let (value, source) = match (get(self.flags), get(self.file)) {
            (Some(value), _) => (Some(value), "flag"),
            (None, Some(value)) => (Some(value), "config-file"),
            (None, None) => (None, "default"),
        };
        self.recorded.push(setting(key, &value.as_ref().map_or(Value::Null, json), source));
        value
    }

    fn or<T>(&mut self, key: &str, get: fn(&Options) -> Option<T>, default: T, json: impl Fn(&T) -> Value) -> T {
        let defaulted = json(&default);
        let chosen = self.choose(key, get, json);
        chosen.unwrap_or_else(|| {
            if let Some(recorded) = self.recorded.last_mut() {
                recorded.value = defaulted.to_string();
            }
            default
        })
    }

    fn required(&mut self, key: &str, get: fn(&Options) -> Option<PathBuf>) -> anyhow::Result<PathBuf> {
        let path = self.choose(key, get, |path| json!(path.to_string_lossy()));
        path.with_context(|| format!("--{key} is missing; give the flag, or `{key}` in the --config file"))
    }

    fn tier(&mut self) -> Tier {
        let count = self.or("top-k-rows", |options| options.top_k_rows, Count::nearest(64), number).get();
        match self.or("tier", |options| options.tier, TierOption::Hidden, name) {
            TierOption::Hidden => Tier::Hidden,
            TierOption::Full => Tier::Full,
            TierOption::TopK => Tier::TopK(count),
            TierOption::Off => Tier::Off,
        }
    }
}

/// Reads a `--config` file. Unknown keys are errors: a misspelt setting would else silently be its default.
pub(in crate::cli) fn read_config(path: &Path) -> anyhow::Result<Options> {
    let file = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("--config {file}"))?;
    let options: Options = match toml::from_str(&text) {
        Ok(options) => options,
        Err(error) => bail!("--config {file}, {}", fault(&text, &error)),
    };
    if let Err(fault) = RequestFields::from_toml(&options.sampling.clone().unwrap_or_default()) {
        let names = |line: &str| fault.field().is_some_and(|field| key_of(line) == field);
        let line = text.lines().position(names).map(|index| format!(", line {}", index + 1));
        bail!("--config {file}{}, [sampling]: {fault}", line.unwrap_or_default());
    }
    Ok(options)
}

/// What is wrong with a file of settings: in which line, at which key, and what is accepted there.
fn fault(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let number = text.bytes().take(start).filter(|&byte| byte == b'\n').count();
    let key = text.lines().nth(number).map(key_of).unwrap_or_default();
    let known = known_keys();
    let message = match error.message() {
        message if message.starts_with("unknown field") => {
            let key = message.split('`').nth(1).unwrap_or(key);
            format!("`{key}` is not a setting; {}", suggestion(key, &known))
        }
        message if known.iter().any(|known| known == key) => format!("`{key}`: {message}"),
        message => message.to_owned(),
    };
    format!("line {}: {message}", number + 1)
}

/// The key that a line of a TOML file gives a value; all of the line if it does not.
fn key_of(line: &str) -> &str {
    line.split_once('=').map_or(line, |(key, _)| key).trim().trim_matches(['"', '\''])
}

/// The flags that a file can hold, and the table of overrides.
pub(in crate::cli) fn known_keys() -> Vec<String> {
    let command = Options::augment_args(clap::Command::new("record"));
    let flags = command.get_arguments().filter_map(|argument| argument.get_long());
    flags.filter(|&flag| flag != "config").chain(["sampling"]).map(str::to_owned).collect()
}

fn suggestion(key: &str, known: &[String]) -> String {
    let likeness = |known: &&String| (strsim::normalized_damerau_levenshtein(key, known) * 100.0) as u32;
    match known.iter().max_by_key(likeness).filter(|known| likeness(known) >= 60) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("settings are: {}", known.join(", ")),
    }
}

fn setting(name: &str, value: &Value, source: &str) -> Setting {
    Setting { name: name.to_owned(), value: value.to_string(), source: Some(source.to_owned()) }
}

/// A choice as it is written on the command line.
fn name<T: ValueEnum>(choice: &T) -> Value {
    choice.to_possible_value().map_or(Value::Null, |value| json!(value.get_name()))
}

fn number<const MOST: usize>(count: &Count<MOST>) -> Value {
    json!(count)
}

#[cfg(test)]
mod tests;
