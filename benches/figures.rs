//! `make bench`: the figures of the documentation, with the machine they were taken on.
//!
//! What is compared is measured in one run, the sides taking turns, and the best round of each counts: whatever else runs
//! on a machine only ever slows one down. `LLAMA_BENCH` names llama.cpp's program of that name for the peer's side.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use stepscope::arith::{ATTENTION_CHUNK, KvType};
use stepscope::backend::{Backend, BackendKind, BackendOptions, BatchEntry, StateAccess, StepBatch, StepOutput, open};
use stepscope::capture::records::{FORMAT_VERSION, Header, Recorder};
use stepscope::capture::tap::{CaptureTap, Tier};
use stepscope::capture::{CaptureWriter, WriterOptions};
use stepscope::engine::{
    AdmittedReport, Clock, Engine, EngineConfig, EventReport, FinishedReport, Layers, Prompt, Received, RefusedReport,
    StepReport, Submission, Tap,
};
use stepscope::model::{Model, Tokenizer};
use stepscope::params::{Defaults, RequestFields, read_one};
use stepscope::types::{PageId, Position, StateSlot, TokenId};

const ROUNDS: usize = 5;
const PREFILL_TOKENS: usize = 512;
const DECODE_TOKENS: usize = 128;
const REQUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures/tour/requests.jsonl");

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let path = PathBuf::from(std::env::var_os("STEPSCOPE_MODEL").ok_or("STEPSCOPE_MODEL names no model file")?);
    let model = Model::load(&path)?;
    let mut device = open(BackendKind::Cpu, &model, &options(1))?;
    println!("machine: {:?}, {} cores", device.device().name, std::thread::available_parallelism()?);
    println!("model: {}\n", model.identity.name);
    rows_per_step(device.as_mut())?;
    speed(&path, &model)?;
    drop(device);
    recording(&path, &model)?;
    captures_and_replay(&path)
}

fn options(threads: usize) -> BackendOptions {
    let pages = (PREFILL_TOKENS + 2 * DECODE_TOKENS).div_ceil(ATTENTION_CHUNK) + 1;
    BackendOptions { threads, isa: None, kv_type: KvType::F16, pages, state_slots: 1, snapshots: 0, drafts: 15 }
}

/// Rounds of `sides`, in turn; the shortest time of each, in seconds.
fn best_of<const SIDES: usize>(
    rounds: usize,
    mut side: impl FnMut(usize) -> Result<f64, Failure>,
) -> Result<[f64; SIDES], Failure> {
    let mut best = [f64::INFINITY; SIDES];
    for _ in 0..rounds {
        for (index, best) in best.iter_mut().enumerate() {
            *best = best.min(side(index)?);
        }
    }
    Ok(best)
}

/// Seconds that `tokens` tokens take from an empty cache, `width` at a time.
fn forward_seconds(backend: &mut dyn Backend, width: usize, tokens: usize) -> Result<f64, Failure> {
    let prefill = width == PREFILL_TOKENS;
    let has_state = backend.capacity().state_slots > 0;
    let mut output = StepOutput::default();
    let started = Instant::now();
    for start in (0..tokens).step_by(width) {
        let entry = BatchEntry {
            tokens: (start..start + width).map(|token| TokenId(token as u32 % 97 + 1)).collect(),
            first_position: Position(start as u32),
            pages: (0..(start + width).div_ceil(ATTENTION_CHUNK) as u32).map(PageId).collect(),
            state: has_state.then_some(StateAccess { slot: StateSlot(0), column: 0 }),
            logits_from: if prefill { width - 1 } else { 0 },
            prefill,
            snapshots: Vec::new(),
        };
        backend.forward(&StepBatch { entries: vec![entry] }, &mut output)?;
    }
    Ok(started.elapsed().as_secs_f64())
}

fn rows_per_step(backend: &mut dyn Backend) -> Result<(), Failure> {
    println!("cost of a step by its rows, 1 thread:");
    const WIDTHS: [usize; 5] = [1, 2, 4, 8, 16];
    let best: [f64; 5] = best_of(ROUNDS, |side| forward_seconds(backend, WIDTHS[side], DECODE_TOKENS))?;
    for (width, seconds) in WIDTHS.iter().zip(best) {
        let milliseconds = 1000.0 * seconds * *width as f64 / DECODE_TOKENS as f64;
        println!("  {width:>2} rows: {milliseconds:6.2} ms, {:.2}x of one row", seconds * *width as f64 / best[0]);
    }
    println!();
    Ok(())
}

