//! `stepscope export`: the scalar conditions of every step and row as a Parquet table.

#[cfg(feature = "analytics")]
mod columns;
#[cfg(feature = "analytics")]
mod parquet;

use std::path::PathBuf;

use super::Outcome;

/// Write the scalar conditions of every step as a Parquet table, one line per logits row.
///
/// A step without rows (a prompt chunk that does not end the prompt) has one line whose row columns are null. Null
/// means that the recorder did not know, never zero. What became of tool calls (`call_outcome`, `broken_call`) is known with
/// the recorded model alone, for its tokenizer says which tokens are tags.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status: 0 all exported; 2 could not run, or built without the feature `analytics`; 3 something could not be read \
(stderr says what).

Example: stepscope export C.mcap --out D.parquet
  duckdb -c \"select path, count(*), avg(rank = 0) from 'D.parquet' group by path\"")]
pub struct Options {
    /// The capture.
    capture: PathBuf,
    /// The table to write; it must not exist.
    #[arg(long, value_name = "D.parquet")]
    out: PathBuf,
    /// The model that was recorded, for `call_outcome` and `broken_call`, which are null without it.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The calls that should come: a capture of a clean run, or JSON lines with the `custom_id` of a request and the `name`
    /// and `arguments` of a call. Without it a call is broken by its form and its tool's schema alone.
    #[arg(long, value_name = "CALLS", requires = "model")]
    expected: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When the capture cannot be read or the table not written; always, in a build without `analytics`.
#[cfg(feature = "analytics")]
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    parquet::export(options)
}

/// Runs the command.
///
/// # Errors
/// Always: this build has no Parquet writer.
#[cfg(not(feature = "analytics"))]
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    anyhow::bail!(
        "cannot write {}: this stepscope was built without the feature `analytics` (cargo build --features analytics)",
        options.out.display()
    )
}
