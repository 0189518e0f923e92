//! `stepscope what-if`: what if one thing had been otherwise?

mod changes;
mod recorded;
mod render;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use self::changes::Changes;
use self::recorded::Place;
use self::render::{Parted, Report};
use super::Outcome;
use super::dump::find_request;
use super::models::{Found, Loaded, ModelOptions, Models};
use super::output::to_stdout;
use super::record::{Asked, FaultOption, Turn, rerun, rerun_options};
use crate::arith::Isa;
use crate::capture::CaptureReader;
use crate::forensics::diff::{Capture, Diff, Parting, Sequence, diff};
use crate::forensics::what_if::Answer;
use crate::replay::CaptureRecording;
use crate::replay::recording::Recording as _;
use crate::types::{ChoiceIndex, SequenceId};

/// Run a request again from one of its steps on with one thing changed, and say what that changes
///
/// The request is run alone, as it was recorded, and must come out as it was: its tokens, its rows and its end. Then it is run once
/// more, and changed where the step begins. What was computed before stays: tokens, keys and values, recurrent state, how many tokens the
/// step before accepted. So the two part where the change makes a difference, and never before.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Keys of --set:
  temperature, top_p, min_p, top_k, seed, repetition_penalty, presence_penalty, frequency_penalty, logit_bias, min_tokens,
  max_tokens, stop, stop_token_ids, ignore_eos
                     as a request has them; a value is JSON, or else a text
  drafter, drafts, draft-model, draft-script, scheduling, verify-rule, grammar-backend, grammar-canonical
                     as `record` has them; grammars take what was emitted, and go on from there
  grammar            on or off: whether the output is constrained
  inject             none: the fault that --inject plants ends; or a fault, which begins
  token              the id of the token that comes first in the step, whatever its row says. One that the grammar does not
                     allow fails the request

A recording that does not come out again is told with where it parts: it was made under a planted fault (give it with --inject), by another \
engine, or with a draft script. A path in the capture is never followed.\n\n\
Steps are numbered as they are in the recording, also where it has ended.\n\n\
--json prints one object: capture, request, client_id, choice, step, emitted (tokens before the step), set, reproduced, notes; parts: null, or \
kind (tokens, end, rows), index, position, step, rank and margin of each side's token, sides (both steps); differ (tokens); steps, tokens, text, tool_calls, \
stop, calls (the outcome, by form and schema) and misranked (forced tokens that were not the best) of control and changed; changes.\n\n\
Exit status: 0 nothing changes; 1 the tokens, the rows or the end do; 2 could not run; 3 the recording does not come out again, or nothing \
changes and data was missing.\n\n\
Example: stepscope what-if C.mcap --model M.gguf --request call-00 --step 12 --set temperature=0
  stepscope what-if faulty.mcap --model M.gguf --draft-model D.gguf --request call-00 --step 12 --inject state-bound-by-query --set inject=none")]
