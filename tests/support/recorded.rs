//! Captures of small random models, made by `record`, and their replay.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use stepscope::arith::{Isa, KvType, WeightFormat};
use stepscope::capture::records::StepRecord;
use stepscope::capture::{CaptureReader, Encoding, Record, Topic};
use stepscope::cli::record;
use stepscope::model::Model;
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::forward::{PlainModel, Products};
use stepscope::replay::{CaptureRecording, CheckName, Job, ReplayError, Report, recorded_kv_type, render, replay};
use tempfile::TempDir;

/// A model, and what `record` made of the requests of [`requests`].
pub struct Recorded {
    /// The model.
    pub model: Model,
    /// The capture's records, in file order; the header first.
    pub records: Vec<Record>,
    /// Holds the files.
    pub folder: TempDir,
    /// The capture.
    pub capture: PathBuf,
}

/// Settings of `record`: several sequences at a time, prompts in chunks.
pub const USUAL: &str = "max-batch = 3\nprefill-chunk = 24\n";

const CONTEXT_LENGTH: usize = 128;

/// A token that one prompt holds, and that few outputs do.
pub const POISON: u32 = 255;

/// Records the requests with a model whose embedding of [`POISON`] is NaN: what has read it is lost.
pub fn record_poisoned(seed: u64) -> Recorded {
    let synthetic = SyntheticModel { head: Some(WeightFormat::F32), ..SyntheticModel::llama(seed) };
    record_with(synthetic, USUAL, |model| {
        let Model { weights, .. } = model;
        let row_bytes = weights.embedding.bytes().len() / weights.embedding.rows();
        weights.embedding.bytes()[POISON as usize * row_bytes..][..row_bytes].to_vec()
    })
}

/// Records the requests with a model; `settings` are lines of a `--config` file.
pub fn record(synthetic: SyntheticModel, settings: &str) -> Recorded {
    record_with(synthetic, settings, |_| Vec::new())
}

/// Records [`constrained_requests`] with a model.
pub fn record_constrained(synthetic: SyntheticModel, settings: &str) -> Recorded {
    record_requests(synthetic, settings, 4 * CONTEXT_LENGTH, |_| Vec::new(), constrained_requests)
}

/// Records these bodies of chat completions, with the question added.
pub fn record_bodies(synthetic: SyntheticModel, settings: &str, context_length: usize, bodies: &[Value]) -> Recorded {
    let lines = |_: &Model| bodies.iter().cloned().enumerate().map(question).collect();
    record_requests(synthetic, settings, context_length, |_| Vec::new(), lines)
}

/// A body as a line of a request file, with a question.
fn question((index, mut body): (usize, Value)) -> Value {
    body["messages"] = json!([{"role": "user", "content": format!("Question {index}")}]);
    json!({"custom_id": format!("line-{index}"), "method": "POST", "url": "/v1/chat/completions", "body": body})
}

fn record_with(synthetic: SyntheticModel, settings: &str, poisoned: impl Fn(&Model) -> Vec<u8>) -> Recorded {
    record_requests(synthetic, settings, CONTEXT_LENGTH, poisoned, requests)
}

/// Records with NaN in place of the floats that `poisoned` names; none are if it is empty.
pub fn record_requests(
    synthetic: SyntheticModel,
    settings: &str,
    context_length: usize,
    poisoned: impl Fn(&Model) -> Vec<u8>,
    requests: impl Fn(&Model) -> Vec<Value>,
) -> Recorded {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut synthetic = synthetic;
    synthetic.generation_config = json!({"temperature": 0.9, "top_k": 50}).as_object().unwrap().clone();
    synthetic.write_gguf(&path("model.gguf")).unwrap();
    let healthy = poisoned(&Model::load(&path("model.gguf")).unwrap());
    if !healthy.is_empty() {
        let mut bytes = std::fs::read(path("model.gguf")).unwrap();
        let place = bytes.windows(healthy.len()).position(|window| window == healthy).unwrap();
        bytes[place..place + healthy.len()].as_chunks_mut::<4>().0.fill(f32::NAN.to_le_bytes());
        std::fs::write(path("model.gguf"), bytes).unwrap();
    }
    let model = Model::load(&path("model.gguf")).unwrap();
    let lines: Vec<String> = requests(&model).iter().map(Value::to_string).collect();
    std::fs::write(path("requests.jsonl"), lines.join("\n")).unwrap();
    let fixed = format!("threads = 1\ncontext-length = {context_length}\n");
    std::fs::write(path("config.toml"), format!("{fixed}{settings}[sampling]\nmin_p = 0.01\n")).unwrap();
    let options = record::Options {
        model: Some(path("model.gguf")),
        requests: Some(path("requests.jsonl")),
        out: Some(path("capture.mcap")),
        config: Some(path("config.toml")),
        ..record::Options::default()
    };
    record::run(&options).unwrap();
    let capture = path("capture.mcap");
    let reader = CaptureReader::open(&capture).unwrap();
    let records = reader.messages().map(|message| message.unwrap().record).collect();
    Recorded { model, records, folder, capture }
}

