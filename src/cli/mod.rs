//! The command line: one file per command, and what they share.
//!
//! Results go to stdout, diagnostics to stderr; the exit status is the same for every command (see [`Outcome`]).

pub mod dump;
pub mod export;
pub mod info;
mod output;
pub mod params;
pub mod record;
pub mod recover;
pub mod replay;
pub mod verify;

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
    Params(params::Options),
    Record(Box<record::Options>),
    /// Check that each recorded decision follows from its recorded inputs
    Replay(replay::Options),
    Info(info::Options),
    Verify(verify::Options),
    Recover(recover::Options),
    Dump(dump::Options),
    Export(export::Options),
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
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Params(options) => params::run(&options),
        Command::Record(options) => record::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Info(options) => info::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::Recover(options) => recover::run(&options),
        Command::Dump(options) => dump::run(&options),
        Command::Export(options) => export::run(&options),
    }
}
