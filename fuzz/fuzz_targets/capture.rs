//! A capture of any bytes: reading, verifying and recovering it never panics, and recovered files verify.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use stepscope::capture::columns::decode;
use stepscope::capture::{CaptureReader, Encoding, IssueKind, Record, Topic, recover, verify};
use stepscope::types::StepId;

fuzz_target!(|data: &[u8]| {
    let Some((selector, message)) = data.split_first() else { return };
    let encodings = [Encoding::Bincode, Encoding::MessagePack, Encoding::Json];
    // Single messages get deeper into the codecs than whole files do.
    if usize::from(*selector) < Topic::ALL.len() * encodings.len() {
        let topic = Topic::ALL[usize::from(*selector) / 3];
        let encoding = encodings[usize::from(*selector) % 3];
        if let Ok(record) = Record::decode(topic, encoding, message) {
            let bytes = record.encode(encoding).expect("what was decoded can be encoded");
            Record::decode(topic, encoding, &bytes).expect("what was encoded can be decoded");
            if let Record::Columns(columns) = record {
                let _ = decode(&columns);
            }
        }
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary folder");
    let path = directory.path().join("c.mcap");
    std::fs::write(&path, data).expect("a temporary file");
    read(&path, &directory.path().join("d.mcap"));
});

fn read(path: &Path, recovered: &Path) {
    let Ok(reader) = CaptureReader::open(path) else { return };
    let _ = verify(&reader);
    for sequence in reader.sequences() {
        for step in reader.steps(sequence).flatten() {
            let _ = reader.logits(StepId(step.step), sequence, 0);
            let _ = reader.sketches(StepId(step.step), sequence, 0);
        }
    }
    reader.columns().flatten().for_each(|columns| drop(decode(&columns)));
    for request in reader.requests() {
        let _ = reader.request(request);
    }
    if recover(&reader, recovered).is_ok() {
        let reader = CaptureReader::open(recovered).expect("a recovered capture opens");
        // What contradicts itself is kept as it is.
        assert!(
            reader.issues().iter().all(|issue| issue.kind == IssueKind::Contradiction),
            "{:?}",
            reader.issues()
        );
    }
}