/// Prefill and decode beside llama.cpp's, on the same file and threads.
fn speed(path: &Path, model: &Model) -> Result<(), Failure> {
    let peer = std::env::var_os("LLAMA_BENCH");
    for threads in [1, 2] {
        let mut backend = open(BackendKind::Cpu, model, &options(threads))?;
        for (name, width, tokens) in [("prefill", PREFILL_TOKENS, PREFILL_TOKENS), ("decode", 1, DECODE_TOKENS)] {
            let best: [f64; 2] = best_of(ROUNDS, |side| match (side, &peer) {
                (0, _) => forward_seconds(backend.as_mut(), width, tokens),
                (_, Some(program)) => llama_seconds(Path::new(program), path, threads, width > 1, tokens),
                (_, None) => Ok(f64::NAN),
            })?;
            let ours = tokens as f64 / best[0];
            match peer {
                Some(_) => println!(
                    "{name} of {tokens} tokens, {threads} threads: {ours:.1} tok/s, llama-bench {:.1}: {:.2}x",
                    tokens as f64 / best[1],
                    best[1] / best[0]
                ),
                None => {
                    println!("{name} of {tokens} tokens, {threads} threads: {ours:.1} tok/s (no LLAMA_BENCH given)")
                }
            }
        }
    }
    println!();
    Ok(())
}

fn llama_seconds(program: &Path, model: &Path, threads: usize, prefill: bool, tokens: usize) -> Result<f64, Failure> {
    let (prompt, generated) = if prefill { (tokens, 0) } else { (0, tokens) };
    let output = Command::new(program)
        .arg("-m")
        .arg(model)
        .args(["-t", &threads.to_string(), "-p", &prompt.to_string(), "-n", &generated.to_string()])
        .args(["-ngl", "0", "-r", "1", "-o", "json"])
        .output()?;
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    let rate = printed.pointer("/0/avg_ts").and_then(Value::as_f64).ok_or("llama-bench printed no avg_ts")?;
    Ok(tokens as f64 / rate)
}

/// A tap that looks at nothing: the engine without a recorder.
struct NoRecorder;

