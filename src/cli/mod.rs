//! The command line: one file per command, and what they share.
//!
//! Results go to stdout, diagnostics to stderr; the exit status is the same for every command (see [`Outcome`]).

pub mod bisect;
pub mod correlate;
pub mod demo;
pub mod diff;
pub mod dump;
mod expected;
pub mod export;
pub mod faults;
pub mod gates;
pub mod info;
pub mod localize;
mod models;
mod output;
pub mod pack;
pub mod params;
pub mod provenance;
pub mod record;
pub mod recover;
pub mod replay;
pub mod report;
pub mod serve;
mod tokenizer;
pub mod verify;
pub mod what_if;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// How a command ended that could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Exit 0.
    Clean,
    /// Exit 1: it found something.
    Findings,
    /// Exit 3: it found nothing, but data was missing.
    Missing,
}

/// A flight recorder and forensics workbench for LLM decoding.
#[derive(Parser)]
#[command(
    name = "stepscope",
    version,
    propagate_version = true,
    after_help = "Exit status: 0 clean; 1 findings; 2 could not run; 3 finished without findings, but data was missing."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// One variant per command.
#[derive(Subcommand)]
enum Command {
    Demo(demo::Options),
    Params(params::Options),
    Record(Box<record::Options>),
    Serve(Box<serve::Options>),
    /// Check that each recorded decision follows from its recorded inputs
    Replay(replay::Options),
    Info(info::Options),
    Verify(verify::Options),
    Recover(recover::Options),
    Pack(pack::Options),
    Dump(dump::Options),
    Export(export::Options),
    Correlate(correlate::Options),
    Localize(localize::Options),
    Diff(diff::Options),
    Bisect(bisect::Options),
    WhatIf(what_if::Options),
    Report(report::Options),
    Provenance(provenance::Options),
    Faults(faults::Options),
    Gates(gates::Options),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()))
        .without_time()
        .init();
    match run(CommandLine::parse().command) {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Ok(Outcome::Missing) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {}", told(&error));
            ExitCode::from(2)
        }
    }
}

/// An error with its causes, each told once: many errors quote their cause in their own words already.
fn told(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Demo(options) => demo::run(&options),
        Command::Params(options) => params::run(&options),
        Command::Record(options) => record::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Info(options) => info::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::Recover(options) => recover::run(&options),
        Command::Pack(options) => pack::run(&options),
        Command::Dump(options) => dump::run(&options),
        Command::Export(options) => export::run(&options),
        Command::Correlate(options) => correlate::run(&options),
        Command::Localize(options) => localize::run(&options),
        Command::Diff(options) => diff::run(&options),
        Command::Bisect(options) => bisect::run(&options),
        Command::WhatIf(options) => what_if::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Provenance(options) => provenance::run(&options),
        Command::Faults(options) => faults::run(&options),
        Command::Gates(options) => gates::run(&options),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::told;

    #[test]
    fn a_cause_that_is_quoted_already_is_not_told_again() {
        let io = std::io::Error::from(std::io::ErrorKind::NotFound);
        let text = io.to_string();
        assert_eq!(told(&anyhow::Error::new(io).context("open a.mcap")), format!("open a.mcap: {text}"));
        let quoting = anyhow!(text.clone()).context(format!("open a.mcap: {text}")).context("record");
        assert_eq!(told(&quoting), format!("record: open a.mcap: {text}"));
    }
}
