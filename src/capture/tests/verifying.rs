//! Verification finds each kind of contradiction, and only that.

use super::support::*;
use crate::capture::records::*;
use crate::capture::writer::CopyWriter;
use crate::capture::{CaptureReader, Record, WriterOptions, verify};

const STEPS: u64 = 3;

/// The records of a whole capture, with their times.
pub(super) fn records() -> Vec<(Record, u64)> {
    let epoch = header().epoch_ns;
    let mask = MaskRecord::new(600, [vec![0b101], vec![0; 74]].concat());
    let mut records: Vec<(Record, u64)> = vec![(admission(0).into(), epoch), (mask.clone().into(), epoch)];
    for index in 0..STEPS {
        let mut row = row(index, 0);
        (row.applied_mask, row.mask_population) = (Some(mask.hash), Some(2));
        let mut step = step(index, 0, vec![row]);
        step.drafts = vec![4, -1];
        step.withheld = Some(vec![WithheldDraft { index: 1, reason: WithheldReason::Grammar }]);
        let verdict = DraftVerdict { p: None, q: None, u: None, accepted: false, reason: VerdictReason::Mismatch };
        step.verdicts = Some(vec![verdict; 2]);
        records.push((step.into(), epoch + index * 1_000));
        let payload = crate::capture::row::encode_full(&logits(index, 0)).unwrap();
        let logits = LogitsRecord { step: index, request: 0, choice: 0, row: 0, payload };
        records.push((logits.into(), epoch + index * 1_000));
    }
    records.push((completion(0, STEPS).into(), epoch + STEPS * 1_000));
    records
}

/// Writes a capture with those records.
pub(super) fn write(path: &std::path::Path, records: Vec<(Record, u64)>) {
    let mut writer = CopyWriter::create(path, header(), &WriterOptions::default()).unwrap();
    for (record, log_time) in records {
        writer.write(record, log_time).unwrap();
    }
    writer.finish().unwrap();
}

/// Findings of a capture with those records.
fn findings(records: Vec<(Record, u64)>) -> Vec<String> {
    let (_directory, path) = place();
    write(&path, records);
    verify(&CaptureReader::open(&path).unwrap()).unwrap().findings
}

/// Findings after `change` has altered the records of the last step, or those around it.
fn after(change: impl Fn(&mut Vec<(Record, u64)>)) -> Vec<String> {
    let mut records = records();
    change(&mut records);
    findings(records)
}

fn last_step(records: &mut [(Record, u64)]) -> &mut StepRecord {
    let steps = records.iter_mut().rev().find_map(|(record, _)| match record {
        Record::Step(step) => Some(step.as_mut()),
        _ => None,
    });
    steps.unwrap()
}

fn last_logits(records: &mut [(Record, u64)]) -> &mut (Record, u64) {
    records.iter_mut().rev().find(|(record, _)| matches!(record, Record::Logits(_))).unwrap()
}

#[test]
fn a_whole_capture_has_no_findings() {
    assert_eq!(findings(records()), Vec::<String>::new());
}

pub(super) type Change = fn(&mut Vec<(Record, u64)>);

