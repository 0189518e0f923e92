//! `stepscope params`: what would this request run with, and who decides?

mod render;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Outcome;
use super::output::to_stdout;
use super::record::{context_length, read_config};
use crate::engine::{Clock, Received};
use crate::exchange::{Grammars, Preparation};
use crate::model::Model;
use crate::params::{Request, RequestFault, RequestFields, chain, read_lines, read_one};

/// Show which layer decides each sampling parameter of a request, without running anything
///
/// A parameter that a request leaves out (or sets to null) is filled in by the first of these layers that has it: the
/// operator's overrides, the model's generation config, the default that the protocol documents. An explicit zero is a
/// value, and is honoured: temperature 0 is greedy, seed 0 is a seed.
#[derive(clap::Args)]
#[command(after_help = "\
Columns: what each layer says, `-` where it says nothing, and a star at the one that decides. \
A request is one OpenAI chat or completions body, or an OpenAI Batch input line.

Warnings: fields that have no effect here; temperature 0 on a model whose generation config recommends sampling; \
a seed that does nothing at temperature 0.

Examples:
  stepscope params --request request.json --model SmolLM2-135M-Instruct-Q4_1.gguf
  stepscope params --request requests.jsonl --line 7 --model model.gguf --config server.toml
  stepscope params --request request.json --model model.gguf --json | jq '.params[] | select(.source != \"client\")'

Exit status: 0 resolved; 1 resolved, with warnings; 2 could not resolve: the request is refused, or a file cannot be \
read.")]
pub struct Options {
    /// File with the request
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// Line of that file, from 1, where it holds one request per line
    #[arg(long, value_name = "N")]
    line: Option<usize>,
    /// Model that would run it: a GGUF file, or a folder with config.json, safetensors and tokenizer.json
    #[arg(long, value_name = "PATH")]
    model: PathBuf,
    /// TOML file of `stepscope record`; its table `[sampling]` holds the operator's overrides
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object: `layers` of a parameter has an entry for every layer that says something
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If the request is refused, or a file cannot be read.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let request = read_request(&options.request, options.line)?;
    let config = options.config.as_deref().map(read_config).transpose()?.unwrap_or_default();
    let overrides = RequestFields::from_toml(&config.sampling.clone().unwrap_or_default());
    let overrides = overrides.context("table [sampling] of --config")?;
    let model = Model::load(&options.model)?;
    let context_length = context_length(config.context_length.map(|length| length.get()), &model.config)?;
    let grammars = Grammars::new(&model, config.grammar_settings(), config.reasoning_end.as_deref())?;
    let preparation = Preparation::new(&model, grammars, overrides, context_length, &Clock::start())?;
    let submission = preparation.submission(&request, Received::default());
    let submission = submission.with_context(|| place(&options.request, options.line))?;
    let fits = submission.check_prompt(context_length);
    fits.with_context(|| {
        format!("{}: `{}`", place(&options.request, options.line), request.endpoint().prompt_field())
    })?;
    let resolved = submission.resolved;
    let name = &model.identity.name;
    let shown = if options.json {
        format!("{:#}\n", chain::json(&request, name, &resolved))
    } else {
        render::text(&request, name, &resolved)
    };
    to_stdout(|out| Ok(out.write_all(shown.as_bytes())?))?;
    Ok(if resolved.warnings.is_empty() { Outcome::Clean } else { Outcome::Findings })
}

/// Reads the one request of a file, or the one in a line of it.
fn read_request(path: &Path, line: Option<usize>) -> anyhow::Result<Request> {
    let context = || place(path, line);
    let bytes = std::fs::read(path).with_context(context)?;
    let Some(number) = line else {
        return read_only_request(&bytes).with_context(context);
    };
    let lines = read_lines(&bytes).with_context(context)?;
    match lines.into_iter().find(|line| line.line == number) {
        Some(line) => line.request.with_context(|| place(path, None)),
        None => bail!("{}: there is no request in line {number}", place(path, None)),
    }
}

/// A request may be laid out over many lines when it is alone.
fn read_only_request(bytes: &[u8]) -> anyhow::Result<Request> {
    let text = std::str::from_utf8(bytes).map_err(|error| RequestFault::NotText { offset: error.valid_up_to() })?;
    match read_one(text) {
        Err(fault @ RequestFault::SecondValue { .. }) => Err(fault).context("give the --line of the request to show"),
        request => Ok(request?),
    }
}

fn place(path: &Path, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{}, line {line}", path.display()),
        None => path.display().to_string(),
    }
}