pub struct Options {
    /// The capture
    capture: PathBuf,
    /// The request: the id its client gave it, or its number
    #[arg(long, value_name = "ID")]
    request: String,
    /// The step before which the change is made; `dump --request ID` lists them
    #[arg(long, value_name = "N")]
    step: u64,
    /// The choice, of a request with several
    #[arg(long, value_name = "N", default_value_t = 0)]
    choice: u32,
    /// What is changed; several times for several things at once
    #[arg(long = "set", value_name = "KEY=VALUE", required = true)]
    sets: Vec<String>,
    #[command(flatten)]
    models: ModelOptions,
    /// The draft script that was recorded with, for the drafter `scripted`
    #[arg(long, value_name = "FILE")]
    draft_script: Option<PathBuf>,
    /// The planted fault that was recorded with
    #[arg(long, value_name = "FAULT")]
    inject: Option<FaultOption>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If the capture or a model cannot be read, they do not belong together, there is no such request or step, or something is to be changed
/// that cannot be.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let changes = Changes::read(&options.sets)?;
    ensure!(
        changes.fault != Some(None) || options.inject.is_some(),
        "--set inject=none: no fault is planted that could end; give the one that was recorded with by --inject"
    );
    let reader = CaptureReader::open(&options.capture)?;
    let sequence =
        SequenceId { request: find_request(&reader, &options.request)?, choice: ChoiceIndex(options.choice) };
    let place = recorded::place(&reader, sequence, options.step)?;
    let (admission, asked) = recorded::asked(&reader, sequence.request)?;
    let request = recorded::request(&admission, &changes.sampling).context("--set")?;
    let folder = tempfile::tempdir().context("make a temporary folder for the captures")?;
    let mut bench = Bench::new(options, &changes, &reader, folder.path())?;
    let control = bench.control(&asked)?;
    let recording = CaptureRecording::new(reader);
    let names = [options.capture.display().to_string(), "the run that repeats it".to_owned()];
    // A client's id goes before a number, which another client may have given.
    let number = sequence.request.0.to_string();
    let of = (admission.client_id.as_deref().unwrap_or(&number), sequence);
    let (compared, mut missing) = compare([&names[0], &names[1]], &recording, &control, of)?;
    let mut report = Report {
        options,
        changes: &changes,
        sequence,
        client_id: admission.client_id.as_deref(),
        emitted: place.emitted,
        notes: &bench.notes,
        not_reproduced: None,
        sides: None,
    };
    if compared.parting.is_some() {
        report.not_reproduced = Some(Parted { sequence: &compared, steps: &place.steps, offset: 0 });
        to_stdout(|out| report.print(out))?;
        return Ok(Outcome::Missing);
    }
    let turn = Turn {
        sequence,
        emitted: place.emitted,
        options: bench.changed.clone(),
        request,
        is_free: changes.grammar == Some(false),
        changes_grammar: changes.changes_grammar(),
        token: changes.token,
        fault: changes.fault,
    };
    rerun(&bench.recorded, &asked, Some(&turn)).context("the changed run")?;
    let tokenizer = bench.model.tokenizer();
    let answer = |path: &Path| anyhow::Ok(Answer::of(&CaptureReader::open(path)?, sequence, tokenizer)?);
    let answers = [answer(&bench.control_path)?, answer(&bench.changed_path)?];
    let changed = CaptureRecording::new(CaptureReader::open(&bench.changed_path)?);
    let (parted, more) = compare(["the run as recorded", "the changed run"], &control, &changed, of)?;
    missing.extend(more);
    let offset = offset(&place, options.step, &control, sequence)?;
    if let Some(Parting::Tokens { index, .. }) = &parted.parting {
        ensure!(
            *index >= place.emitted,
            "the runs part after {index} tokens, and step {} begins after {}",
            options.step,
            place.emitted
        );
    }
    report.sides = Some((Parted { sequence: &parted, steps: &place.steps, offset }, &answers, &missing));
    to_stdout(|out| report.print(out))?;
    Ok(match (&parted.parting, missing.is_empty()) {
        (Some(_), _) => Outcome::Findings,
        (None, false) => Outcome::Missing,
        (None, true) => Outcome::Clean,
    })
}

/// What runs are made with.
struct Bench {
    model: Loaded,
    recorded: super::record::Options,
    changed: super::record::Options,
    control_path: PathBuf,
    changed_path: PathBuf,
    /// What may keep the recording from coming out again.
    notes: Vec<String>,
}

