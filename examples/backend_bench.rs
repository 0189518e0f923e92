//! Prefill and decode speed of the CPU backend alone, on a model file.
//!
//! `cargo run --example backend_bench -- MODEL.gguf [THREADS]...` prints the best of a few rounds: machines that run
//! anything else besides are noisy in one direction only.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use stepscope::arith::{ATTENTION_CHUNK, KvType};
use stepscope::backend::{Backend, BackendKind, BackendOptions, BatchEntry, StateAccess, StepBatch, StepOutput, open};
use stepscope::model::Model;
use stepscope::types::{PageId, Position, StateSlot, TokenId};

const PREFILL_TOKENS: usize = 512;
const DECODE_TOKENS: usize = 128;
const VERIFY_ROWS: usize = 16;
const ROUNDS: usize = 3;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((path, threads)) = arguments.split_first() else { bail!("usage: backend_bench MODEL.gguf [THREADS]...") };
    let model = Model::load(Path::new(path))?;
    let threads = match threads {
        [] => vec![std::thread::available_parallelism()?.get()],
        given => given.iter().map(|count| count.parse()).collect::<Result<_, _>>().context("a number of threads")?,
    };
    for threads in threads {
        let options = BackendOptions {
            threads,
            isa: None,
            kv_type: KvType::F16,
            pages: (PREFILL_TOKENS + DECODE_TOKENS).div_ceil(ATTENTION_CHUNK) + 1,
            state_slots: 1,
            snapshots: 0,
            drafts: VERIFY_ROWS - 1,
        };
        let started = Instant::now();
        let mut backend = open(BackendKind::Cpu, &model, &options)?;
        println!("{:?}", backend.device());
        println!("{threads} threads: loaded in {:.2} s", started.elapsed().as_secs_f64());
        let mut bench = Bench { has_state: backend.capacity().state_slots > 0, output: StepOutput::default() };
        let prefill = bench.rate(backend.as_mut(), PREFILL_TOKENS, 0, PREFILL_TOKENS)?;
        println!("{threads} threads: prefill of {PREFILL_TOKENS}: {prefill:.1} tok/s");
        let decode = bench.rate(backend.as_mut(), 1, 0, DECODE_TOKENS)?;
        println!("{threads} threads: decode of {DECODE_TOKENS} from empty: {decode:.1} tok/s");
        let late = bench.rate(backend.as_mut(), 1, PREFILL_TOKENS, DECODE_TOKENS)?;
        println!("{threads} threads: decode of {DECODE_TOKENS} after {PREFILL_TOKENS}: {late:.1} tok/s");
        let verify = bench.rate(backend.as_mut(), VERIFY_ROWS, 0, DECODE_TOKENS)?;
        println!("{threads} threads: verify, {VERIFY_ROWS} rows a step: {verify:.1} rows/s");
    }
    Ok(())
}

struct Bench {
    has_state: bool,
    output: StepOutput,
}

impl Bench {
    /// Best rate over some rounds, in tokens per second, of computing `tokens` tokens from position `first` on, `step` at
    /// a time.
    fn rate(&mut self, backend: &mut dyn Backend, step: usize, first: usize, tokens: usize) -> anyhow::Result<f64> {
        let prefill = step == PREFILL_TOKENS;
        let mut best = 0.0_f64;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            for start in (first..first + tokens).step_by(step) {
                let entry = BatchEntry {
                    tokens: (0..step).map(|token| TokenId((start + token) as u32 % 97 + 1)).collect(),
                    first_position: Position(start as u32),
                    pages: (0..(start + step).div_ceil(ATTENTION_CHUNK) as u32).map(PageId).collect(),
                    state: self.has_state.then_some(StateAccess { slot: StateSlot(0), column: 0 }),
                    logits_from: if prefill { step - 1 } else { 0 },
                    prefill,
                    snapshots: Vec::new(),
                };
                backend.forward(&StepBatch { entries: vec![entry] }, &mut self.output)?;
            }
            best = best.max(tokens as f64 / started.elapsed().as_secs_f64());
        }
        Ok(best)
    }
}
