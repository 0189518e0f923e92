//! `make bench`: the figures of the documentation, with the machine they were taken on.
//!
//! What is compared is measured in one run, the sides taking turns, and the best round of each counts: whatever else runs
//! on a machine only ever slows one down. Where the difference is a few percent, it is the median of many paired ratios
//! instead, with how sure it is. `LLAMA_BENCH` names llama.cpp's program of that name for the peer's side.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::Value;
use stepscope::arith::{ATTENTION_CHUNK, KvType};
use stepscope::backend::{Backend, BackendKind, BackendOptions, BatchEntry, StateAccess, StepBatch, StepOutput, open};
use stepscope::capture::records::{FORMAT_VERSION, Header, Recorder, StepPath};
use stepscope::capture::tap::{CaptureTap, Tier};
use stepscope::capture::{CaptureReader, CaptureWriter, WriterOptions};
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
    // `cargo bench --bench figures -- recording` measures that alone.
    let wanted = |part: &str| std::env::args().skip(1).all(|argument| argument.starts_with('-') || argument == part);
    if wanted("speed") {
        rows_per_step(device.as_mut())?;
        speed(&path, &model)?;
    }
    drop(device);
    if wanted("recording") {
        recording(&path, &model)?;
    }
    if wanted("speculation") {
        speculation(&path)?;
    }
    if wanted("captures") {
        captures_and_replay(&path)?;
    }
    Ok(())
}

