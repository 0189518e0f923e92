//! `stepscope bisect`: which setting makes the difference?

mod differences;
mod render;
mod runs;

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

pub(super) use self::differences::{Configurations, Difference};
use self::render::Report;
use self::runs::Runs;
use super::Outcome;
use super::models::IsaChoice;
use super::output::to_stdout;
use crate::forensics::bisect::{Bisection, bisect};

/// Find the settings that make the difference between a good and a bad configuration
///
/// The settings that differ are applied to the good configuration, some at a time; each time the requests are recorded anew, and
/// each request is judged. The set of settings shrinks while what is left of it is still bad (delta debugging), and the set that
/// comes out is confirmed by running its subsets, too.
///
/// Both configurations are --config files of `record`. Each key is a setting, and so is each entry of the table `[sampling]`; one that
/// stands in one file alone is a difference, even if the other has the same by default. What does not decide what is
/// decoded is not read: `requests`, `out`, `outputs`, `json`, and `model` where --model is given.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A run is bad if more of its requests are bad than under --good, with p < 0.01 in Fisher's exact test, one-sided. A request is bad if
  broken   a call in its answer is broken (see --expected)
  misrank  a token that had to come was not the best of its row, end tokens apart
  finding  replay has a finding in it, in any check
Requests with nothing to judge do not count.

A run that cannot be judged is unresolved and never taken for good or bad: settings that do not go together (a drafter `model` \
without its draft model), requests that were refused or failed and were not under --good (unless replay judges), a request of which it is \
not known, more bad requests among too few for any p below 0.01. Requests without a seed of their own draw anew in each run; give \
them seeds, or temperature 0.

The minimal set is confirmed by running every proper subset of it, up to 6 settings; of a larger one each subset that lacks \
one setting. Another set, which shares nothing with it, may be bad as well: take what was found out of both files, and bisect again.

--json prints one object: good, bad, requests, oracle, differences (each setting, good, bad; null where the file does not have it), runs (each \
settings: those that are as in --bad; bad, judged, nothing: requests; p; verdict: good, bad, not bad or unresolved; reason), \
minimal (as differences; empty if --bad is not bad), confirmed (true, false or null), and confirmation: subsets (how many), of (every proper subset, or \
one left out), unresolved (lists of settings).

Exit status: 0 --bad is not bad beside --good; 1 a minimal set was found and confirmed; 2 could not run: one of the two cannot be judged, or no \
setting differs; 3 a set was found, and runs that are unresolved keep it from being confirmed.

Example: stepscope bisect --good defaults.toml --bad faulty.toml --model target.gguf --requests requests.jsonl \\
  --oracle broken --expected expected.jsonl")]
pub struct Options {
    /// The good configuration: a --config file of `record`
    #[arg(long, value_name = "A.toml")]
    good: PathBuf,
    /// The bad configuration, likewise
    #[arg(long, value_name = "B.toml")]
    bad: PathBuf,
    /// File of requests, one per line
    #[arg(long, value_name = "FILE")]
    requests: PathBuf,
    /// What makes a request a bad one
    #[arg(long, value_enum, value_name = "ORACLE")]
    oracle: Oracle,
    /// Model of all runs, instead of the one that the configurations name
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// The calls that should come, for `broken`: a capture of a clean run, or JSON lines with the `custom_id` of a request
    /// and the `name` and `arguments` of a call. Without it a call is broken by its form and its tool's schema alone
    #[arg(long, value_name = "CALLS")]
    expected: Option<PathBuf>,
    /// How replay computes matrix products, for `finding`. Every way gives the same bits; `scalar` is the definition [default:
    /// scalar]
    #[arg(long, value_enum)]
    isa: Option<IsaChoice>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What makes a request a bad one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Oracle {
    /// A call in its answer is broken
    Broken,
    /// A token that had to come was not the best of its row
    Misrank,
    /// Replay has a finding in it
    Finding,
}

impl Oracle {
    fn name(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Misrank => "misrank",
            Self::Finding => "finding",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Broken => "a call in the answer is broken",
            Self::Misrank => "a token that had to come was not the best of its row",
            Self::Finding => "replay has a finding in it",
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If a file cannot be read, no setting differs, or one of the two configurations cannot be judged.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    if options.expected.is_some() && options.oracle != Oracle::Broken {
        bail!("--expected: it is for --oracle broken");
    }
    if options.isa.is_some() && options.oracle != Oracle::Finding {
        bail!("--isa: it is for --oracle finding, which replays");
    }
    let configurations = Configurations::read(&options.good, &options.bad, options.model.is_some())?;
    let [good, bad] = [&options.good, &options.bad].map(|path| path.display());
    let not_read = &configurations.not_read;
    if !not_read.is_empty() {
        eprintln!("note: {good} and {bad}: {} decide nothing here, and are not read", not_read.join(", "));
    }
    let count = configurations.differences.len();
    ensure!(count > 0, "--good {good}, --bad {bad}: no setting differs, so that there is nothing to bisect");

    let mut runs = Runs::new(options, &configurations)?;
    runs.run_good().with_context(|| format!("--good {good}: cannot be judged"))?;
    let bisection = bisect(count, |subset| runs.judge(subset));
    if bisection == Bisection::Unresolved {
        let reason = runs.done.last().and_then(|run| run.reason.as_deref()).unwrap_or_default();
        bail!("--bad {bad}: cannot be judged: {reason}");
    }
    let report = Report { options, differences: &configurations.differences, runs: &runs.done, bisection: &bisection };
    to_stdout(|out| match options.json {
        true => Ok(writeln!(out, "{:#}", report.json())?),
        false => report.text(out),
    })?;
    Ok(match &bisection {
        Bisection::Minimal(minimal) if minimal.is_confirmed() => Outcome::Findings,
        Bisection::Minimal(_) | Bisection::Unresolved => Outcome::Missing,
        Bisection::NothingBad => Outcome::Clean,
    })
}
