//! `stepscope faults`: the faults that can be planted, and which check catches each.

mod cause;
mod parting;
mod requests;
mod table;
mod teeth;

use serde_json::json;

use super::{Outcome, output};
use crate::engine::faults::Fault;

/// List the faults that `record --inject` can plant, or prove that replay finds each of them
///
/// Each fault has the shape of a real bug. `--teeth` records small requests on a random model of its own, without a fault and
/// with each one, in the ways of running in which it can bite, and replays them all: a fault has to change an answer, and the
/// check that should catch it has to find something in a request whose answer it changed, at the step where that request
/// parts from the clean run or later; and `correlate` and `localize` have to name the condition and the operation that the fault
/// is known by, and nothing of a fault that has none. Clean runs of the same requests have to be without findings, conditions and operations.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status: 0 listed, or every fault was caught; 1 a fault was missed, changed nothing or is told by another condition or operation, or a clean run has any; \
2 could not run.

Example: stepscope faults --teeth > docs/teeth.md")]
pub struct Options {
    /// Plant every fault, and print the table of what caught it
    #[arg(long)]
    teeth: bool,
    /// With --teeth: these faults alone
    #[arg(long, value_name = "FAULT", requires = "teeth")]
    only: Vec<Fault>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If the runs of `--teeth` cannot be made at all.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    if options.teeth {
        return teeth::run(&options.only, options.json);
    }
    if options.json {
        let entry = |fault: Fault| {
            json!({
                "name": fault.name(),
                "area": fault.area().name(),
                "description": fault.description(),
                "check": fault.check(),
                "condition": fault.condition().map(|condition| condition.predicate),
                "operation": fault.operation(),
            })
        };
        let list = serde_json::to_string_pretty(&Fault::all().map(entry).collect::<Vec<_>>())?;
        output::to_stdout(|out| Ok(writeln!(out, "{list}")?))?;
        return Ok(Outcome::Clean);
    }
    output::to_stdout(|out| {
        let width = Fault::all().map(|fault| fault.name().len()).max().unwrap_or(0);
        for fault in Fault::all() {
            let (area, check) = (fault.area().name(), fault.check());
            writeln!(out, "{fault:<width$}  {area:<9}  {check:<12}  {}", fault.description())?;
        }
        Ok(())
    })?;
    Ok(Outcome::Clean)
}
