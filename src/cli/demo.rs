//! `stepscope demo`: an incident recorded, replayed and tabulated, with models that ship inside.

mod bisection;
mod cause;
mod departures;
mod render;
mod runs;
mod setups;
mod table;

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use self::cause::Cause;
use self::runs::{Cost, Incident, Run};
use self::setups::{SETUPS, Setup};
use super::Outcome;
use super::bisect::Difference;
use super::output::to_stdout;

/// Reproduce an incident: tool calls that break under speculation, with models that ship inside
///
/// Two small hybrid models answer 72 requests, each of which has to call one tool: once as they should, and four times with
/// a fault planted into the convolution's state, under settings that differ in the number of drafts and in the scheduling. Every run is
/// recorded, and every capture is replayed; what comes out is which calls broke, which checks disagree, how often a
/// token that had to come was misranked, by whether the step before had accepted more tokens than this one verifies. Then the
/// cause is looked for, from captures alone: which condition goes with the misranked tokens, which operation went wrong first, and which
/// settings make the difference.
///
/// A call of the clean run is broken beside the one that was asked for, and a call of another run beside that of the clean run.
///
/// Nothing is downloaded. Models, requests, settings, answers and captures are left in the folder, for you to go on with.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status: 0 the incident came out as it should; 1 it did not (stderr says how); 2 could not run.

Example: stepscope demo --out-dir DIR
  stepscope replay DIR/faulty.mcap --model DIR/target.gguf --draft-model DIR/draft.gguf")]
pub struct Options {
    /// Folder to leave everything in; it is made, and must be empty if it is there
    #[arg(long, value_name = "DIR", default_value = "stepscope-demo")]
    out_dir: PathBuf,
    /// Print one JSON object instead of a summary
    #[arg(long)]
    json: bool,
}

/// Everything that the runs came to.
struct Story {
    requests: usize,
    /// In the order of [`SETUPS`].
    runs: Vec<Run>,
    cost: Cost,
    /// What the capture of `faulty` tells of the cause.
    cause: Cause,
    /// The settings of `faulty` that make calls break, beside `defaults`.
    minimal: Vec<Difference>,
}

impl Story {
    fn run(&self, name: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.setup.name == name)
    }
}

/// Runs the command.
///
/// # Errors
/// If the folder is not empty, or a file in it cannot be written or read.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    // Settings name the draft model by its path, and have to hold from wherever they are used.
    let folder = &std::path::absolute(&options.out_dir).context("--out-dir")?;
    ensure!(folder.to_str().is_some(), "{}: expected a path in UTF-8, which settings files are in", folder.display());
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let is_empty = folder.read_dir().with_context(|| format!("read {}", folder.display()))?.next().is_none();
    ensure!(is_empty, "{}: is not empty; remove it, or name another folder with --out-dir", folder.display());

    let incident = Incident::new(folder)?;
    let tell = |words: &str| {
        if std::io::stderr().is_terminal() {
            eprintln!("{words}");
        }
    };
    let mut runs: Vec<Run> = Vec::new();
    for setup in &SETUPS {
        tell(&format!("{}: {}", setup.name, setup.what));
        let clean = runs.first().map(|run| &run.calls);
        runs.push(incident.run(setup, clean)?);
    }
    tell("cost: the clean run, with and without logits rows");
    let cost = incident.cost(&SETUPS[0])?;
    tell("cause: conditions, operations, settings");
    let faulty = SETUPS.iter().find(|setup| setup.name == Setup::FAULTY).context("no run has the fault")?;
    let cause = incident.cause(faulty)?;
    let minimal = bisection::minimal(folder, &runs)?;
    let story = Story { requests: incident.requests(), runs, cost, cause, minimal };
    to_stdout(|out| match options.json {
        true => Ok(writeln!(out, "{:#}", render::json(&story))?),
        false => render::text(out, &story, &options.out_dir),
    })?;
    let departures = departures::departures(&story);
    departures.iter().for_each(|departure| eprintln!("not as it should be: {departure}"));
    Ok(if departures.is_empty() { Outcome::Clean } else { Outcome::Findings })
}
