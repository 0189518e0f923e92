//! `stepscope serve`: the engine behind an OpenAI-compatible API, with the recorder inside.

mod engine_flags;
mod options;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use serde_json::json;

pub use self::options::Options;

use self::options::CaptureOption;
use super::Outcome;
use super::output::to_stdout;
use super::record::{Assembly, Settings};
use crate::capture::tap::CaptureTap;
use crate::capture::{CaptureWriter, WriterOptions};
use crate::engine::Clock;
use crate::model::Model;
use crate::server::{self, Guard, Holding, Metrics, ServerTap, Setup};

/// Runs the command.
///
/// # Errors
/// If it cannot serve at all.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let settings = Settings::of_engine(&options.as_of_record())?;
    let capture = capture_file(options)?;
    let key = options.api_key_env.as_deref().map(api_key).transpose()?;
    if key.is_none() && !options.listen.ip().is_loopback() {
        eprintln!("warning: everybody who reaches {} may ask: no --api-key-env is given", options.listen);
    }
    if let Some(fault) = settings.inject {
        eprintln!("planted fault {fault}: {}", fault.description());
    }
    let listener = TcpListener::bind(options.listen).with_context(|| format!("listen on {}", options.listen))?;
    let address = listener.local_addr().context("the address that is listened on")?;

    let clock = Clock::start();
    let model = Model::load(&settings.model)?;
    let assembly = Assembly::new(&settings, &model, &clock)?;
    let preparation = assembly.preparation(&settings, &model, &clock)?;
    model.identity.release_pages();
    let recorder = capture.as_deref().map(|path| {
        let options = WriterOptions { overflow: settings.overflow, ..WriterOptions::default() };
        let writer = CaptureWriter::create(path, assembly.header.clone(), options);
        writer.map(|writer| CaptureTap::new(writer, settings.tier))
    });
    let metrics = Arc::new(Metrics::default());
    let tap = ServerTap::new(recorder.transpose()?, Arc::clone(&metrics));
    let engine = assembly.engine(&settings, &model, clock, tap)?;
    let name = options.served_model_name.clone().unwrap_or_else(|| model.identity.name.clone());
    let setup = Setup {
        listener,
        model: name.clone(),
        tokenizer: Arc::clone(&model.tokenizer),
        guard: Guard::new(options.allow_host.clone(), key.as_deref()),
        places: options.queue.get() + settings.max_batch,
        body_bytes: options.body_limit.get(),
        holding: Holding {
            connections: options.max_connections.get(),
            drain: Duration::from_secs(u64::from(options.drain_seconds)),
        },
        metrics,
    };
    to_stdout(|out| {
        let line = json!({"listening": format!("http://{address}"), "model": name, "capture": capture});
        Ok(writeln!(out, "{line}")?)
    })?;
    let end = server::run(setup, preparation, engine).context("start the server")?;
    end_of(&end)
}

/// What there is to say at the end.
fn end_of(end: &server::ServerEnd) -> anyhow::Result<Outcome> {
    if !end.is_drained {
        eprintln!("warning: requests that had not ended were cancelled");
    }
    for error in &end.worker.errors {
        eprintln!("error: {error}");
    }
    if let Some(written) = &end.worker.capture {
        eprintln!("capture {}: {} bytes", written.path.display(), written.file_bytes);
    }
    if end.worker.has_stopped_early {
        bail!("the engine has stopped before the server was told to");
    }
    let dropped = end.worker.capture.as_ref().is_some_and(|written| written.dropped > 0);
    Ok(if dropped || !end.worker.errors.is_empty() { Outcome::Missing } else { Outcome::Clean })
}

/// The key that a variable holds. It is said nowhere.
fn api_key(variable: &str) -> anyhow::Result<String> {
    let key = std::env::var(variable).ok().filter(|key| !key.trim().is_empty());
    key.with_context(|| format!("--api-key-env: expected a key in the environment variable {variable}, found none"))
}

/// The capture that is to be written, by a name that no other run has.
fn capture_file(options: &Options) -> anyhow::Result<Option<PathBuf>> {
    let folder = match (options.capture, &options.capture_dir) {
        (Some(CaptureOption::Off) | None, None) => {
            let given = [
                ("--capture-tier", options.capture_tier.is_some()),
                ("--top-k-rows", options.top_k_rows.is_some()),
                ("--sketches", options.sketches.is_some()),
                ("--overflow", options.overflow.is_some()),
            ];
            let flag = given.into_iter().find(|(_, is_given)| *is_given);
            ensure!(
                flag.is_none(),
                "{} is given, and nothing is recorded: give --capture-dir, or leave it out",
                flag.map_or("", |(name, _)| name)
            );
            return Ok(None);
        }
        (Some(CaptureOption::Off), Some(_)) => bail!("--capture-dir is given, and --capture off records nothing"),
        (Some(CaptureOption::Always), None) => bail!("--capture-dir is missing: --capture always writes there"),
        (Some(CaptureOption::Always) | None, Some(folder)) => folder,
    };
    std::fs::create_dir_all(folder).with_context(|| format!("--capture-dir {}", folder.display()))?;
    Ok(Some(unused_name(folder)))
}

fn unused_name(folder: &Path) -> PathBuf {
    let milliseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    folder.join(format!("serve-{milliseconds}-{}.mcap", std::process::id()))
}
