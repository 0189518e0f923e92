//! `stepscope gates`: is this build right, on this machine?

mod render;

use super::Outcome;
use super::output::to_stdout;
use crate::gates;

/// Run the engine against plain code and against chance: is this build right, on this machine?
///
/// No capture and no model is needed: the gates make small random models, or make up logits rows. Each gate drives the engine as it
/// decodes, and compares what it decides with independent code. With --teeth, faults are planted into the engine one by one, and the
/// gate has to fail on each; a fault that cannot exist somewhere is told, and why. All seeds are fixed, so that the output is the same
/// each time.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The gates:\n\
  composition    drafts, tests, residuals and bonus tokens in the engine's own order: 20,000 draws a line, of at most 64 tokens, against\n                 \
the target's distribution. The total variation distance and the greatest difference of a token's share must\n                 \
not exceed the 99.9% quantile of what chance does to right draws, simulated in 9,999 sets. A share of accepted\n                 \
drafts outside of 0.05 to 0.95 fails the gate: it proves nothing then.\n\
  filters        temperature, top-k, top-p and min-p, one at a time and together, without drafts and under both verify rules: alone and\n                 \
among neighbours with other parameters the same rows and tokens, and those of the plain sampler\n\
  validity       rows with NaN, +infinity or nothing above -infinity, and rows of which masks leave nothing: never a token, and nothing\n                 \
else changes\n\
  fill-rollback  masks in windows of drafts that are filled and rolled back, bit for bit those of a matcher that never went back\n\
  arithmetic     golden vectors, and whole models of every weight format: every instruction set of this machine, any batch, thread count,\n                 \
chunk and draft count gives the bits of the plain forward pass\n\n\
--json prints one object: passed; gates: each gate (its name), passed, lines: each fault (null without one), case, checked (comparisons \
or draws), verdict (passed, failed, does-not-apply, not-run), as_expected, reason, and composition for draws: rule, drafting, target, \
verified, accepted, total_variation and greatest_difference, each found and at_most; quantile and simulated_sets; not_run: each gate, \
case, reason.\n\n\
Exit status: 0 every gate passed (and, with --teeth, failed on each planted fault); 1 one did not; 2 could not run. What is absent from \
this machine is named, and not counted as passed.\n\n\
Example: stepscope gates --teeth")]
pub struct Options {
    /// Also plant faults: each gate has to fail on those that are its own
    #[arg(long)]
    teeth: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If a gate cannot be run at all.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let report = gates::run(options.teeth)?;
    to_stdout(|out| match options.json {
        true => Ok(writeln!(out, "{:#}", render::json(&report))?),
        false => render::text(out, &report),
    })?;
    Ok(if report.is_as_it_should_be() { Outcome::Clean } else { Outcome::Findings })
}
