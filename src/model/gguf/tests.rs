use proptest::prelude::*;

use super::*;
use crate::arith::WeightFormat;

/// A file with every kind of value and tensors of three formats.
fn file() -> Vec<u8> {
    let mut writer = GgufWriter::default();
    for (key, value) in pairs() {
        writer.metadata(&key, value);
    }
    writer.tensor("vector", WeightFormat::F32, &[3], vec![1; 12]);
    writer.tensor("matrix", WeightFormat::Q4_1, &[64, 2], vec![2; 2 * 2 * 20]);
    writer.tensor("half", WeightFormat::F16, &[5, 1, 2], vec![3; 20]);
    let mut bytes = Vec::new();
    writer.write(&mut bytes).expect("written to memory");
    bytes
}

fn pairs() -> Vec<(String, Value)> {
    let pairs = [
        ("unsigned", Value::Unsigned(7)),
        ("wide", Value::Unsigned(u64::MAX)),
        ("signed", Value::Signed(-7)),
        ("float", Value::Float(0.5)),
        ("bool", Value::Bool(true)),
        ("text", Value::Text("é".to_owned())),
        ("numbers", Value::Array(Array::Unsigned(vec![1, 2]))),
        ("signed numbers", Value::Array(Array::Signed(vec![-1, i64::MAX]))),
        ("floats", Value::Array(Array::Float(vec![]))),
        ("bools", Value::Array(Array::Bool(vec![true, false]))),
        ("texts", Value::Array(Array::Text(vec!["a".to_owned(), String::new()]))),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).to_vec()
}

#[test]
fn what_is_written_is_read() {
    let file = file();
    let contents = Contents::read(&file).expect("a valid file");
    for (key, value) in pairs() {
        assert_eq!(contents.metadata.get(&key), Some(&value), "{key}");
    }
    let tensors = contents.tensors.iter().map(|tensor| {
        assert!(tensor.range.start.is_multiple_of(DEFAULT_ALIGNMENT as usize), "{tensor:?}");
        (tensor.name.as_str(), tensor.dimensions.as_slice(), file[tensor.range.clone()].to_vec())
    });
    let expected: [(&str, &[usize], Vec<u8>); 3] =
        [("vector", &[3], vec![1; 12]), ("matrix", &[64, 2], vec![2; 80]), ("half", &[5, 1, 2], vec![3; 20])];
    assert_eq!(tensors.collect::<Vec<_>>(), expected);
}

