//! Replay of captures that are damaged, cut, recovered or contradictory: what is missing is said, and what is wrong is found.

#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use recorded::{
    USUAL, assert_clean, changed, record, replay_file, replayed, steps, stepscope, write, write_encoded,
    write_in_chunks,
};
use serde_json::Value;
use stepscope::arith::{Isa, WeightFormat};
use stepscope::capture::records::{LogitsPayload, LossRecord, Refusal, RequestRecord, StepRecord, StopReason};
use stepscope::capture::{CaptureReader, Encoding, Record, recover};
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, Finding, render};

#[test]
fn a_dropped_payload_is_missing_if_a_loss_says_so_and_a_finding_if_none_does() {
    let recorded = record(SyntheticModel::llama(10), USUAL);
    let drop_one = |records: &mut Vec<Record>| {
        let index = records.iter().position(|record| matches!(record, Record::Logits(_))).unwrap();
        match records.remove(index) {
            Record::Logits(logits) => logits.step,
            _ => unreachable!("it is a logits record"),
        }
    };
    let report = changed(&recorded, |records| {
        drop_one(records);
    });
    let found: Vec<CheckName> = report.findings.iter().map(|finding| finding.check).collect();
    assert_eq!(found, [CheckName::Logits], "{}", render::text(&report));
    let report = changed(&recorded, |records| {
        let step = drop_one(records);
        records.push(Record::Loss(LossRecord {
            time_ns: 1,
            channel: "logits".to_owned(),
            messages: Some(1),
            bytes: None,
            steps: Some((step, step)),
            reason: "the queue was full".to_owned(),
        }));
    });
    assert_eq!(report.finding_count(), 0, "{}", render::text(&report));
    assert!(report.is_missing_data());
    // The forward pass needs no payload.
    assert_eq!(report.checks[&CheckName::Forward].skipped, 0);
}

#[test]
fn a_capture_without_records_is_not_clean() {
    let recorded = record(SyntheticModel::llama(13), USUAL);
    let report = changed(&recorded, |records| records.truncate(1));
    assert!(report.is_missing_data(), "{}", render::text(&report));
}

#[test]
fn a_request_without_steps_is_found() {
    let recorded = record(SyntheticModel::llama(14), USUAL);
    let report = changed(&recorded, |records| {
        records.retain(|record| match record {
            Record::Step(step) => step.request != 4,
            Record::Logits(logits) => logits.request != 4,
            _ => true,
        });
    });
    assert!(
        report.findings.iter().any(|finding| finding.check == CheckName::Commit && finding.request == Some(4)),
        "{}",
        render::text(&report)
    );
}

#[test]
fn a_failure_without_an_invalid_row_is_found() {
    let recorded = record(SyntheticModel::llama(15), USUAL);
    let report = changed(&recorded, |records| {
        let last = steps(records).filter(|step| step.request == 4).last().unwrap();
        last.emitted.clear();
        last.rows[0].token = None;
        (last.rows[0].rank, last.rows[0].margin) = (None, None);
        last.stop = Some(StopReason::Failed("it says so".to_owned()));
    });
    let by_sampler = |finding: &&stepscope::replay::Finding| finding.check == CheckName::Sampler;
    let found = report.findings.iter().find(by_sampler).expect("the row gives a token");
    assert_eq!((found.request, found.found.as_str()), (Some(4), "none"));
}

#[test]
fn a_quantized_payload_with_an_impossible_value_is_a_finding() {
    let recorded = record(SyntheticModel::llama(18).with_format(WeightFormat::Q8_0), USUAL);
    let report = changed(&recorded, |records| {
        let payload = records.iter_mut().find_map(|record| match record {
            Record::Logits(logits) => Some(&mut logits.payload),
            _ => None,
        });
        match payload.unwrap() {
            LogitsPayload::HiddenQuantized { values, .. } => values[0] = -128,
            payload => panic!("a quantized head reads quantized values, not {payload:?}"),
        }
    });
    assert!(report.findings.iter().any(|finding| finding.check == CheckName::Logits && finding.fact == "payload"));
}