/// The token that ends reasoning sections of [`constrained_requests`].
pub const REASONING_END: &str = "</tool_call>";

/// One request per kind of constraint. Their reasoning ends where their bias says so, or never.
pub fn constrained_requests(model: &Model) -> Vec<Value> {
    let end = model.tokenizer.token_id(REASONING_END).unwrap().0.to_string();
    let schema = json!({"type": "object", "properties": {"number": {"type": "integer"}, "letter": {"enum": ["x", "y"]}},
        "required": ["number", "letter"], "additionalProperties": false});
    let bodies = [
        json!({"temperature": 0, "max_tokens": 60, "logit_bias": {end.as_str(): 100},
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}),
        json!({"seed": 2, "max_tokens": 60, "ignore_eos": true, "logit_bias": {end.as_str(): 100},
            "structured_outputs": {"regex": "[ab]{3,5}c"}}),
        json!({"seed": 3, "n": 2, "max_tokens": 60, "logit_bias": {end.as_str(): 5}, "repetition_penalty": 1.2,
            "structured_outputs": {"choice": ["yes, of course", "no"]}, "logprobs": true}),
        json!({"seed": 4, "max_tokens": 40, "response_format": {"type": "json_object"}}),
        json!({"temperature": 0, "max_tokens": 40, "logit_bias": {end.as_str(): 100},
            "structured_outputs": {"grammar": "start: \"the other \" NAME \" = \" NUMBER\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/"}}),
        json!({"seed": 5, "max_tokens": 12}),
        json!({"temperature": 0, "max_tokens": 60, "tool_choice": "required", "parallel_tool_calls": false,
            "logit_bias": {end.as_str(): 100},
            "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters":
                {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": false}}}]}),
    ];
    bodies.into_iter().enumerate().map(question).collect()
}

/// One request per way of sampling and of ending, and one that is refused.
pub fn requests(model: &Model) -> Vec<Value> {
    let id = |text: &str| {
        let tokens = model.tokenizer.encode(text, false).unwrap();
        assert_eq!(tokens.len(), 1, "`{text}` is one token");
        tokens[0].0.to_string()
    };
    let (a, b) = (id("a"), id("b"));
    let end = model.tokenizer.end_tokens()[0].0.to_string();
    let chat = |text: &str| json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]);
    let long = "the same words again and again ".repeat(3);
    // Leaves room for one token.
    let full: Vec<u32> = (0..CONTEXT_LENGTH as u32 - 2).map(|index| 10 + index % 200).collect();
    let bodies = [
        json!({"messages": chat("Hello."), "temperature": 0, "max_tokens": 12, "logprobs": true, "top_logprobs": 2}),
        json!({"messages": chat("Name three."), "temperature": 0.8, "top_p": 0.9, "top_k": 40, "min_p": 0.02, "seed": 7,
            "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.1, "max_tokens": 16}),
        json!({"messages": chat(&long), "n": 2, "seed": 3, "max_tokens": 9}),
        json!({"prompt": "Once upon a time", "seed": 5, "stop": ["abab", "bb"], "min_tokens": 3, "max_tokens": 60,
            "logit_bias": {a.as_str(): 100, b.as_str(): 100}}),
        json!({"prompt": [10, 20, 30, 40, 50], "temperature": 0, "ignore_eos": true, "max_tokens": 6}),
        json!({"messages": chat("Stop soon."), "min_tokens": 2, "logit_bias": {end.as_str(): 100}, "max_tokens": 20}),
        json!({"prompt": "x", "seed": 9, "stop_token_ids": [a.parse::<u32>().unwrap()], "max_tokens": 30,
            "logit_bias": {a.as_str(): 100, b.as_str(): 100}}),
        json!({"prompt": full, "seed": 1, "max_tokens": 50}),
        json!({"prompt": [10, POISON, 11], "n": 2, "seed": 4, "max_tokens": 4}),
        json!({"messages": chat("Too cold."), "temperature": -1}),
    ];
    bodies
        .into_iter()
        .enumerate()
        .map(|(index, body)| {
            let url = if body.get("messages").is_some() { "/v1/chat/completions" } else { "/v1/completions" };
            json!({"custom_id": format!("line-{index}"), "method": "POST", "url": url, "body": body})
        })
        .collect()
}

/// Replays a capture with a model, or without one.
pub fn replay_file(capture: &Path, model: Option<&Model>, isa: Isa) -> Result<Report, ReplayError> {
    let reader = CaptureReader::open(capture).unwrap();
    let kv_type = recorded_kv_type(reader.header()).unwrap_or(KvType::F32);
    let recording = CaptureRecording::new(reader);
    let plain =
        model.map(|model| PlainModel::new(model, Products::new(isa, &model.weights).unwrap(), kv_type).unwrap());
    replay(&Job {
        name: "capture.mcap",
        recording: &recording,
        plain: plain.as_ref(),
        no_model: "no model was given",
        draft: None,
        checks: &CheckName::ALL,
        progress: &|| {},
    })
}

/// Writes records as a capture of their own, whatever they say: our writer would refuse some of it.
pub fn write(records: &[Record], path: &Path) {
    write_in_chunks(records, usize::MAX, path);
}

/// As [`write`], with so many records to a chunk.
pub fn write_in_chunks(records: &[Record], length: usize, path: &Path) {
    let encoded = |record: &Record| record.encode(Encoding::Bincode).unwrap();
    write_encoded(records, length, encoded, path);
}

/// As [`write_in_chunks`], with messages that need not be those of the records.
pub fn write_encoded(records: &[Record], length: usize, encode: impl Fn(&Record) -> Vec<u8>, path: &Path) {
    let file = BufWriter::new(File::create(path).unwrap());
    let mut writer = mcap::WriteOptions::new().profile("stepscope").create(file).unwrap();
    let schema = writer.add_schema("stepscope", "stepscope", b"1").unwrap();
    let mut channels = BTreeMap::new();
    for topic in Topic::ALL {
        let channel = writer.add_channel(schema, topic.name(), Encoding::Bincode.name(), &BTreeMap::new()).unwrap();
        channels.insert(topic, (channel, 0));
    }
    let (payloads, others): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| record.topic().is_payload());
    for group in others.chunks(length).chain(payloads.chunks(length)) {
        for &record in group {
            let (channel_id, sequence) = channels.get_mut(&record.topic()).unwrap();
            *sequence += 1;
            let log_time = log_time(record, records);
            let (channel_id, sequence) = (*channel_id, *sequence);
            let header = mcap::records::MessageHeader { channel_id, sequence, log_time, publish_time: log_time };
            writer.write_to_known_channel(&header, &encode(record)).unwrap();
        }
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
}

/// A payload has the time of its step.
fn log_time(record: &Record, records: &[Record]) -> u64 {
    let of_step = |wanted: u64| {
        records.iter().find_map(|record| match record {
            Record::Step(step) if step.step == wanted => step.time_ns,
            _ => None,
        })
    };
    match record {
        Record::Logits(logits) => of_step(logits.step),
        Record::Sketch(sketch) => of_step(sketch.step),
        record => record.time_ns(),
    }
    .unwrap_or(0)
}

/// Nothing is found, and nothing is missing.
pub fn assert_clean(report: &Report) {
    assert_eq!(report.finding_count(), 0, "{}", render::text(report));
    assert!(!report.is_missing_data(), "{}", render::text(report));
}

/// Replays a capture with its model.
pub fn replayed(recorded: &Recorded) -> Report {
    replay_file(&recorded.capture, Some(&recorded.model), Isa::Scalar).unwrap()
}

/// Changes the records of a capture and replays it.
pub fn changed(recorded: &Recorded, change: impl FnOnce(&mut Vec<Record>)) -> Report {
    let mut records = recorded.records.clone();
    change(&mut records);
    let path = recorded.folder.path().join("changed.mcap");
    write(&records, &path);
    replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap()
}

/// The step records among these.
pub fn steps(records: &mut [Record]) -> impl Iterator<Item = &mut StepRecord> {
    records.iter_mut().filter_map(|record| match record {
        Record::Step(step) => Some(step.as_mut()),
        _ => None,
    })
}

/// Runs the program with this folder for its cache; its exit status and what it prints.
pub fn stepscope(arguments: &[&str], cache: &Path) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_stepscope")).args(arguments).env("STEPSCOPE_CACHE", cache).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
