//! The flags of the engine: those of `record`, without what makes or names files of a run.

use std::path::PathBuf;

use crate::cli::record::{
    BackendOption, Count, DrafterOption, FaultOption, GrammarBackendOption, IsaOption, KvTypeOption, MANY, MOST,
    MOST_DRAFTS, Options, SchedulingOption, Switch, ToolFormatOption, VerifyRuleOption, WhitespaceOption,
};

/// See [`Options`].
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub struct EngineFlags {
    /// Model to run: a GGUF file, or a folder with config.json, safetensors and tokenizer.json (required)
    #[arg(long, value_name = "PATH")]
    pub model: Option<PathBuf>,
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
}

impl EngineFlags {
    /// As `record` has them.
    pub fn as_of_record(&self) -> Options {
        let flags = self.clone();
        Options {
            model: flags.model,
            max_batch: flags.max_batch,
            prefill_chunk: flags.prefill_chunk,
            prefix_cache: flags.prefix_cache,
            context_length: flags.context_length,
            kv_type: flags.kv_type,
            kv_pages: flags.kv_pages,
            threads: flags.threads,
            backend: flags.backend,
            isa: flags.isa,
            drafter: flags.drafter,
            drafts: flags.drafts,
            draft_model: flags.draft_model,
            scheduling: flags.scheduling,
            verify_rule: flags.verify_rule,
            reasoning_end: flags.reasoning_end,
            tool_format: flags.tool_format,
            grammar_backend: flags.grammar_backend,
            grammar_whitespace: flags.grammar_whitespace,
            grammar_canonical: flags.grammar_canonical,
            inject: flags.inject,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    #[test]
    fn they_are_called_and_explained_as_in_record() {
        let record = Options::augment_args(clap::Command::new("record"));
        let ours = EngineFlags::augment_args(clap::Command::new("serve"));
        for flag in ours.get_arguments() {
            let same = record.get_arguments().find(|other| other.get_long() == flag.get_long());
            let same = same.unwrap_or_else(|| panic!("record has no {flag}"));
            assert_eq!(same.get_help().map(ToString::to_string), flag.get_help().map(ToString::to_string), "{flag}");
            assert_eq!(same.get_value_names(), flag.get_value_names(), "{flag}");
        }
        let missing = |flag: &&clap::Arg| ours.get_arguments().all(|other| other.get_long() != flag.get_long());
        let missing: Vec<_> = record.get_arguments().filter(missing).filter_map(clap::Arg::get_long).collect();
        let of_runs = ["requests", "out", "outputs", "draft-script", "tier", "top-k-rows", "sketches", "overflow"];
        assert_eq!(missing, [&of_runs[..], &["json", "config"]].concat());
    }
}