#[test]
fn a_widened_file_has_the_alignment_of_the_writer() {
    let mut writer = GgufWriter::default();
    writer.metadata("general.alignment", Value::Unsigned(8));
    writer.tensor("one", WeightFormat::F16, &[4], vec![0; 8]);
    writer.tensor("two", WeightFormat::F32, &[2], vec![0, 0, 128, 63, 0, 0, 0, 64]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [source, target] = ["source.gguf", "target.gguf"].map(|name| folder.path().join(name));
    writer.write(std::fs::File::create(&source).expect("created")).expect("written");
    crate::model::write_dequantized(&source, &target).expect("widened");
    let file = GgufFile::open(&target).expect("a valid file");
    assert_eq!(file.contents.metadata.get("general.alignment"), None);
    let values = file.contents.tensors.iter().map(|tensor| file.file.bytes()[tensor.range.clone()].to_vec());
    assert_eq!(values.collect::<Vec<_>>(), [vec![0; 16], vec![0, 0, 128, 63, 0, 0, 0, 64]]);
}

#[test]
fn version_2_reads_alike() {
    let mut file = file();
    file[4] = 2;
    assert_eq!(Contents::read(&file).expect("a valid file").tensors.len(), 3);
}

#[test]
fn getters_say_what_they_expected() {
    let metadata = pairs().into_iter().collect::<Metadata>();
    assert_eq!(metadata.unsigned("none").expect("no error"), None);
    assert_eq!(metadata.unsigned("unsigned").expect("a number"), Some(7));
    assert_eq!(metadata.sizes("numbers").expect("numbers"), Some(vec![1, 2]));
    for (error, expected) in [
        (metadata.unsigned("signed").map(drop), "signed: expected an unsigned integer, found -7"),
        (metadata.token("wide").map(drop), "wide: expected a token id, found 18446744073709551615"),
        (metadata.text("bool").map(drop), "bool: expected a string, found true"),
        (metadata.boolean("text").map(drop), "text: expected true or false, found the string \"é\""),
        (metadata.float("unsigned").map(drop), "unsigned: expected a number, found 7"),
        (
            metadata.sizes("signed numbers").map(drop),
            "signed numbers: expected an array of sizes, found an array of another type, or with elements out of range",
        ),
    ] {
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

/// The head of a file: counts, then whatever follows.
fn head(tensors: u64, pairs: u64, rest: &[&[u8]]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(pairs.to_le_bytes());
    bytes.extend(rest.concat());
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn tensor(name: &str, dimensions: &[u64], type_id: u32, offset: u64) -> Vec<u8> {
    let mut bytes = text(name);
    bytes.extend((dimensions.len() as u32).to_le_bytes());
    bytes.extend(dimensions.iter().flat_map(|size| size.to_le_bytes()));
    bytes.extend(type_id.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

/// A file whose data section has 256 bytes.
fn with_tensors(tensors: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = head(tensors.len() as u64, 0, &[&tensors.concat()]);
    bytes.resize(bytes.len().next_multiple_of(32) + 256, 0);
    bytes
}

#[test]
fn every_fault_is_named_with_its_byte() {
    let u32_type = 4_u32.to_le_bytes();
    let array_type = 9_u32.to_le_bytes();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".to_vec(), "byte 0: magic: expected 4 bytes, found 0 bytes before the end"),
        (b"GGML\x03\0\0\0".to_vec(), "byte 0: magic: expected \"GGUF\", found \"GGML\""),
        (b"GGUF\x01\0\0\0".to_vec(), "byte 4: version: expected 2 or 3, found 1"),
        (b"GGUF\0\0\0\x03".to_vec(), "byte 4: version: expected a little-endian file, found a big-endian one"),
        (
            head(u64::MAX, 0, &[]),
            "byte 8: tensor count: expected at most 0 in the 8 bytes left, found 18446744073709551615",
        ),
        (head(0, 1 << 40, &[]), "byte 16: metadata count: expected at most 0 in the 0 bytes left, found 1099511627776"),
        (head(0, 1, &[&[255; 20]]), "byte 24: metadata key: expected at most 12 in the 12 bytes left, found 1844"),
        (
            head(0, 1, &[&text("\u{e9}")[..9], &[0xff; 9]]),
            "byte 32: metadata key: expected UTF-8, found an invalid sequence",
        ),
        (
            head(0, 1, &[&text("k"), &[13, 0, 0, 0], &[0; 8]]),
            "byte 33: k: expected a value type from 0 to 12, found 13",
        ),
        (head(0, 1, &[&text("k"), &[7, 0, 0, 0], &[2]]), "byte 37: k: expected 0 or 1 for a boolean, found 2"),
        (
            head(0, 1, &[&text("k"), &array_type, &array_type, &[0; 16]]),
            "byte 37: k: expected an element type from 0 to 12 other than array, found 9",
        ),
        (
            head(0, 1, &[&text("k"), &array_type, &u32_type, &(1_u64 << 61).to_le_bytes(), &[0; 8]]),
            "byte 41: k: expected at most 2 in the 8 bytes left, found 2305843009213693952",
        ),
        (
            head(0, 1, &[&text("k"), &array_type, &[0; 4], &(1_u64 << 23).to_le_bytes(), &vec![0; 1 << 23]]),
            "byte 41: k: expected at most 4194304 array elements in all, found 8388608 more",
        ),
        (
            head(0, 2, &[&text("k"), &u32_type, &[0; 4], &text("k"), &u32_type, &[0; 4]]),
            "byte 41: metadata key: expected each key once, found \"k\" again",
        ),
        (
            head(0, 1, &[&text("general.alignment"), &u32_type, &24_u32.to_le_bytes()]),
            "general.alignment: expected a power of two from 8 to 1048576, found 24",
        ),
        (with_tensors(&[tensor("t", &[], 0, 0)]), "byte 33: t: expected 1 to 4 dimensions, found 0"),
        (with_tensors(&[tensor("t", &[1; 5], 0, 0)]), "byte 33: t: expected 1 to 4 dimensions, found 5"),
        (
            with_tensors(&[tensor("t", &[4, 0], 0, 0)]),
            "byte 37: t: expected positive dimensions, the first a multiple of 1, found [4, 0]",
        ),
        (
            with_tensors(&[tensor("t", &[33], 2, 0)]),
            "byte 37: t: expected positive dimensions, the first a multiple of 32, found [33]",
        ),
        (with_tensors(&[tensor("t", &[1 << 33, 1 << 33], 0, 0)]), "byte 37: t: expected positive dimensions"),
        (with_tensors(&[tensor("t", &[4], 13, 0)]), "byte 45: type of tensor t: expected F32 (0)"),
        (
            with_tensors(&[tensor("t", &[4], 0, 16)]),
            "byte 49: t: expected an offset that is a multiple of 32, found 16",
        ),
        (
            with_tensors(&[tensor("t", &[65], 0, 0)]),
            "byte 24: tensor t: expected data within the 320 bytes of the file",
        ),
        (
            with_tensors(&[tensor("t", &[4], 0, u64::MAX - 31)]),
            "byte 24: tensor t: expected data within the 320 bytes of the file",
        ),
        (
            with_tensors(&[tensor("one", &[4], 0, 0), tensor("one", &[4], 0, 32)]),
            "byte 59: tensor name: expected each name once, found \"one\" again",
        ),
        (
            with_tensors(&[tensor("b", &[4], 0, 32), tensor("a", &[16], 0, 0)]),
            "byte 128: tensor b: expected data behind that of a, which ends at byte 160, found data that overlaps it",
        ),
    ];
    for (file, expected) in cases {
        let error = Contents::read(&file).expect_err(expected).to_string();
        assert!(error.starts_with(expected), "expected {expected:?}, found {error:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let _ = Contents::read(&bytes);
        let _ = Contents::read(&head(2, 2, &[&bytes]));
    }

    #[test]
    fn a_cut_file_is_an_error(cut in 0_usize..1000) {
        let file = file();
        let cut = cut % (file.len() - 12);
        prop_assert!(Contents::read(&file[..cut]).is_err());
    }

    /// Whatever a changed file is taken for, its tensors lie within it.
    #[test]
    fn a_changed_file_is_an_error_or_sound(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let mut file = file();
        for (place, value) in changes {
            let place = place % file.len();
            file[place] = value;
        }
        if let Ok(contents) = Contents::read(&file) {
            for tensor in contents.tensors {
                prop_assert!(tensor.range.end <= file.len());
                let elements = tensor.dimensions.iter().product::<usize>() / tensor.format.block_elements();
                prop_assert_eq!(elements * tensor.format.block_bytes(), tensor.range.len());
            }
        }
    }
}
