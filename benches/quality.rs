//! `make quality`: how far the arithmetic contract's logits are from the f32 computation, beside llama.cpp's.
//!
//! The same text, the same windows of 512 tokens, the same rows (the second half of each window), the same file.
//! The reference of each side is its own f32 computation on the dequantized weights.

use std::path::{Path, PathBuf};
use std::process::Command;

use stepscope::arith::{ATTENTION_CHUNK, KvType};
use stepscope::backend::{BackendKind, BackendOptions, BatchEntry, StepBatch, StepOutput, open};
use stepscope::model::{Model, write_dequantized};
use stepscope::types::{PageId, Position, TokenId};

const WINDOW: usize = 512;
const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/ordinary-text.txt");

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let quantized = PathBuf::from(std::env::var_os("STEPSCOPE_MODEL").ok_or("STEPSCOPE_MODEL names no model file")?);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dequantized = folder.join("quality-f32.gguf");
    write_dequantized(&quantized, &dequantized)?;

    println!("KL divergence from the f32 computation, rows {}..{} of windows of {WINDOW}", WINDOW / 2, WINDOW - 1);
    let ours = divergence(&rows(&dequantized, KvType::F32)?, &rows(&quantized, KvType::F16)?);
    println!("  stepscope, arith {}: {ours}", stepscope::arith::VERSION);
    match std::env::var_os("LLAMA_PERPLEXITY") {
        Some(program) => {
            let theirs = llama_divergence(Path::new(&program), &dequantized, &quantized, folder)?;
            println!("  llama.cpp: mean {theirs:.6}");
            println!("  ratio: {:.2} (the bar is 1.5)", ours.mean / theirs);
        }
        None => println!("  llama.cpp: not measured; set LLAMA_PERPLEXITY to the llama-perplexity program"),
    }
    Ok(())
}

/// The judged rows of every whole window of the text.
struct Rows {
    vocabulary: usize,
    values: Vec<f32>,
}

fn rows(path: &Path, kv_type: KvType) -> Result<Rows, Failure> {
    let model = Model::load(path)?;
    let tokens = model.tokenizer.encode(&std::fs::read_to_string(TEXT)?, false)?;
    let pages = WINDOW / ATTENTION_CHUNK;
    let options = BackendOptions {
        threads: 2,
        isa: None,
        kv_type,
        pages,
        state_slots: 1,
        snapshots: 0,
        drafts: 0,
        sketches: false,
    };
    let mut backend = open(BackendKind::Cpu, &model, &options)?;
    let mut rows = Rows { vocabulary: model.config.vocabulary_size, values: Vec::new() };
    let mut output = StepOutput::default();
    for window in tokens.chunks_exact(WINDOW) {
        for half in [0, WINDOW / 2] {
            let tokens: Vec<TokenId> = window[half..half + WINDOW / 2].to_vec();
            let logits_from = if half == 0 { tokens.len() } else { 0 };
            let entry = BatchEntry {
                tokens,
                first_position: Position(half as u32),
                pages: (0..pages as u32).map(PageId).collect(),
                state: None,
                convolves: true,
                logits_from,
                prefill: true,
                snapshots: Vec::new(),
            };
            backend.forward(&StepBatch { entries: vec![entry] }, &mut output)?;
        }
        // The last row of a window predicts a token outside of it.
        rows.values.extend(&output.rows[..(WINDOW / 2 - 1) * rows.vocabulary]);
    }
    Ok(rows)
}

struct Divergence {
    rows: usize,
    mean: f64,
    maximum: f64,
    same_top: f64,
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rows, mean, maximum, same_top } = self;
        write!(
            formatter,
            "mean {mean:.6}, maximum {maximum:.4}, same best token {:.2}% of {rows} rows",
            100.0 * same_top
        )
    }
}

fn log_softmax(row: &[f32]) -> Vec<f64> {
    let maximum = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = row.iter().map(|value| (f64::from(*value) - maximum).exp()).sum();
    row.iter().map(|value| f64::from(*value) - maximum - sum.ln()).collect()
}

fn best(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, index| if row[index] > row[best] { index } else { best })
}

fn divergence(reference: &Rows, measured: &Rows) -> Divergence {
    assert_eq!(reference.values.len(), measured.values.len(), "both sides judge the same rows");
    let pairs =
        reference.values.chunks_exact(reference.vocabulary).zip(measured.values.chunks_exact(measured.vocabulary));
    let (mut rows, mut total, mut maximum, mut same) = (0, 0.0, 0.0_f64, 0);
    for (expected, found) in pairs {
        let (p, q) = (log_softmax(expected), log_softmax(found));
        let divergence: f64 = p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum();
        total += divergence;
        maximum = maximum.max(divergence);
        same += usize::from(best(expected) == best(found));
        rows += 1;
    }
    Divergence { rows, mean: total / rows as f64, maximum, same_top: same as f64 / rows as f64 }
}

/// Mean KL divergence as `llama-perplexity` prints it.
fn llama_divergence(program: &Path, reference: &Path, measured: &Path, folder: &Path) -> Result<f64, Failure> {
    let base = folder.join("quality-llama-base.dat");
    let window = WINDOW.to_string();
    let run = |model: &Path, extra: &[&str]| -> Result<String, Failure> {
        let output = Command::new(program)
            .arg("-m")
            .arg(model)
            .args(["-f", TEXT, "-c", &window, "-b", &window, "-t", "2", "-ngl", "0", "--kl-divergence-base"])
            .arg(&base)
            .args(extra)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(
                format!("{} failed:\n{text}\n{}", program.display(), String::from_utf8_lossy(&output.stderr)).into()
            );
        }
        Ok(text)
    };
    run(reference, &[])?;
    let printed = run(measured, &["--kl-divergence"])?;
    let line = printed.lines().find(|line| line.starts_with("Mean") && line.contains("KLD:"));
    let value = line.and_then(|line| line.split("KLD:").nth(1)).and_then(|rest| rest.split_whitespace().next());
    Ok(value.ok_or_else(|| format!("no mean KLD in:\n{printed}"))?.parse()?)
}
