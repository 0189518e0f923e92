//! Captures to test on.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::arith::scalar;
use crate::capture::records::*;
use crate::capture::{CaptureWriter, RowKey, WriteSummary, WriterOptions};
use crate::types::{ChoiceIndex, RequestId, SequenceId};

pub(super) fn header() -> Header {
    Header {
        format_version: FORMAT_VERSION,
        recorder: Recorder { name: "stepscope".into(), version: "0.1.0".into(), build: None },
        sampler_semantics: "stepscope".into(),
        arithmetic_version: Some(1),
        epoch_ns: 1_700_000_000_000_000_000,
        model: None,
        device: None,
        configuration: vec![],
        components: vec![],
        faults: vec![],
        logits_tier: LogitsTier::Full,
        redactions: vec![],
    }
}

pub(super) fn step(step: u64, request: u64, rows: Vec<RowRecord>) -> StepRecord {
    StepRecord {
        step,
        request,
        choice: 0,
        first_position: step as u32,
        drafts: vec![],
        emitted: vec![7],
        time_ns: Some(step * 1_000),
        q_len: Some(1),
        prev_accepted: None,
        path: Some(StepPath::Decode),
        scheduler: None,
        batch: None,
        input_tokens: None,
        cached_prefix: None,
        drafts_raw: None,
        withheld: None,
        state: None,
        grammar: None,
        verdicts: None,
        bonus: None,
        stop: None,
        rows,
        timings: None,
    }
}

/// The logits of a step.
pub(super) fn logits(step: u64, request: u64) -> Vec<f32> {
    (0..600_u64).map(|id| ((step * 31 + request * 7 + id * id) % 997) as f32 - 400.5).collect()
}

pub(super) fn row(step: u64, request: u64) -> RowRecord {
    let statistics = scalar::row_statistics(&logits(step, request));
    RowRecord {
        position: step as u32,
        token: Some(7),
        statistics: Some(RowStatistics {
            argmax: statistics.argmax,
            maximum: statistics.maximum,
            log_sum_exp: statistics.log_sum_exp,
            nan_count: statistics.nan_count,
            positive_infinity_count: statistics.positive_infinity_count,
            negative_infinity_count: statistics.negative_infinity_count,
            checksum: statistics.checksum,
        }),
        rank: None,
        margin: None,
        scheduler_mask: None,
        applied_mask: None,
        mask_population: None,
        logprob: None,
        forced: None,
    }
}

pub(super) fn admission(request: u64) -> RequestRecord {
    RequestRecord::Admitted(Admission {
        request,
        client_id: Some(format!("client-{request}")),
        time_ns: 0,
        endpoint: None,
        body: None,
        prompt_text: None,
        add_special_tokens: None,
        prompt_tokens: vec![1, 2],
        params: None,
        owner: None,
        choices: 1,
        server_overrides: None,
        generation_config: None,
        warnings: vec![],
        constraint: None,
        tool_format: None,
    })
}

pub(super) fn completion(request: u64, steps: u64) -> RequestRecord {
    RequestRecord::Finished(Completion {
        request,
        choice: 0,
        time_ns: steps * 1_000,
        stop: Some(StopReason::MaxTokens),
        emitted_tokens: steps as u32,
        text: None,
        tool_calls: None,
    })
}

pub(super) fn sequence(request: u64) -> SequenceId {
    SequenceId { request: RequestId(request), choice: ChoiceIndex(0) }
}

pub(super) fn key(step: u64, request: u64) -> RowKey {
    RowKey { step, request, choice: 0, row: 0 }
}

/// A folder, and a name for a capture in it.
pub(super) fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.mcap");
    (directory, path)
}

/// Requests that run all through `steps`, with whole rows.
pub(super) fn fill(writer: &CaptureWriter, requests: u64, steps: std::ops::Range<u64>) {
    for index in steps {
        for request in 0..requests {
            writer.write(step(index, request, vec![row(index, request)])).unwrap();
            writer.write_row(key(index, request), logits(index, request)).unwrap();
        }
    }
}

/// A finished capture.
pub(super) fn record(path: &Path, requests: u64, steps: u64, options: WriterOptions) -> WriteSummary {
    let writer = CaptureWriter::create(path, header(), options).unwrap();
    for request in 0..requests {
        writer.write(admission(request)).unwrap();
    }
    fill(&writer, requests, 0..steps);
    for request in 0..requests {
        writer.write(completion(request, steps)).unwrap();
    }
    writer.finish().unwrap()
}

/// A finished capture in several small chunks: the writer ends one whenever it is given time.
pub(super) fn record_in_small_chunks(path: &Path, requests: u64, steps: u64) {
    let options = WriterOptions { flush_interval: std::time::Duration::ZERO, ..WriterOptions::default() };
    record(path, requests, steps, options);
}
