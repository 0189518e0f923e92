//! Every record survives every encoding, and nothing else passes for a record.

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::random;
use crate::capture::records::*;
use crate::capture::{DecodeError, Encoding, Record, Topic};

const ENCODINGS: [Encoding; 3] = [Encoding::Bincode, Encoding::MessagePack, Encoding::Json];

/// A record of `topic` made from `seed`.
fn invented(topic: Topic, seed: u64) -> Record {
    match topic {
        Topic::Header => random::record::<Header>(seed).into(),
        Topic::Request => random::record::<RequestRecord>(seed).into(),
        Topic::Step => random::record::<StepRecord>(seed).into(),
        Topic::Mask => random::record::<MaskRecord>(seed).into(),
        Topic::Logits => random::record::<LogitsRecord>(seed).into(),
        Topic::Sketch => random::record::<SketchRecord>(seed).into(),
        Topic::Event => random::record::<EventRecord>(seed).into(),
        Topic::Loss => random::record::<LossRecord>(seed).into(),
        Topic::Columns => random::record::<ColumnsRecord>(seed).into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn records_survive_every_encoding(seed: u64) {
        for topic in Topic::ALL {
            let record = invented(topic, seed);
            // Equality by bytes: NaN equals itself.
            let expected = record.encode(Encoding::Bincode).unwrap();
            for encoding in ENCODINGS {
                let bytes = record.encode(encoding).unwrap();
                let decoded = Record::decode(topic, encoding, &bytes);
                let decoded = decoded.unwrap_or_else(|error| panic!("{topic} {encoding:?}: {error}"));
                prop_assert_eq!(&decoded.encode(Encoding::Bincode).unwrap(), &expected, "{} {:?}", topic, encoding);
                prop_assert_eq!(decoded.encode(encoding).unwrap(), bytes, "{} {:?}", topic, encoding);
            }
        }
    }

    #[test]
    fn cut_or_continued_messages_are_refused(seed: u64) {
        for topic in Topic::ALL {
            for encoding in ENCODINGS {
                let bytes = invented(topic, seed).encode(encoding).unwrap();
                let cut = &bytes[..bytes.len() - 1];
                prop_assert!(Record::decode(topic, encoding, cut).is_err(), "{} {:?} cut", topic, encoding);
                let mut continued = bytes.clone();
                continued.push(b'0');
                prop_assert!(Record::decode(topic, encoding, &continued).is_err(), "{} {:?}", topic, encoding);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>, seed: u64) {
        for topic in Topic::ALL {
            for encoding in ENCODINGS {
                let _ = Record::decode(topic, encoding, &bytes);
                // And valid messages with some bytes replaced, which get further.
                let mut near = invented(topic, seed).encode(encoding).unwrap();
                for (index, byte) in bytes.iter().enumerate() {
                    let at = (index * 7919 + *byte as usize) % near.len();
                    near[at] = *byte;
                }
                let _ = Record::decode(topic, encoding, &near);
            }
        }
    }
}

fn refused<T: DeserializeOwned + std::fmt::Debug>(encoding: Encoding, bytes: &[u8]) -> DecodeError {
    crate::capture::codec::decode::<T>(encoding, bytes).expect_err("must be refused")
}

#[test]
fn crafted_lengths_are_refused_without_being_allocated() {
    // A string of 2^64 - 1 bytes as the first field of a redaction.
    let bincode = [&[253_u8][..], &[255; 8]].concat();
    refused::<Redaction>(Encoding::Bincode, &bincode);
    // A list of 2^32 - 1 tokens in the place of `prompt_tokens`.
    refused::<Vec<u32>>(Encoding::Bincode, &[252, 255, 255, 255, 255]);
    refused::<Vec<u32>>(Encoding::MessagePack, &[0xdd, 0xff, 0xff, 0xff, 0xff]);
    // A byte string of 4 GiB.
    let mask = rmp_serde::to_vec_named(&random::record::<MaskRecord>(1)).unwrap();
    let mut crafted = mask.clone();
    let at = crafted.windows(2).position(|pair| pair == [0xc4, 32]).unwrap();
    crafted.splice(at..at + 2, [0xc6, 0xff, 0xff, 0xff, 0xff]);
    refused::<MaskRecord>(Encoding::MessagePack, &crafted);
}

#[test]
fn wrong_enum_indices_and_names_are_refused() {
    refused::<LogitsTier>(Encoding::Bincode, &[4]);
    refused::<LogitsTier>(Encoding::Json, br#""everything""#);
    assert!(refused::<StepPath>(Encoding::Json, br#""decoding""#).to_string().contains("decode"));
}

#[test]
fn misspelled_and_missing_fields_are_refused_by_name() {
    let loss = br#"{"time_ns":"1","channel":"logits","mesages":"3","reason":"full"}"#;
    assert!(refused::<LossRecord>(Encoding::Json, loss).to_string().contains("mesages"));
    let loss = br#"{"channel":"logits","reason":"full"}"#;
    assert!(refused::<LossRecord>(Encoding::Json, loss).to_string().contains("time_ns"));
}

#[test]
fn json_takes_numbers_and_strings_for_wide_integers_and_floats() {
    fn loss(messages: &str) -> Result<LossRecord, DecodeError> {
        let text = format!(r#"{{"time_ns":7,"channel":"step","messages":{messages},"reason":""}}"#);
        crate::capture::codec::decode(Encoding::Json, text.as_bytes())
    }
    assert_eq!(loss("\"18446744073709551615\"").unwrap().messages, Some(u64::MAX));
    assert_eq!(loss("12").unwrap().messages, Some(12));
    assert_eq!(loss("null").unwrap().messages, None);
    for wrong in ["\"+1\"", "\"\"", "\" 1\"", "-1", "1.5", "\"18446744073709551616\""] {
        assert!(loss(wrong).is_err(), "{wrong}");
    }
    fn verdict(p: &str) -> Result<DraftVerdict, DecodeError> {
        let text = format!(r#"{{"p":{p},"accepted":true,"reason":"match"}}"#);
        crate::capture::codec::decode(Encoding::Json, text.as_bytes())
    }
    assert_eq!(verdict("0.5").unwrap().p, Some(0.5));
    assert_eq!(verdict("\"-Infinity\"").unwrap().p, Some(f64::NEG_INFINITY));
    assert!(verdict("\"NaN\"").unwrap().p.unwrap().is_nan());
    assert!(verdict("\"inf\"").is_err());
}

#[test]
fn encodings_agree_on_what_is_left_out() {
    #[derive(Serialize)]
    struct Core<'a> {
        step: u64,
        request: u64,
        choice: u32,
        first_position: u32,
        drafts: &'a [i64],
        emitted: &'a [u32],
    }
    let core = Core { step: 3, request: 0, choice: 0, first_position: 9, drafts: &[-1], emitted: &[4] };
    for encoding in [Encoding::MessagePack, Encoding::Json] {
        let bytes = crate::capture::codec::encode(encoding, &core).unwrap();
        let Ok(Record::Step(step)) = Record::decode(Topic::Step, encoding, &bytes) else { panic!("{encoding:?}") };
        assert_eq!((step.step, step.time_ns, step.q_len, step.rows.len()), (3, None, None, 0));
    }
}