impl Tap for NoRecorder {
    fn admitted(&mut self, _: &AdmittedReport<'_>) {}
    fn refused(&mut self, _: &RefusedReport<'_>) {}
    fn step(&mut self, _: &StepReport<'_>) {}
    fn finished(&mut self, _: &FinishedReport<'_>) {}
    fn event(&mut self, _: &EventReport<'_>) {}
}

/// What recording costs a plain decode, by tier.
fn recording(path: &Path, model: &Model) -> Result<(), Failure> {
    let tokenizer = Arc::new(Model::load(path)?.tokenizer);
    const TIERS: [(&str, Option<Tier>); 5] = [
        ("no recorder", None),
        ("off", Some(Tier::Off)),
        ("hidden", Some(Tier::Hidden)),
        ("topk 64", Some(Tier::TopK(64))),
        ("full", Some(Tier::Full)),
    ];
    println!("decode of {DECODE_TOKENS} tokens, 1 engine thread, by what is recorded:");
    let best: [f64; 5] = best_of(ROUNDS, |side| match TIERS[side].1 {
        None => engine_seconds(model, &tokenizer, NoRecorder).map(|(seconds, _)| seconds),
        Some(tier) => {
            let (seconds, tap) = engine_seconds(model, &tokenizer, CaptureTap::new(writer(tier)?, tier))?;
            tap.finish()?;
            Ok(seconds)
        }
    })?;
    for ((name, _), seconds) in TIERS.iter().zip(best) {
        let cost = 100.0 * (seconds / best[0] - 1.0);
        println!("  {name:<12} {:7.1} tok/s  {cost:+.1}%", DECODE_TOKENS as f64 / seconds);
    }
    println!("  (steps that verify drafts come with speculation, and are not measured yet)\n");
    Ok(())
}

fn writer(tier: Tier) -> Result<CaptureWriter, Failure> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures.mcap");
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let recorder = Recorder { name: "figures".to_owned(), version: String::new(), build: None };
    let header = Header {
        format_version: FORMAT_VERSION,
        recorder,
        sampler_semantics: "stepscope".to_owned(),
        arithmetic_version: None,
        epoch_ns: 0,
        model: None,
        device: None,
        configuration: Vec::new(),
        components: Vec::new(),
        faults: Vec::new(),
        logits_tier: tier.in_header(),
        redactions: Vec::new(),
    };
    Ok(CaptureWriter::create(&path, header, WriterOptions::default())?)
}

fn engine_seconds<T: Tap>(model: &Model, tokenizer: &Arc<Tokenizer>, tap: T) -> Result<(f64, T), Failure> {
    let backend = open(BackendKind::Cpu, model, &options(1))?;
    let config = EngineConfig { max_batch: 1, prefill_chunk: 256, prefix_cache: false, context_length: PREFILL_TOKENS };
    let body = format!(
        r#"{{"prompt": "The lighthouse keeper wrote", "temperature": 0, "ignore_eos": true, "max_tokens": {DECODE_TOKENS}}}"#
    );
    let request = read_one(&body)?;
    let resolved = request.resolve(&Defaults::of_model(model, RequestFields::default(), PREFILL_TOKENS)?)?;
    let tokens = model.tokenizer.encode("The lighthouse keeper wrote", true)?;
    let submission = Submission {
        received: Received::default(),
        session: None,
        prompt: Prompt { text: None, add_special_tokens: true, tokens },
        sampling: resolved.sampling(),
        resolved,
        layers: Layers::default(),
    };
    let mut engine = Engine::new(backend, tokenizer.clone(), config, Clock::start(), tap)?;
    engine.submit(submission).1.map_err(|reason| reason.to_string())?;
    engine.step()?;
    let started = Instant::now();
    while !engine.is_idle() {
        engine.step()?;
    }
    Ok((started.elapsed().as_secs_f64(), engine.into_tap()))
}

/// Bytes per row of each tier, and replay against recording, on the requests of the tour.
fn captures_and_replay(model: &Path) -> Result<(), Failure> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    println!("the tour's requests, one thread everywhere:");
    let mut recorded_seconds = f64::NAN;
    for tier in ["full", "topk", "off", "hidden"] {
        let capture = folder.join(format!("figures-{tier}.mcap"));
        if capture.exists() {
            std::fs::remove_file(&capture)?;
        }
        let arguments = ["record", "--requests", REQUESTS, "--threads", "1", "--tier", tier, "--json"];
        let summary = run(&arguments, &[("--model", model), ("--out", &capture)])?;
        let per_row = summary.pointer("/bytes_per_row").and_then(Value::as_f64).ok_or("no bytes_per_row")?;
        recorded_seconds = summary.pointer("/seconds").and_then(Value::as_f64).ok_or("no seconds")?;
        println!("  {tier:<7} {per_row:10.1} bytes per row, whole file");
    }
    raw_bytes(model)?;
    for (name, checks) in [
        ("prompt, params, validity, commit, termination", "prompt,params,validity,commit,termination"),
        ("logits, sampler", "logits,sampler"),
        ("forward", "forward"),
    ] {
        let started = Instant::now();
        let capture = folder.join("figures-hidden.mcap");
        let arguments = ["replay", &capture.to_string_lossy(), "--threads", "1", "--json", "--check", checks];
        run(&arguments, &[("--model", model)])?;
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "  replay of {name}: {seconds:.2} s with loading the model, recording {recorded_seconds:.2} s without: {:.2}x as fast",
            recorded_seconds / seconds
        );
    }
    Ok(())
}

/// Raw and zstd-compressed size of a row, over rows that the model computes for the text of `make quality`.
fn raw_bytes(path: &Path) -> Result<(), Failure> {
    let model = Model::load(path)?;
    let mut backend = open(BackendKind::Cpu, &model, &options(1))?;
    let text = include_str!("ordinary-text.txt");
    let tokens = model.tokenizer.encode(text, true)?[..64].to_vec();
    let entry = BatchEntry {
        tokens,
        first_position: Position(0),
        pages: vec![PageId(0), PageId(1)],
        state: None,
        logits_from: 0,
        prefill: true,
        snapshots: Vec::new(),
    };
    let mut output = StepOutput::default();
    backend.forward(&StepBatch { entries: vec![entry] }, &mut output)?;
    let bytes: Vec<u8> = output.rows.iter().flat_map(|value| value.to_le_bytes()).collect();
    let rows = output.statistics.len() as f64;
    let compressed = zstd::bulk::compress(&bytes, 1)?;
    println!("  raw     {:10.1} bytes per row", bytes.len() as f64 / rows);
    println!("  zstd 1  {:10.1} bytes per row", compressed.len() as f64 / rows);
    Ok(())
}

fn run(arguments: &[&str], paths: &[(&str, &Path)]) -> Result<Value, Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepscope"));
    command.args(arguments);
    for (flag, path) in paths {
        command.arg(flag).arg(path);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(
            format!("{arguments:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