/// Contradictions: words of the finding, and how they come about.
pub(super) fn contradictions() -> Vec<(&'static str, Change)> {
    vec![
        ("first_position 0 is before", |records| last_step(records).first_position = 0),
        ("draft -2 is neither", |records| last_step(records).drafts[0] = -2),
        ("`withheld` does not name", |records| last_step(records).withheld = Some(vec![])),
        ("`verdicts` has not one entry", |records| last_step(records).verdicts = Some(vec![])),
        ("a row at position 9", |records| last_step(records).rows[0].position = 9),
        ("statistics say", |records| last_step(records).rows[0].statistics.as_mut().unwrap().checksum ^= 1),
        ("mask_population says 3", |records| last_step(records).rows[0].mask_population = Some(3)),
        ("is not here", |records| last_step(records).rows[0].scheduler_mask = Some([7; 32])),
        ("row 0: 2 `logits` messages", |records| {
            let again = last_logits(records).clone();
            records.push(again);
        }),
        ("there is no step 77", |records| {
            let Record::Logits(logits) = &mut last_logits(records).0 else { unreachable!() };
            logits.step = 77;
        }),
        ("it will not be found", |records| last_logits(records).1 += 1),
        ("row decompresses to", |records| {
            let Record::Logits(logits) = &mut last_logits(records).0 else { unreachable!() };
            let LogitsPayload::Full { length, .. } = &mut logits.payload else { unreachable!() };
            *length += 1;
        }),
        ("not in order", |records| {
            let Record::Logits(logits) = &mut last_logits(records).0 else { unreachable!() };
            logits.payload = LogitsPayload::TopK { ids: vec![2, 1], values: vec![1.0, 1.0] };
        }),
        ("its bits have another hash", |records| {
            let Record::Mask(mask) = &mut records[1].0 else { unreachable!() };
            mask.bits[0] = 0b110;
        }),
        ("its steps emit 2 tokens, its end says 3", |records| last_step(records).emitted = vec![]),
        ("no record of its admission", |records| {
            records.remove(0);
        }),
        ("recorded more than once", |records| {
            let mut other = last_step(records).clone();
            other.emitted = vec![8];
            records.push((other.into(), 0));
        }),
        ("a quantized value of -128", |records| {
            let Record::Logits(logits) = &mut last_logits(records).0 else { unreachable!() };
            logits.payload = LogitsPayload::HiddenQuantized { values: vec![i8::MIN; 32], scales: vec![1.0] };
        }),
        ("a `logits` message for row 1, which it has not", |records| {
            let Record::Logits(logits) = &mut last_logits(records).0 else { unreachable!() };
            logits.row = 1;
        }),
        ("its steps emit 3 tokens, its end says 2", |records| {
            *records.last_mut().unwrap() = (completion(0, 2).into(), 0);
        }),
        ("choice 4 ended, but only 1 were admitted", |records| {
            let RequestRecord::Finished(mut end) = completion(0, 0) else { unreachable!() };
            end.choice = 4;
            records.push((RequestRecord::Finished(end).into(), 0));
        }),
        ("both refused and admitted", |records| records.push((refusal().into(), 0))),
        ("both refused and run", |records| records[0] = (refusal().into(), 0)),
        ("it differs from the first", |records| {
            let other = Header { sampler_semantics: "vllm".into(), ..header() };
            records.push((other.into(), 0));
        }),
        ("ends more than once", |records| records.push((completion(0, 1).into(), 0))),
    ]
}

fn refusal() -> RequestRecord {
    RequestRecord::Refused(Refusal { request: 0, client_id: None, time_ns: 0, body: None, error: "no".into() })
}

#[test]
fn each_contradiction_is_found() {
    for (expected, change) in contradictions() {
        let found = after(change);
        assert!(found.iter().any(|finding| finding.contains(expected)), "expected {expected:?} in {found:?}");
        assert!(found.len() <= 3, "{expected}: {found:?}");
    }
}

#[test]
fn a_hostile_number_of_choices_costs_nothing() {
    let found = after(|records| {
        let Record::Request(request) = &mut records[0].0 else { unreachable!() };
        let RequestRecord::Admitted(admission) = request.as_mut() else { unreachable!() };
        admission.choices = u32::MAX;
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_refusal_does_not_hide_what_its_request_ran() {
    let found = after(|records| {
        records.push((refusal().into(), 0));
        *records.iter_mut().rev().nth(1).unwrap() = (completion(0, 9).into(), 0);
    });
    assert!(found.iter().any(|finding| finding.contains("both refused and admitted")), "{found:?}");
    assert!(found.iter().any(|finding| finding.contains("its end says 9")), "{found:?}");
}

#[test]
fn what_is_missing_is_said_once() {
    let (_directory, path) = place();
    let mut records = records();
    records.pop();
    write(&path, records);
    let found = verify(&CaptureReader::open(&path).unwrap()).unwrap();
    assert_eq!(found.missing, ["request 0: 1 of 1 choices have no end"]);
}

#[test]
fn findings_are_bounded() {
    let found = |count: u64| {
        let (_directory, path) = place();
        let mut records = records();
        for index in 0..count {
            let mut step = step(100 + index, 0, vec![]);
            step.drafts = vec![-7];
            records.push((step.into(), 0));
        }
        write(&path, records);
        verify(&CaptureReader::open(&path).unwrap()).unwrap()
    };
    let found = found(3_000);
    assert_eq!(found.findings.len(), crate::capture::limits::MAX_ISSUES);
    assert_eq!(found.findings.len() as u64 + found.more_findings, 3_000 + 1, "and that the end says less");
}

#[test]
fn words_from_a_file_are_shortened() {
    let (_directory, path) = place();
    let name = "x".repeat(1 << 20);
    let step = format!(r#"{{"step":1,"request":0,"choice":0,"first_position":0,"drafts":[],"emitted":[],"{name}":1}}"#);
    super::foreign::write_json(&path, &[("step", step.into_bytes())]);
    let found = verify(&CaptureReader::open(&path).unwrap()).unwrap();
    let words = &found.findings[0];
    assert!(words.contains("unknown field") && words.len() < 2_000, "{} bytes", words.len());
}
