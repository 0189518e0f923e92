//! The seeds of the fuzz target `capture`, run through the same code as the target runs.

use std::path::{Path, PathBuf};

use super::foreign;
use super::samples::sample;
use super::support::{admission, completion, header, place, row, step};
use crate::capture::columns::{decode, encode};
use crate::capture::conditions::Conditions;
use crate::capture::records::FORMAT_VERSION;
use crate::capture::{CaptureReader, CaptureWriter, Encoding, Record, Topic, WriterOptions, recover, verify};

const ENCODINGS: [Encoding; 3] = [Encoding::Bincode, Encoding::MessagePack, Encoding::Json];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/capture")
}

/// What the target starts from: a message of each kind behind its selector byte, and whole files.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (topic, base) in Topic::ALL.into_iter().zip((0_u8..).step_by(3)) {
        for (encoding, offset) in ENCODINGS.into_iter().zip(0..) {
            let message = sample(topic).encode(encoding).unwrap();
            seeds.push((format!("{topic}-{}", encoding.name()), [&[base + offset], &message[..]].concat()));
        }
    }
    // The sample's batch is none.
    let mut conditions = Conditions::of_format(FORMAT_VERSION);
    (0..3).for_each(|index| conditions.push(&step(index, 0, vec![row(index, 0)])));
    let batch = Record::from(encode(&conditions, 0).unwrap()).encode(Encoding::Bincode).unwrap();
    let selector = (Topic::ALL.len() * 3 - 3) as u8;
    seeds.push(("columns-batch".to_owned(), [&[selector], &batch[..]].concat()));
    for chunked in [true, false] {
        let kind = if chunked { "chunks" } else { "bare" };
        seeds.push((format!("file-json-{kind}"), foreign::json_file(chunked)));
        seeds.push((format!("file-msgpack-{kind}"), foreign::msgpack_file(chunked)));
    }
    let (_directory, path) = place();
    let writer = CaptureWriter::create(&path, header(), WriterOptions::default()).unwrap();
    writer.write(admission(0)).unwrap();
    writer.write(step(0, 0, vec![row(0, 0)])).unwrap();
    writer.write(completion(0, 1)).unwrap();
    writer.finish().unwrap();
    seeds.push(("file-native".to_owned(), std::fs::read(&path).unwrap()));
    seeds
}

/// With `STEPSCOPE_WRITE_GOLDEN` set, writes the seeds first.
#[test]
fn the_seeds_are_read() {
    if std::env::var_os("STEPSCOPE_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(folder()).unwrap();
        for (name, bytes) in seeds() {
            std::fs::write(folder().join(name), bytes).unwrap();
        }
    }
    let (mut files, mut messages, mut batches) = (0, 0, 0);
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let selector = usize::from(bytes[0]);
        if selector < Topic::ALL.len() * 3 {
            let topic = Topic::ALL[selector / 3];
            let record = Record::decode(topic, ENCODINGS[selector % 3], &bytes[1..]).unwrap();
            if let Record::Columns(columns) = record {
                batches += usize::from(decode(&columns).is_ok());
            }
            messages += 1;
            continue;
        }
        let reader = CaptureReader::open(&path).unwrap();
        assert!(reader.issues().is_empty(), "{}: {:?}", path.display(), reader.issues());
        verify(&reader).unwrap();
        let (_directory, out) = place();
        recover(&reader, &out).unwrap();
        batches += reader.columns().filter(|columns| decode(columns.as_ref().unwrap()).is_ok()).count();
        files += 1;
    }
    assert_eq!((messages, files), (Topic::ALL.len() * 3 + 1, 5));
    assert_eq!(batches, 2, "one by itself, and one in a file");
}
