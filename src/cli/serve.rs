//! `stepscope serve`: the engine behind an OpenAI-compatible API, with the recorder inside.

mod engine_flags;
mod options;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde_json::json;

pub use self::options::Options;

use self::options::CaptureOption;
use super::Outcome;
use super::output::to_stdout;
use super::record::{Assembly, Settings};
use crate::capture::tap::CaptureTap;
use crate::capture::{CaptureWriter, Ring, RingOptions, WriterOptions};
use crate::engine::Clock;
use crate::model::Model;
use crate::server::{self, Archive, ArchiveLimits, Guard, Holding, Metrics, Recorder, ServerTap, Setup};

/// Runs the command.
///
/// # Errors
/// If it cannot serve at all.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let settings = Settings::of_engine(&options.as_of_record())?;
    let capture = capture_of(options)?;
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
    let recorder = recorder(options, &settings, capture.as_ref(), &assembly)?;
    let metrics = Arc::new(Metrics::default());
    let tap = ServerTap::new(recorder, Arc::clone(&metrics));
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
        archive: capture.as_ref().map(|capture| capture.archive(options)).transpose()?.flatten(),
    };
    let file = match &capture {
        Some(Capture::Always(path)) => Some(path),
        Some(Capture::Ring(_)) | None => None,
    };
    to_stdout(|out| {
        let line = json!({"listening": format!("http://{address}"), "model": name, "capture": file});
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

/// What is recorded, and where to.
enum Capture {
    /// Everything, into this file.
    Always(PathBuf),
    /// The last seconds, into files of this folder.
    Ring(PathBuf),
}

fn capture_of(options: &Options) -> anyhow::Result<Option<Capture>> {
    let mode = options.capture.unwrap_or(match options.capture_dir {
        Some(_) => CaptureOption::Ring,
        None => CaptureOption::Off,
    });
    let of_any = [
        ("--capture-dir", options.capture_dir.is_some()),
        ("--capture-tier", options.capture_tier.is_some()),
        ("--top-k-rows", options.top_k_rows.is_some()),
        ("--sketches", options.sketches.is_some()),
    ];
    let of_always = [("--overflow", options.overflow.is_some())];
    let of_ring = [
        ("--ring-seconds", options.ring_seconds.is_some()),
        ("--ring-bytes", options.ring_bytes.is_some()),
        ("--captures-bytes", options.captures_bytes.is_some()),
        ("--captures-hours", options.captures_hours.is_some()),
    ];
    let idle = match mode {
        CaptureOption::Off => [&of_any[..], &of_always, &of_ring].concat(),
        CaptureOption::Always => of_ring.to_vec(),
        CaptureOption::Ring => of_always.to_vec(),
    };
    if let Some((flag, _)) = idle.iter().find(|(_, is_given)| *is_given) {
        bail!(
            "{flag} is given, and what is recorded does not read it: give --capture and --capture-dir, or leave it out"
        );
    }
    let capture = match (mode, &options.capture_dir) {
        (CaptureOption::Off, _) => return Ok(None),
        (_, None) => bail!("--capture-dir is missing: captures are written there"),
        (CaptureOption::Always, Some(folder)) => Capture::Always(unused_name(folder)),
        (CaptureOption::Ring, Some(folder)) => Capture::Ring(folder.clone()),
    };
    if let Some(folder) = &options.capture_dir {
        std::fs::create_dir_all(folder).with_context(|| format!("--capture-dir {}", folder.display()))?;
    }
    Ok(Some(capture))
}

impl Capture {
    /// The captures of the ring.
    fn archive(&self, options: &Options) -> anyhow::Result<Option<Archive>> {
        let Self::Ring(folder) = self else { return Ok(None) };
        let limits = ArchiveLimits {
            bytes: options.captures_bytes.map_or(1 << 30, |bytes| bytes.get() as u64),
            age: Duration::from_secs(3600 * u64::from(options.captures_hours.unwrap_or(168))),
        };
        let archive = Archive::open(folder, limits);
        archive.map(Some).with_context(|| format!("--capture-dir {}", folder.display()))
    }
}

fn recorder(
    options: &Options,
    settings: &Settings,
    capture: Option<&Capture>,
    assembly: &Assembly,
) -> anyhow::Result<Option<Recorder>> {
    let header = assembly.header.clone();
    Ok(match capture {
        None => None,
        Some(Capture::Always(path)) => {
            let options = WriterOptions { overflow: settings.overflow, ..WriterOptions::default() };
            let writer = CaptureWriter::create(path, header, options)?;
            Some(Recorder::Always(Box::new(CaptureTap::new(writer, settings.tier))))
        }
        Some(Capture::Ring(_)) => {
            let time = Duration::from_secs(u64::from(options.ring_seconds.unwrap_or(60)));
            let bytes = options.ring_bytes.map_or(256 << 20, |bytes| bytes.get());
            let ring = Ring::new(header, RingOptions { time, bytes });
            Some(Recorder::Ring(Box::new(CaptureTap::new(ring, settings.tier))))
        }
    })
}

/// A name that no other run has.
fn unused_name(folder: &Path) -> PathBuf {
    let milliseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    folder.join(format!("serve-{milliseconds}-{}.mcap", std::process::id()))
}
