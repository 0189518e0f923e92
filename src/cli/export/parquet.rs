//! Writing the table in batches, so that memory does not grow with the capture.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use polars::prelude::{DataFrame, ParquetWriter};

use super::super::Outcome;
use super::super::expected::expected_calls;
use super::super::tokenizer::recorded_tokenizer;
use super::Options;
use super::columns::Columns;
use crate::capture::records::StepRecord;
use crate::capture::{CaptureError, CaptureReader};
use crate::forensics::outcome::{ExpectedCalls, outcome_of_choice};
use crate::forensics::signs::{SamplingRules, Seen, Sign};
use crate::model::Tokenizer;
use crate::types::{ChoiceIndex, RequestId, SequenceId, StepId};

/// Lines of one batch, a row group of the file.
const BATCH: usize = 64 << 10;

/// Writes the table. Without the model it is not known what became of calls.
pub(super) fn export(Options { capture, out, model, expected }: &Options) -> anyhow::Result<Outcome> {
    let reader = CaptureReader::open(capture)?;
    let tokenizer = model.as_deref().map(|path| recorded_tokenizer(path, reader.header())).transpose()?;
    let expected = expected.as_deref().map(|path| expected_calls(path, &reader)).transpose()?.unwrap_or_default();
    if out.exists() {
        bail!("{}: exists already and is not overwritten; remove it or choose another name", out.display());
    }
    for issue in reader.issues().iter() {
        eprintln!("warning: {issue}");
    }
    let partial = partial_path(out);
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&partial);
    let file = file.with_context(|| format!("{}: cannot create the file", partial.display()))?;
    let written = write(&reader, tokenizer.as_deref(), &expected, file);
    let (lines, unreadable) = written.with_context(|| format!("{}: cannot write", partial.display()))?;
    std::fs::rename(&partial, out).with_context(|| format!("{}: cannot name the finished file", out.display()))?;
    println!("{}: {lines} lines", out.display());
    Ok(if unreadable == 0 && reader.issues().is_empty() { Outcome::Clean } else { Outcome::Missing })
}

/// Writes all lines; returns how many, and how many step records could not be read.
fn write(
    reader: &CaptureReader,
    tokenizer: Option<&Tokenizer>,
    expected: &ExpectedCalls,
    file: File,
) -> anyhow::Result<(u64, u64)> {
    // The first batch, even when it is empty, has the schema.
    let mut columns = Columns::of_format(reader.header().format_version);
    let empty = DataFrame::new_infer_height(columns.take())?;
    let mut writer = ParquetWriter::new(file).batched(empty.schema())?;
    let (mut lines, mut unreadable, mut waiting) = (0_u64, 0_u64, 0_usize);
    for sequence in reader.sequences() {
        let mut signs = SignsOf::new(reader, sequence);
        let calls = match tokenizer {
            Some(tokenizer) => outcome_of_choice(reader, sequence, tokenizer, expected)?.outcome.ok(),
            None => None,
        };
        for step in reader.steps(sequence) {
            let step = match step {
                Ok(step) => step,
                Err(error @ CaptureError::Io { .. }) => return Err(error.into()),
                Err(error) => {
                    eprintln!("warning: {error}");
                    unreadable += 1;
                    continue;
                }
            };
            let shown = signs.of(&step);
            waiting += columns.push(&step, &shown, calls);
            if waiting >= BATCH {
                lines += waiting as u64;
                waiting = 0;
                writer.write_batch(&DataFrame::new_infer_height(columns.take())?)?;
            }
        }
    }
    lines += waiting as u64;
    writer.write_batch(&DataFrame::new_infer_height(columns.take())?)?;
    writer.finish()?;
    Ok((lines, unreadable))
}

/// What the steps of a sequence show, one after the other.
struct SignsOf<'a> {
    reader: &'a CaptureReader,
    rules: Option<SamplingRules>,
    previous: Option<StepRecord>,
    tokens: Vec<u32>,
}

impl<'a> SignsOf<'a> {
    fn new(reader: &'a CaptureReader, sequence: SequenceId) -> Self {
        let admission = reader.request(sequence.request).ok().and_then(|records| records.admission);
        let rules = admission.as_ref().and_then(SamplingRules::of);
        let tokens = admission.map(|admission| admission.prompt_tokens).unwrap_or_default();
        Self { reader, rules, previous: None, tokens }
    }

