//! The bytes that docs/capture-format.md shows are the bytes that are written.

use std::fmt::Write as _;
use std::path::Path;

use super::samples::sample;
use crate::capture::{Encoding, Record, Topic};

/// The fenced block of one message: its opening line and its text.
fn block(topic: Topic, encoding: Encoding) -> (String, String) {
    let bytes = sample(topic).encode(encoding).unwrap();
    let text = match encoding {
        Encoding::Json => String::from_utf8(bytes).unwrap() + "\n",
        Encoding::Bincode | Encoding::MessagePack => {
            let mut text = String::new();
            for line in bytes.chunks(32) {
                let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(text, "{}", line.join(" ")).unwrap();
            }
            text
        }
    };
    (format!("```golden {topic} {}\n", encoding.name()), text)
}

/// Where a block's text stands in the document.
fn find(document: &str, opening: &str) -> std::ops::Range<usize> {
    let start = document.find(opening).unwrap_or_else(|| panic!("no block {opening:?}")) + opening.len();
    start..start + document[start..].find("```").expect("the block is closed")
}

/// With `STEPSCOPE_WRITE_GOLDEN` set, writes the blocks instead of comparing them.
#[test]
fn the_document_s_bytes_are_the_code_s() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/capture-format.md");
    let mut document = std::fs::read_to_string(&path).unwrap();
    let is_writing = std::env::var_os("STEPSCOPE_WRITE_GOLDEN").is_some();
    for topic in Topic::ALL {
        for encoding in [Encoding::Bincode, Encoding::MessagePack, Encoding::Json] {
            let (opening, expected) = block(topic, encoding);
            let range = find(&document, &opening);
            if is_writing {
                document.replace_range(range, &expected);
            } else {
                assert_eq!(document[range].to_owned(), expected, "{}", opening.trim());
            }
        }
    }
    if is_writing {
        std::fs::write(&path, document).unwrap();
    }
}

#[test]
fn the_document_s_bytes_decode_to_the_samples() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/capture-format.md");
    let document = std::fs::read_to_string(&path).unwrap();
    for topic in Topic::ALL {
        let expected = sample(topic).encode(Encoding::Bincode).unwrap();
        for encoding in [Encoding::Bincode, Encoding::MessagePack, Encoding::Json] {
            let text = &document[find(&document, &block(topic, encoding).0)];
            let bytes = match encoding {
                Encoding::Json => text.trim().as_bytes().to_vec(),
                _ => text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect(),
            };
            let record = Record::decode(topic, encoding, &bytes).unwrap();
            assert_eq!(record.encode(Encoding::Bincode).unwrap(), expected, "{topic} {encoding:?}");
        }
    }
}