fn options(threads: usize) -> BackendOptions {
    let pages = (PREFILL_TOKENS + 2 * DECODE_TOKENS).div_ceil(ATTENTION_CHUNK) + 1;
    BackendOptions {
        threads,
        isa: None,
        kv_type: KvType::F16,
        pages,
        state_slots: 1,
        snapshots: 0,
        drafts: 15,
        sketches: false,
    }
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
            convolves: true,
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

/// A recorder that can be switched off between two steps.
struct Switched {
    tap: CaptureTap,
    is_on: Arc<AtomicBool>,
}

impl Tap for Switched {
    fn admitted(&mut self, report: &AdmittedReport<'_>) {
        self.tap.admitted(report);
    }

    fn refused(&mut self, report: &RefusedReport<'_>) {
        self.tap.refused(report);
    }

    fn step(&mut self, report: &StepReport<'_>) {
        if self.is_on.load(Ordering::Relaxed) {
            self.tap.step(report);
        }
    }

    fn finished(&mut self, report: &FinishedReport<'_>) {
        self.tap.finished(report);
    }

    fn event(&mut self, report: &EventReport<'_>) {
        self.tap.event(report);
    }
}

/// Steps between two switches of the recorder: some 60 ms, so that both sides see the same machine.
const SEGMENT_STEPS: usize = 8;
/// Requests per tier, and tokens of each: a multiple of four segments.
const RECORDED_REQUESTS: usize = 4;
const RECORDED_TOKENS: usize = 15 * 4 * SEGMENT_STEPS;

/// What recording costs a plain decode, by tier: short segments with and without it take turns in one engine, and the
/// four of off-on-on-off (or its mirror) make one ratio, in which whatever drifts evenly cancels.
fn recording(path: &Path, model: &Model) -> Result<(), Failure> {
    let tokenizer = Model::load(path)?.tokenizer;
    println!(
        "cost of recording a decode step, 1 engine thread, {} ratios of {} steps on and off each:",
        RECORDED_REQUESTS * RECORDED_TOKENS / (4 * SEGMENT_STEPS),
        2 * SEGMENT_STEPS
    );
    println!("  {:<10} {:<44} {:<44} writer's thread", "tier", "wall time", "CPU time of the decoding thread");
    for (name, tier) in
        [("off", Tier::Off), ("hidden", Tier::Hidden), ("topk 64", Tier::TopK(64)), ("full", Tier::Full)]
    {
        let cost = cost_of_recording(model, &tokenizer, tier)?;
        let cpu = cost.cpu.map_or("not known here".to_owned(), interval);
        let writer = cost
            .writer_seconds
            .map_or("not known here".to_owned(), |seconds| format!("{:.0} us/row", 1e6 * seconds / cost.rows as f64));
        println!("  {name:<10} {:<44} {cpu:<44} {writer}", interval(cost.wall));
    }
    println!("  (steps that verify drafts come with speculation, and are not measured yet)\n");
    Ok(())
}

struct Cost {
    /// Time with recording over time without.
    wall: Vec<f64>,
    cpu: Option<Vec<f64>>,
    rows: u64,
    writer_seconds: Option<f64>,
}

fn cost_of_recording(model: &Model, tokenizer: &Arc<Tokenizer>, tier: Tier) -> Result<Cost, Failure> {
    let is_on = Arc::new(AtomicBool::new(true));
    let tap = Switched { tap: CaptureTap::new(writer(tier)?, tier), is_on: is_on.clone() };
    let context_length = PREFILL_TOKENS + 2 * DECODE_TOKENS;
    let config = EngineConfig { max_batch: 1, prefill_chunk: 256, prefix_cache: false, context_length };
    let backend = open(BackendKind::Cpu, model, &options(1))?;
    let mut engine = Engine::new(backend, tokenizer.clone(), config, Clock::start(), tap)?;
    let (mut wall, mut cpu) = (Vec::new(), Some(Vec::new()));
    for _ in 0..RECORDED_REQUESTS {
        engine.submit(submission(model, context_length)?).1.map_err(|reason| reason.to_string())?;
        engine.step()?;
        for quad in 0..RECORDED_TOKENS / (4 * SEGMENT_STEPS) {
            // Seconds without and with the recorder.
            let (mut walls, mut cpus) = ([0.0; 2], Some([0.0; 2]));
            for segment in 0..4 {
                let on = [false, true, true, false][segment] ^ (quad % 2 == 1);
                is_on.store(on, Ordering::Relaxed);
                let (started, cpu_before) = (Instant::now(), thread_seconds());
                for _ in 0..SEGMENT_STEPS {
                    engine.step()?;
                }
                walls[usize::from(on)] += started.elapsed().as_secs_f64();
                cpus = cpus.zip(cpu_before.zip(thread_seconds())).map(|(mut sums, (before, after))| {
                    sums[usize::from(on)] += after - before;
                    sums
                });
            }
            wall.push(walls[1] / walls[0]);
            cpu = cpu.zip(cpus).map(|(mut ratios, [off, on])| {
                ratios.push(on / off);
                ratios
            });
        }
        is_on.store(true, Ordering::Relaxed);
        while !engine.is_idle() {
            engine.step()?;
        }
    }
    let writer_seconds = writer_thread_seconds();
    let tap = engine.into_tap().tap;
    let rows = tap.rows();
    tap.finish()?;
    Ok(Cost { wall, cpu, rows, writer_seconds })
}

fn submission(model: &Model, context_length: usize) -> Result<Submission, Failure> {
    const PROMPT: &str = "The lighthouse keeper wrote";
    // One step more than is measured, so that no segment is short of one.
    let tokens = RECORDED_TOKENS + 2;
    let body = format!(r#"{{"prompt": "{PROMPT}", "temperature": 0, "ignore_eos": true, "max_tokens": {tokens}}}"#);
    let resolved = read_one(&body)?.resolve(&Defaults::of_model(model, RequestFields::default(), context_length)?)?;
    let tokens = model.tokenizer.encode(PROMPT, true)?;
    Ok(Submission {
        received: Received::default(),
        session: None,
        prompt: Prompt { text: None, add_special_tokens: true, tokens },
        sampling: resolved.sampling(),
        resolved,
        layers: Layers::default(),
        grammar: None,
        tools: None,
    })
}

/// The median of ratios as a percentage, with the interval that holds the true median in 95 of 100 runs, and the
/// quartiles.
fn interval(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let percent = |place: f64| 100.0 * (ratios[(place.max(0.0) as usize).min(ratios.len() - 1)] - 1.0);
    let count = ratios.len() as f64;
    // Order statistics: how many of the ratios lie below the true median is binomial.
    let spread = 0.98 * count.sqrt();
    let (low, high) = (percent(count / 2.0 - spread), percent(count / 2.0 + spread));
    let quartiles = (percent(count / 4.0), percent(3.0 * count / 4.0));
    format!(
        "{:+.2}% (95%: {low:+.2} to {high:+.2}; quartiles {:+.2} {:+.2})",
        percent(count / 2.0),
        quartiles.0,
        quartiles.1
    )
}

/// Seconds that the calling thread has run, where the system tells.
fn thread_seconds() -> Option<f64> {
    // The account is brought up to date when the scheduler is entered.
    std::thread::yield_now();
    run_seconds(Path::new("/proc/thread-self/schedstat"))
}

/// Seconds that the writers' thread has run.
fn writer_thread_seconds() -> Option<f64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let named = |thread: &std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == "capture-writer")
    };
    run_seconds(&threads.filter(named).last()?.path().join("schedstat"))
}

