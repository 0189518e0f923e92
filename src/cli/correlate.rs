//! `stepscope correlate`: which step conditions go with the bad steps?

mod findings;
mod read;
mod render;

use std::path::PathBuf;

use anyhow::bail;

pub(super) use self::read::{Input, Wanted, read};
pub(super) use self::render::{Correlated, increase, not_known, of, way};
use super::{Outcome, output};
use crate::forensics::correlate::{Label, Settings, correlate};

/// Find the conditions that go with the bad steps
///
/// A label says which steps are bad. What the engine's state was in each step, and in the step before, is turned into a few thousand
/// conditions: truths and words, numbers against constants and quantiles, and every comparison of two numbers that count the
/// same, within the step and with the one before. Those that go with the bad steps are ranked, and what the best one
/// explains is taken away before the next is sought.
///
/// Nothing that follows from the logits (ranks, margins, what was accepted) is taken for a cause, and neither is what the text decides.
/// A condition is not known of a step where a column of it is not, and such a step counts for nothing there. In each sequence the
/// first bad step counts, and those after it are left out, since they stand on what went wrong.
///
/// Labels: forced-misrank: a token that had to come was not the best of its row; end tokens, which are misranked nearly always after
/// something went wrong, are left out.
/// missed-close: a closing tag was drafted and allowed, and another token came (needs --model). mask-removed-top1: the mask took the
/// best token away. invalid-row: NaN or infinity. finding, finding:CHECK: replay has a finding (needs --replay). diverged: a row is not what
/// the model gives, run again without speculation from the recorded tokens (needs --model, and time). broken-call: the answer has a
/// broken call (needs --model); here an answer counts as a whole, and a condition is true of it if it is in one of its steps.
/// Anything else is an expression over columns, such as `worst_forced_rank > 3 and path == verify`, with
/// and, or, not, == != < <= > >=, + and - with a number, and parentheses; one that names a column of rows is true of a step if
/// it is of one of its rows; a column that it names makes no conditions. The columns are those of `export`, without hashes and signs; `previous.` before a name is the step before.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
How it is judged. Increase: how much more often steps fail where the condition holds than wherever it is known, with its 95% interval \
(Newcombe), which has to lie above 0. Importance: the harmonic mean of how much more often they fail there than anywhere, and of the \
share of failing steps that it explains, in logarithms. Bits, which rank: what it tells of which steps fail. p: the larger one of Fisher's \
exact test over all steps, and of a test that does not take the steps of one request for independent: within requests \
(Cochran-Mantel-Haenszel, exact where few steps vary) where enough of them have failing and passing steps on either side, or else \
Fisher's with each request counted once; a condition for which neither could come to a small p is not ranked, since what sets requests \
apart could be at work as well. Where what follows the first bad step is left out, the bad step is compared with the steps before it and \
also with all steps of its request, and both have to speak for the condition: what merely grows or shrinks along a request passes one alone. q: Benjamini and Hochberg's rate of false discoveries over \
all conditions that were tested, at most 0.05. Two conditions together are told where they beat both. The control shuffles which \
steps fail within each request (and which requests fail), leaves out what follows a bad step just as before, and does the same again.

Exit status: 0 nothing goes with the bad steps, or there are none; 1 something does; 2 could not run; 3 nothing was found, but \
data was missing or no step could be judged.

Example: stepscope correlate C.mcap
  stepscope correlate C.mcap --label 'rows_invalid > 0' --json
  stepscope replay C.mcap --model M --check forward --json > R.json; stepscope correlate C.mcap --label finding:forward --replay R.json")]
pub struct Options {
    /// Captures to look at, together.
    #[arg(required = true, value_name = "CAPTURE")]
    captures: Vec<PathBuf>,
    /// What makes a step a bad one.
    #[arg(long, value_name = "LABEL", default_value = "forced-misrank")]
    label: Label,
    /// The model that was recorded: for `diverged` it is run again, and for `missed-close` and `broken-call` its tokenizer says
    /// which tokens are tags.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The calls that should come, for `broken-call`: a capture of a clean run, or JSON lines with the `custom_id` of a request
    /// and the `name` and `arguments` of a call. Without it a call is broken by its form and its tool's schema alone.
    #[arg(long, value_name = "CALLS")]
    expected: Option<PathBuf>,
    /// What `replay --json` printed of these captures, for `finding`.
    #[arg(long, value_name = "R.json")]
    replay: Option<PathBuf>,
    /// Count every step, also after the first bad one of its sequence.
    #[arg(long)]
    every_step: bool,
    /// With `forced-misrank`: count end tokens, too.
    #[arg(long)]
    with_end_tokens: bool,
    /// How often labels are shuffled for the control.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    permutations: u16,
    /// What they are shuffled by.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object instead of a summary.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If a capture cannot be read, or the label needs what is not given or not there yet.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    match options.label {
        Label::Diverged if options.model.is_none() => {
            bail!("--label diverged: the steps are run again by the recorded model; give it with --model")
        }
        Label::MissedClose | Label::BrokenCall if options.model.is_none() => {
            bail!(
                "--label {}: the recorded model's tokenizer says which tokens are tags; give it with --model",
                options.label
            )
        }
        Label::Finding(_) if options.replay.is_none() => bail!(
            "--label {}: replay the captures first (`stepscope replay CAPTURE... --json > R.json`), and give --replay R.json",
            options.label
        ),
        _ => {}
    }
    if options.with_end_tokens && options.label != Label::ForcedMisrank {
        bail!("--with-end-tokens: it is for the label forced-misrank");
    }
    if options.expected.is_some() && options.label != Label::BrokenCall {
        bail!("--expected: it is for the label broken-call");
    }
    let wanted = Wanted {
        captures: &options.captures,
        label: &options.label,
        model: options.model.as_deref(),
        expected: options.expected.as_deref(),
        replay: options.replay.as_deref(),
        every_step: options.every_step,
        with_end_tokens: options.with_end_tokens,
    };
    let input = read(&wanted, &mut |_| {})?;
    let settings = Settings { permutations: usize::from(options.permutations), seed: options.seed };
    let correlation = correlate(&input.table, settings);
    let report = Correlated { label: &options.label, input: &input, correlation: &correlation };
    output::to_stdout(|out| match options.json {
        true => Ok(writeln!(out, "{:#}", report.json())?),
        false => report.text(out),
    })?;
    Ok(match (correlation.ranked.is_empty(), input.is_missing_data()) {
        (false, _) => Outcome::Findings,
        (true, true) => Outcome::Missing,
        (true, false) => Outcome::Clean,
    })
}