/// What is cut off or damaged says nothing about the engine, in the file itself and in what `recover` makes of it.
#[test]
fn damage_is_missing_data_and_never_a_finding() {
    let recorded = record(SyntheticModel::lfm2(22), USUAL);
    let folder = recorded.folder.path();
    let path = |name: &str| folder.join(name);
    write_in_chunks(&recorded.records, 9, &path("chunks.mcap"));
    let whole = std::fs::read(path("chunks.mcap")).unwrap();
    assert_clean(&replay_file(&path("chunks.mcap"), Some(&recorded.model), Isa::Scalar).unwrap());
    let mut with_missing_steps = 0;
    for place in (1..20).map(|part| whole.len() * part / 20) {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x55;
        for (what, bytes) in [("cut", &whole[..place]), ("flipped", flipped.as_slice())] {
            std::fs::write(path("damaged.mcap"), bytes).unwrap();
            let Ok(reader) = CaptureReader::open(&path("damaged.mcap")) else { continue };
            let _ = std::fs::remove_file(path("recovered.mcap"));
            recover(&reader, &path("recovered.mcap")).unwrap();
            for name in ["damaged.mcap", "recovered.mcap"] {
                let report = replay_file(&path(name), Some(&recorded.model), Isa::Scalar).unwrap();
                let text = render::text(&report);
                assert_eq!(report.finding_count(), 0, "{name}, {what} at {place}: {text}");
                // Recovery heals what only said where records stand.
                let may_be_healed = what == "flipped" && name == "recovered.mcap";
                assert!(report.is_missing_data() || may_be_healed, "{name}, {what} at {place}: {text}");
                with_missing_steps += u32::from(text.contains("steps before it are missing"));
            }
        }
    }
    assert!(with_missing_steps > 2, "steps in the middle of sequences were missing {with_missing_steps} times");
}

/// No CRC of a chunk covers its header and its indexes, by which payloads are found.
#[test]
fn a_chunk_that_is_misdescribed_is_missing_data_and_never_a_finding() {
    let recorded = record(SyntheticModel::llama(23), USUAL);
    let path = recorded.folder.path().join("chunks.mcap");
    write_in_chunks(&recorded.records, 60, &path);
    let whole = std::fs::read(&path).unwrap();
    let summary = mcap::Summary::read(&whole).unwrap().unwrap();
    let chunk = summary.chunk_indexes.iter().max_by_key(|chunk| chunk.chunk_start_offset).unwrap();
    let (start, length) = (chunk.chunk_start_offset as usize, chunk.chunk_length as usize);
    let (data, end) = (start + length - chunk.compressed_size as usize, start + length);
    let described = (start..data).chain((end..end + chunk.message_index_length as usize).step_by(3));
    let mut not_found = 0;
    for place in described {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x55;
        std::fs::write(&path, flipped).unwrap();
        let report = replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap();
        let text = render::text(&report);
        assert_eq!(report.finding_count(), 0, "flipped at {place}: {text}");
        assert!(report.is_missing_data(), "flipped at {place}: {text}");
        not_found += u32::from(text.contains("the row's payload is not in the capture"));
    }
    assert!(not_found > 8, "times by which payloads are not found were said {not_found} times");
}

#[test]
fn a_recovered_capture_says_what_is_missing_and_exits_3() {
    let recorded = record(SyntheticModel::llama(23), USUAL);
    let folder = recorded.folder.path();
    let path = |name: &str| folder.join(name).display().to_string();
    write_in_chunks(&recorded.records, 9, &folder.join("chunks.mcap"));
    let whole = std::fs::read(folder.join("chunks.mcap")).unwrap();
    std::fs::write(folder.join("cut.mcap"), &whole[..whole.len() / 3]).unwrap();
    let (status, _, errors) = stepscope(&["recover", &path("cut.mcap"), "--out", &path("saved.mcap")], folder);
    assert_eq!(status, Some(3), "{errors}");
    let arguments = ["replay", &path("saved.mcap"), "--model", &path("model.gguf"), "--json"];
    let (status, output, _) = stepscope(&arguments, folder);
    assert_eq!(status, Some(3), "{output}");
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(report["findings"], Value::Array(Vec::new()));
    assert!(report["damage"][0].as_str().is_some_and(|words| words.contains("lost: ")), "{output}");
    assert!(report["checks"]["forward"]["checked"].as_u64().is_some_and(|rows| rows > 0), "{output}");
}

/// Whatever a loss record says is lost excuses what is not there, and nothing else.
#[test]
fn losses_of_records_excuse_what_is_not_there() {
    let recorded = record(SyntheticModel::lfm2(24), USUAL);
    for (channel, excuses) in [("step", true), ("request", true), ("*", true), ("mask", false)] {
        let report = changed(&recorded, |records| {
            let is_gone = |record: &Record| match record {
                Record::Step(step) => step.request == 2 && step.choice == 1 && step.step % 3 == 0,
                Record::Request(record) => matches!(record.as_ref(), RequestRecord::Finished(end) if end.request == 4),
                _ => false,
            };
            records.retain(|record| !is_gone(record));
            records.push(Record::Loss(LossRecord {
                time_ns: 1,
                channel: channel.to_owned(),
                messages: None,
                bytes: None,
                steps: None,
                reason: "recover: the recording was not finished".to_owned(),
            }));
        });
        assert_eq!(report.finding_count() == 0, excuses, "{channel}: {}", render::text(&report));
        assert!(report.is_missing_data(), "{channel}");
        assert!(render::text(&report).contains("lost: an unknown number of messages of"), "{}", render::text(&report));
    }
}

