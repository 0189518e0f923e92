//! Speed of a capture's codecs and of its writer, on the records of a capture that is at hand.
//!
//! `cargo run --example capture_bench -- C.mcap`: encoding and decoding, the compression of chunks by zstd level, and how
//! fast a writer takes in the records when nothing else runs.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use stepscope::capture::{CaptureReader, CaptureWriter, Encoding, Record, WriterOptions};

const SHORTEST_RUN: Duration = Duration::from_millis(500);
/// As Stepscope's writer ends its chunks.
const PAYLOAD_CHUNK_BYTES: usize = 2 << 20;
const RECORD_CHUNK_BYTES: usize = 512 << 10;

fn main() -> anyhow::Result<()> {
    let path = PathBuf::from(std::env::args_os().nth(1).context("name a capture")?);
    let reader = CaptureReader::open(&path)?;
    let records: Vec<Record> = reader.messages().map(|message| Ok(message?.record)).collect::<anyhow::Result<_>>()?;
    for is_payload in [false, true] {
        let records: Vec<&Record> = records.iter().filter(|record| record.topic().is_payload() == is_payload).collect();
        if !records.is_empty() {
            codecs(&records, is_payload)?;
        }
    }
    writer(&reader, &records)
}

/// Seconds of the fastest run of `work`.
fn fastest<T>(mut work: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut best = f64::INFINITY;
    while begun.elapsed() < SHORTEST_RUN {
        let started = Instant::now();
        black_box(work()?);
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn codecs(records: &[&Record], is_payload: bool) -> anyhow::Result<()> {
    let encode = || records.iter().map(|record| record.encode(Encoding::Bincode)).collect::<Result<Vec<_>, _>>();
    let messages = encode()?;
    let bytes: usize = messages.iter().map(Vec::len).sum();
    let megabytes = bytes as f64 / 1e6;
    let name = if is_payload { "payloads" } else { "records" };
    println!("{name}: {} messages, {megabytes:.2} MB in bincode", messages.len());
    println!("  encode {:8.0} MB/s", megabytes / fastest(|| Ok(encode()?))?);
    let decode = || {
        let decoded = records.iter().zip(&messages);
        decoded
            .map(|(record, bytes)| Record::decode(record.topic(), Encoding::Bincode, bytes))
            .collect::<Result<Vec<_>, _>>()
    };
    println!("  decode {:8.0} MB/s", megabytes / fastest(|| Ok(decode()?))?);
    let chunk = if is_payload { PAYLOAD_CHUNK_BYTES } else { RECORD_CHUNK_BYTES };
    let joined = messages.concat();
    for level in [-5, -1, 1, 2, 3, 6, 9] {
        let compress =
            || joined.chunks(chunk).map(|chunk| zstd::bulk::compress(chunk, level)).collect::<Result<Vec<_>, _>>();
        let chunks = compress()?;
        let compressed: usize = chunks.iter().map(Vec::len).sum();
        let decompress =
            || chunks.iter().map(|data| zstd::bulk::decompress(data, chunk)).collect::<Result<Vec<_>, _>>();
        println!(
            "  zstd {level:>2}: {:5.1}% of the bytes, compress {:6.0} MB/s, decompress {:6.0} MB/s",
            100.0 * compressed as f64 / bytes as f64,
            megabytes / fastest(|| Ok(compress()?))?,
            megabytes / fastest(|| Ok(decompress()?))?
        );
    }
    Ok(())
}

/// Writes the records again and again.
fn writer(reader: &CaptureReader, records: &[Record]) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("written.mcap");
    let writer = CaptureWriter::create(&path, reader.header().clone(), WriterOptions::default())?;
    let mut moved = records.to_vec();
    moved.retain(|record| !matches!(record, Record::Header(_)));
    // A writer wants a step before its payloads, which stand in other chunks.
    moved.sort_by_key(|record| match record {
        Record::Step(step) => (1, step.step, 0, step.request),
        Record::Logits(payload) => (1, payload.step, 1, payload.request),
        _ => (0, 0, 0, 0),
    });
    let started = Instant::now();
    let mut handed_over = 0_usize;
    while started.elapsed() < 4 * SHORTEST_RUN {
        for record in &moved {
            writer.write(record.clone())?;
        }
        handed_over += moved.len();
    }
    let taken = started.elapsed().as_secs_f64();
    let summary = writer.finish()?;
    let seconds = started.elapsed().as_secs_f64();
    let bytes: u64 = summary.channels.iter().map(|channel| channel.bytes).sum();
    println!(
        "writer: {handed_over} records, {:.1} MB in bincode, {:.1} MB in the file: {:.0} records/s and {:.0} MB/s until it was \
         durable ({taken:.2} s to hand them over, {seconds:.2} s in all)",
        bytes as f64 / 1e6,
        summary.file_bytes as f64 / 1e6,
        handed_over as f64 / seconds,
        bytes as f64 / 1e6 / seconds
    );
    Ok(())
}