    fn of(&mut self, step: &StepRecord) -> Vec<Option<bool>> {
        self.tokens.extend(&step.emitted);
        let mask = |hash: &[u8; 32]| self.reader.mask(hash).ok().flatten();
        let choice = SequenceId { request: RequestId(step.request), choice: ChoiceIndex(step.choice) };
        let sketches = |row: u32| self.reader.sketches(StepId(step.step), choice, row).ok();
        let model = self.reader.header().model.as_ref();
        let seen = Seen {
            step,
            previous: self.previous.as_ref(),
            rules: self.rules,
            vocabulary: model.and_then(|model| model.vocabulary_size),
            mask: &mask,
            sketches: &sketches,
            tokens: &self.tokens,
        };
        let shown = Sign::ALL.into_iter().map(|sign| sign.shows(&seen)).collect();
        self.previous = Some(step.clone());
        shown
    }
}

fn partial_path(out: &Path) -> PathBuf {
    let mut name = OsString::from(out);
    name.push(".partial");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use polars::prelude::{ParquetReader, SerReader};
    use serde_json::{Value, json};

    use super::*;
    use crate::capture::records::{
        FORMAT_VERSION, Header, LogitsTier, Recorder, RowRecord, RowStatistics, StepPath, StepRecord,
    };
    use crate::capture::{CaptureWriter, WriterOptions};
    use crate::cli::record;
    use crate::model::synthetic::SyntheticModel;

    #[test]
    fn unknown_is_null_and_known_is_exact() {
        let directory = tempfile::tempdir().unwrap();
        let (capture, out) = (directory.path().join("c.mcap"), directory.path().join("d.parquet"));
        let writer = CaptureWriter::create(&capture, header(), WriterOptions::default()).unwrap();
        writer.write(step(0, vec![])).unwrap();
        writer.write(step(1, vec![row()])).unwrap();
        writer.finish().unwrap();
        let options = Options { capture, out: out.clone(), model: None, expected: None };
        assert_eq!(export(&options).unwrap(), Outcome::Clean);
        let table = ParquetReader::new(File::open(&out).unwrap()).finish().unwrap();
        assert_eq!(table.height(), 2);
        let step = table.column("step").unwrap().u64().unwrap();
        assert_eq!((step.get(0), step.get(1)), (Some(0), Some(1)));
        let checksum = table.column("checksum").unwrap().u64().unwrap();
        assert_eq!((checksum.get(0), checksum.get(1)), (None, Some(u64::MAX)));
        let rank = table.column("rank").unwrap().u32().unwrap();
        assert_eq!((rank.get(0), rank.get(1)), (None, None));
        let path = table.column("path").unwrap().str().unwrap();
        assert_eq!(path.get(1), Some("decode"));
        assert!(export(&options).unwrap_err().to_string().contains("not overwritten"));
    }

    #[test]
    fn every_line_of_a_choice_says_what_became_of_its_calls() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        SyntheticModel::llama(9).write_gguf(&path("model.gguf")).unwrap();
        let body = |more: Value| {
            let mut body = json!({"messages": [{"role": "user", "content": "Look."}], "temperature": 0});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let look = json!([{"type": "function", "function": {"name": "look"}}]);
        let bodies = [
            body(json!({"tools": look, "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 100})),
            body(json!({"tools": look, "tool_choice": "required", "max_tokens": 9})),
            body(json!({"max_tokens": 9})),
        ];
        let line = |(index, body): (usize, &Value)| json!({"custom_id": index.to_string(), "method": "POST", "url": "/v1/chat/completions", "body": body});
        let lines: Vec<String> = bodies.iter().enumerate().map(line).map(|line| line.to_string()).collect();
        std::fs::write(path("requests.jsonl"), lines.join("\n")).unwrap();
        let settings = "threads = 1\ncontext-length = 512\ngrammar-whitespace = 'none'\n";
        std::fs::write(path("config.toml"), settings).unwrap();
        let options = record::Options {
            model: Some(path("model.gguf")),
            requests: Some(path("requests.jsonl")),
            out: Some(path("c.mcap")),
            config: Some(path("config.toml")),
            ..record::Options::default()
        };
        assert_eq!(record::run(&options).unwrap(), Outcome::Clean);

        let with = |model: Option<&str>, expected: Option<&str>, out: &str| Options {
            capture: path("c.mcap"),
            out: path(out),
            model: model.map(path),
            expected: expected.map(path),
        };
        let words = |model, expected, out: &str| -> BTreeSet<(u64, Option<String>, Option<bool>)> {
            assert_eq!(export(&with(model, expected, out)).unwrap(), Outcome::Clean);
            let table = ParquetReader::new(File::open(path(out)).unwrap()).finish().unwrap();
            let requests = table.column("request").unwrap().u64().unwrap();
            let outcomes = table.column("call_outcome").unwrap().str().unwrap();
            let broken = table.column("broken_call").unwrap().bool().unwrap();
            let line = |line| (requests.get(line).unwrap(), outcomes.get(line).map(str::to_owned), broken.get(line));
            (0..table.height()).map(line).collect()
        };
        let known = |outcome: &str, is_broken| (Some(outcome.to_owned()), Some(is_broken));
        let numbered = |outcomes: [(Option<String>, Option<bool>); 3]| {
            (0..).zip(outcomes).map(|(request, (outcome, is_broken))| (request, outcome, is_broken)).collect()
        };
        let formed = numbered([known("whole", false), known("never-closed", true), (None, None)]);
        assert_eq!(words(Some("model.gguf"), None, "with.parquet"), formed);
        assert_eq!(words(None, None, "without.parquet"), (0..3).map(|request| (request, None, None)).collect());

        // Beside its own calls it is what it was; beside others, of which there are none for the rest, the first is another.
        assert_eq!(words(Some("model.gguf"), Some("c.mcap"), "itself.parquet"), formed);
        let other = json!({"custom_id": "0", "name": "look", "arguments": {"at": "the sky"}});
        std::fs::write(path("expected.jsonl"), other.to_string()).unwrap();
        let other = numbered([known("other-arguments", true), known("never-closed", true), (None, None)]);
        assert_eq!(words(Some("model.gguf"), Some("expected.jsonl"), "other.parquet"), other);
        std::fs::write(path("stranger.jsonl"), r#"{"custom_id": "9", "name": "look", "arguments": {}}"#).unwrap();
        let error =
            export(&with(Some("model.gguf"), Some("stranger.jsonl"), "stranger.parquet")).unwrap_err().to_string();
        assert!(error.contains("for none of the requests"), "{error}");

        let mut header = CaptureReader::open(&path("c.mcap")).unwrap().header().clone();
        assert!(recorded_tokenizer(&path("model.gguf"), &header).is_ok());
        header.model.as_mut().unwrap().tokenizer_hashes[0].hex = "00".to_owned();
        let error = recorded_tokenizer(&path("model.gguf"), &header).unwrap_err().to_string();
        assert!(error.contains("the recorded one's is 00"), "{error}");
    }

    fn header() -> Header {
        Header {
            format_version: FORMAT_VERSION,
            recorder: Recorder { name: "test".into(), version: "0".into(), build: None },
            sampler_semantics: "stepscope".into(),
            arithmetic_version: None,
            epoch_ns: 0,
            model: None,
            device: None,
            configuration: vec![],
            components: vec![],
            faults: vec![],
            logits_tier: LogitsTier::Off,
            redactions: vec![],
        }
    }

    fn row() -> RowRecord {
        RowRecord {
            position: 1,
            token: Some(3),
            statistics: Some(RowStatistics {
                argmax: None,
                maximum: 1.5,
                log_sum_exp: 2.5,
                nan_count: 1,
                positive_infinity_count: 0,
                negative_infinity_count: 0,
                checksum: u64::MAX,
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

    fn step(step: u64, rows: Vec<RowRecord>) -> StepRecord {
        StepRecord {
            step,
            request: 0,
            choice: 0,
            first_position: step as u32,
            drafts: vec![],
            emitted: vec![],
            time_ns: None,
            q_len: None,
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
}