#[test]
fn a_step_that_cannot_be_decoded_is_damage_and_the_rest_is_checked() {
    let recorded = record(SyntheticModel::lfm2(25), USUAL);
    let is_broken =
        |record: &Record| matches!(record, Record::Step(step) if step.request == 1 && step.emitted.len() == 1);
    let broken = recorded.records.iter().position(is_broken).unwrap();
    let path = recorded.folder.path().join("undecodable.mcap");
    let encode = |record: &Record| {
        let mut message = record.encode(Encoding::Bincode).unwrap();
        if std::ptr::eq(record, &recorded.records[broken]) {
            message.truncate(message.len() - 2);
        }
        message
    };
    write_encoded(&recorded.records, usize::MAX, encode, &path);
    let report = replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap();
    let text = render::text(&report);
    assert_eq!(report.finding_count(), 0, "{text}");
    assert!(report.damage.iter().any(|words| words.contains("a step of request 1.0: `step` message at")), "{text}");
    assert!(report.checks[&CheckName::Forward].checked > 20, "{text}");
    // A finding elsewhere is still one.
    let mut records = recorded.records.clone();
    steps(&mut records).find(|step| step.request == 0 && !step.rows.is_empty()).unwrap().emitted[0] ^= 1;
    let encode = |record: &Record| {
        let mut message = record.encode(Encoding::Bincode).unwrap();
        if std::ptr::eq(record, &records[broken]) {
            message.truncate(message.len() - 2);
        }
        message
    };
    write_encoded(&records, usize::MAX, encode, &path);
    let report = replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap();
    assert!(report.findings.iter().any(|finding| finding.request == Some(0)), "{}", render::text(&report));
}

#[test]
fn a_refusal_hides_nothing() {
    let recorded = record(SyntheticModel::llama(26), USUAL);
    let refusal = |request: u64| {
        let refusal = Refusal { request, client_id: None, time_ns: 1, body: None, error: "too cold".to_owned() };
        Record::Request(Box::new(RequestRecord::Refused(refusal)))
    };
    let rows = replayed(&recorded).checks[&CheckName::Sampler].checked;
    for first in [true, false] {
        let report = changed(&recorded, |records| {
            let place = if first { 1 } else { records.len() };
            records.insert(place, refusal(4));
        });
        let is_it = |finding: &&Finding| finding.request == Some(4) && finding.fact == "refusal";
        assert!(report.findings.iter().any(|finding| is_it(&finding)), "{}", render::text(&report));
        assert_eq!(report.checks[&CheckName::Sampler].checked, rows, "its steps are checked all the same");
    }
    let report = changed(&recorded, |records| {
        for record in records.iter_mut() {
            if matches!(record, Record::Request(it) if matches!(it.as_ref(), RequestRecord::Admitted(it) if it.request == 4))
            {
                *record = refusal(4);
            }
        }
    });
    let is_it = |finding: &&Finding| finding.request == Some(4) && finding.check == CheckName::Commit;
    assert!(report.findings.iter().any(|finding| is_it(&finding)), "{}", render::text(&report));
}

/// Every member of a step is compared with all others, once.
#[test]
fn a_step_with_very_many_members_takes_no_longer_than_their_number() {
    const CHOICES: u32 = 20_000;
    let recorded = record(SyntheticModel::llama(29), USUAL);
    let mut records = recorded.records.clone();
    let step = steps(&mut records).find(|step| step.request == 4 && !step.rows.is_empty()).unwrap().clone();
    records.extend((1..CHOICES).map(|choice| Record::Step(Box::new(StepRecord { choice, ..step.clone() }))));
    write(&records, &recorded.folder.path().join("many.mcap"));
    let path = recorded.folder.path().join("many.mcap").display().to_string();
    let (status, output, _) = stepscope(&["replay", &path, "--check", "commit", "--json"], recorded.folder.path());
    assert_eq!(status, Some(1), "{output}");
    let report: Value = serde_json::from_str(&output).unwrap();
    assert!(report["checks"]["commit"]["findings"].as_u64().is_some_and(|found| found > CHOICES.into()));
}