impl Bench {
    fn new(options: &Options, changes: &Changes, reader: &CaptureReader, folder: &Path) -> anyhow::Result<Self> {
        let (header, name) = (reader.header(), options.capture.display().to_string());
        let mut models = Models::new(options.models.model.as_deref(), Isa::detect());
        match models.of(header)? {
            Found::Model(model) => model.check(&name, header)?,
            Found::None(why) => bail!("{name}: {why}"),
        }
        let model = models.into_loaded().pop().context("no model was loaded")?;
        let (mut table, unknown) = recorded::settings(header)?;
        let mut notes: Vec<String> = unknown
            .iter()
            .map(|name| format!("the setting {name} is none of this engine's, and is not repeated"))
            .collect();
        if header.recorder.name != "stepscope" {
            notes.push(format!("it was recorded by {}, whose steps this engine does not repeat", header.recorder.name));
        }
        let absolute = |path: &Path| {
            let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
            let text = path.to_str().map(str::to_owned);
            text.with_context(|| format!("{}: expected a path in UTF-8", path.display()))
        };
        let drafter = |table: &toml::Table| table.get("drafter").and_then(toml::Value::as_str).map(str::to_owned);
        match (drafter(&table).as_deref(), &options.models.draft_model, &options.draft_script) {
            (Some("model"), Some(draft), _) => {
                Loaded::load(draft, Isa::detect())?.draft_of(header)?;
                table.insert("draft-model".to_owned(), absolute(draft)?.into());
            }
            (Some("model"), None, _) => bail!("{name}: was recorded with a draft model; give it with --draft-model"),
            (Some("scripted"), _, Some(script)) => {
                drop(table.insert("draft-script".to_owned(), absolute(script)?.into()));
            }
            (Some("scripted"), ..) => bail!("{name}: was recorded with a draft script; give it with --draft-script"),
            (_, Some(draft), _) => {
                // For the changed run alone.
                table.insert("draft-model".to_owned(), absolute(draft)?.into());
            }
            _ => {}
        }
        let other = recorded::changed(&table, changes);
        if drafter(&other).is_none_or(|drafter| drafter == "none") {
            for key in ["drafts", "scheduling", "verify-rule"] {
                ensure!(
                    !changes.settings.contains_key(key),
                    "--set {key}: there is no drafter, so that it changes nothing: give --set drafter=..., too"
                );
            }
        }
        let path = |name: &str| folder.join(name);
        for (name, table) in [("control.toml", &table), ("changed.toml", &other)] {
            std::fs::write(path(name), table.to_string()).with_context(|| format!("write {name}"))?;
        }
        let [control_path, changed_path] = ["control.mcap", "changed.mcap"].map(path);
        let fault = options.inject.map(|option| option.0);
        let options = |config: &str, out: &Path, fault| {
            rerun_options(folder.join(config), model.path().to_owned(), out.to_owned(), fault)
        };
        Ok(Self {
            recorded: options("control.toml", &control_path, fault),
            changed: options("changed.toml", &changed_path, changes.fault.unwrap_or(fault)),
            control_path,
            changed_path,
            model,
            notes,
        })
    }

    /// Repeats what was recorded.
    fn control(&mut self, asked: &Asked) -> anyhow::Result<CaptureRecording> {
        rerun(&self.recorded, asked, None).context("the run that repeats the recording")?;
        // The changed run is recorded beside it.
        self.recorded.out = Some(self.changed_path.clone());
        Ok(CaptureRecording::new(CaptureReader::open(&self.control_path)?))
    }
}

/// Sets the sequence of two captures side by side; what cannot be compared of it is told in words.
fn compare(
    names: [&str; 2],
    a: &CaptureRecording,
    b: &CaptureRecording,
    (request, sequence): (&str, SequenceId),
) -> anyhow::Result<(Sequence, Vec<String>)> {
    let captures = [Capture { name: names[0], recording: a }, Capture { name: names[1], recording: b }];
    let Diff { sequences, missing, .. } = diff(captures, Some(request))?;
    let found = sequences.into_iter().find(|found| found.choice == sequence.choice.0);
    let found = found.with_context(|| format!("{} and {}: {}", names[0], names[1], missing.join("; ")))?;
    Ok((found, missing))
}

/// What is added to the number of a step of the run that repeats the recording, to have its number there.
fn offset(place: &Place, step: u64, control: &CaptureRecording, sequence: SequenceId) -> anyhow::Result<i128> {
    let repeated = control.request(sequence.request.0)?;
    let steps = repeated.sequences.into_iter().find(|found| found.choice == sequence.choice.0).map(|found| found.steps);
    let steps = steps.unwrap_or_default();
    let mut emitted = 0;
    let of_token = steps.iter().find(|step| {
        emitted += step.emitted.len();
        emitted > place.emitted
    });
    let here = of_token.or(steps.last()).map_or(0, |step| step.step);
    let there = place.steps.get(place.emitted).copied().unwrap_or(step);
    Ok(i128::from(there) - i128::from(here))
}