fn run_seconds(schedstat: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(schedstat).ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? / 1e9)
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

/// Speculation on requests that call tools, one at a time: each drafter and count takes turns with plain decoding.
fn speculation(model: &Path) -> Result<(), Failure> {
    const CALLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures/tools/requests.jsonl");
    const TURNS: usize = 2;
    let capture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures-calls.mcap");
    let record = |way: &[&str]| -> Result<Value, Failure> {
        if capture.exists() {
            std::fs::remove_file(&capture)?;
        }
        let common =
            ["record", "--requests", CALLS, "--threads", "1", "--max-batch", "1", "--prefix-cache", "off", "--json"];
        run(&[&common, way].concat(), &[("--model", model), ("--out", &capture)])
    };
    println!("24 requests that call a tool, 1 thread, one at a time, against plain decoding:");
    for whitespace in ["any", "single"] {
        for (drafter, drafts) in
            ["grammar", "ngram"].into_iter().flat_map(|name| ["2", "4", "8", "15"].map(|n| (name, n)))
        {
            let plain = ["--grammar-whitespace", whitespace];
            let drafted = [&plain[..], &["--drafter", drafter, "--drafts", drafts]].concat();
            let mut decoding = [f64::INFINITY; 2];
            let mut decoded = Decoded::default();
            let whole: [f64; 2] = best_of(TURNS, |side| {
                let run = record(if side == 0 { &plain } else { &drafted })?;
                decoded = Decoded::of(&capture)?;
                decoding[side] = decoding[side].min(decoded.seconds);
                run["seconds"].as_f64().ok_or_else(|| "no seconds".into())
            })?;
            let Decoded { proposed, verified, accepted, steps, tokens, .. } = decoded;
            println!(
                "  white space {whitespace:<6} {drafter:<8} {drafts:>2} drafts: {:.2}x decoding alone ({:.2} s and {:.2} s), {:.2}x with \
                 prompts; {:.2} tokens per step; of {proposed} proposed {verified} were verified and {accepted} accepted ({:.0}%)",
                decoding[0] / decoding[1],
                decoding[0],
                decoding[1],
                whole[0] / whole[1],
                tokens as f64 / steps as f64,
                100.0 * accepted as f64 / (verified as f64).max(1.0)
            );
        }
    }
    println!();
    Ok(())
}

/// The steps of a capture that decoded, with one request at a time.
#[derive(Default)]
struct Decoded {
    seconds: f64,
    steps: usize,
    tokens: usize,
    /// Drafts.
    proposed: usize,
    verified: usize,
    accepted: usize,
}

impl Decoded {
    fn of(capture: &Path) -> Result<Self, Failure> {
        let reader = CaptureReader::open(capture)?;
        let mut sums = Self::default();
        for step in reader.sequences().flat_map(|sequence| reader.steps(sequence)) {
            let step = step?;
            if step.path == Some(StepPath::Prefill) {
                continue;
            }
            let timings = step.timings.ok_or("a step without timings")?;
            sums.seconds += (timings.schedule_ns + timings.forward_ns + timings.sample_ns) as f64 / 1e9;
            sums.steps += 1;
            sums.tokens += step.emitted.len();
            sums.proposed += step.drafts_raw.as_ref().map_or(0, Vec::len);
            sums.verified += step.drafts.iter().filter(|draft| **draft != -1).count();
            sums.accepted += step.verdicts.iter().flatten().filter(|verdict| verdict.accepted).count();
        }
        Ok(sums)
    }
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
        convolves: true,
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
