//! Recorders in other languages: plain MCAP, msgpack or JSON, nothing but the required core.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use serde_json::{Value, json};

use super::support::place;
use crate::capture::{CaptureReader, recover, verify};
use crate::types::{ChoiceIndex, RequestId, SequenceId};

/// Messages of a minimal recorder: (topic, message).
fn messages() -> Vec<(&'static str, Value)> {
    vec![
        (
            "header",
            json!({
                "format_version": 1, "recorder": { "name": "minimal", "version": "0" },
                "sampler_semantics": "vllm", "epoch_ns": 0, "logits_tier": "off",
            }),
        ),
        ("request", json!({ "admitted": { "request": 0, "time_ns": 1, "prompt_tokens": [5, 6], "choices": 1 } })),
        ("step", json!({ "step": 0, "request": 0, "choice": 0, "first_position": 0, "drafts": [], "emitted": [9] })),
        (
            "step",
            json!({ "step": 1, "request": 0, "choice": 0, "first_position": 2, "drafts": [3, -1], "emitted": [3, 4] }),
        ),
        ("request", json!({ "finished": { "request": 0, "choice": 0, "time_ns": 9, "emitted_tokens": 3 } })),
    ]
}

fn write(encoding: &str, chunked: bool, encode: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let options = mcap::WriteOptions::new().use_chunks(chunked).compression(None);
    let messages: Vec<_> = messages().into_iter().map(|(topic, message)| (topic, encode(&message))).collect();
    write_messages(encoding, options, &messages)
}

/// A capture of those JSON messages after the header of a minimal recorder, as small as it gets: in compressed chunks of
/// 32 MiB without indexes.
pub(super) fn write_json(path: &std::path::Path, messages: &[(&'static str, Vec<u8>)]) {
    let (topic, header) = self::messages().swap_remove(0);
    let options = mcap::WriteOptions::new().compression(Some(mcap::Compression::Zstd)).chunk_size(Some(32 << 20));
    let options = options.emit_message_indexes(false);
    let all = [&[(topic, serde_json::to_vec(&header).unwrap())], messages].concat();
    std::fs::write(path, write_messages("json", options, &all)).unwrap();
}

/// A capture of that version, without a message but its header.
pub(super) fn write_json_of_version(path: &std::path::Path, version: u32) {
    let (topic, mut header) = messages().swap_remove(0);
    header["format_version"] = version.into();
    let messages = [(topic, serde_json::to_vec(&header).unwrap())];
    std::fs::write(path, write_messages("json", mcap::WriteOptions::new(), &messages)).unwrap();
}

fn write_messages(encoding: &str, options: mcap::WriteOptions, messages: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = options.profile("stepscope").create(Cursor::new(&mut file)).unwrap();
    let mut ids = BTreeMap::new();
    for (topic, message) in messages {
        let next = ids.len() as u16 + 40;
        let id = *ids.entry(*topic).or_insert(next);
        let channel = mcap::Channel {
            id,
            topic: (*topic).to_owned(),
            schema: None,
            message_encoding: encoding.to_owned(),
            metadata: BTreeMap::new(),
        };
        let data = Cow::Borrowed(message.as_slice());
        let message = mcap::Message { channel: Arc::new(channel), sequence: 0, log_time: 0, publish_time: 0, data };
        writer.write(&message).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    file
}

pub(super) fn json_file(chunked: bool) -> Vec<u8> {
    write("json", chunked, |value| serde_json::to_vec(value).unwrap())
}

pub(super) fn msgpack_file(chunked: bool) -> Vec<u8> {
    write("msgpack", chunked, |value| rmp_serde::to_vec_named(value).unwrap())
}

#[test]
fn minimal_recorders_are_read() {
    for chunked in [true, false] {
        for file in [json_file(chunked), msgpack_file(chunked)] {
            let (_directory, path) = place();
            std::fs::write(&path, &file).unwrap();
            let reader = CaptureReader::open(&path).unwrap();
            assert!(reader.issues().is_empty(), "{:?}", reader.issues());
            assert_eq!(reader.header().recorder.name, "minimal");
            let sequence = SequenceId { request: RequestId(0), choice: ChoiceIndex(0) };
            let steps: Vec<_> = reader.steps(sequence).map(Result::unwrap).collect();
            assert_eq!(steps.iter().map(|step| step.emitted.clone()).collect::<Vec<_>>(), [vec![9], vec![3, 4]]);
            assert_eq!((steps[1].drafts.clone(), steps[1].bonus, steps[1].time_ns), (vec![3, -1], None, None));
            let found = verify(&reader).unwrap();
            assert_eq!((found.findings, found.missing), (vec![], vec![]));

            let out = path.with_file_name("native.mcap");
            recover(&reader, &out).unwrap();
            let native = CaptureReader::open(&out).unwrap();
            assert_eq!(native.steps(sequence).map(Result::unwrap).collect::<Vec<_>>(), steps);
        }
    }
}

#[test]
fn a_foreign_recorder_s_mistake_is_told_with_its_place() {
    let broken = |value: &Value| {
        let text = serde_json::to_string(value).unwrap();
        text.replace("first_position", "first_positon").into_bytes()
    };
    let (_directory, path) = place();
    std::fs::write(&path, write("json", true, broken)).unwrap();
    let found = verify(&CaptureReader::open(&path).unwrap()).unwrap();
    let words = found.findings.join("\n");
    assert!(words.contains("`step` message at byte") && words.contains("first_positon"), "{words}");
}
