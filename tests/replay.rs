//! Replay of what `record` makes: everything is checked and nothing is found; and what is missing or unknown is said.

#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::process::Command;

use recorded::{REASONING_END, Recorded, USUAL, record, replay_file, write, write_encoded, write_in_chunks};
use serde_json::Value;
use stepscope::arith::{Isa, WeightFormat, scalar};
use stepscope::capture::records::{LogitsPayload, LossRecord, Refusal, RequestRecord, StepRecord, StopReason};
use stepscope::capture::{CaptureReader, Encoding, Record, recover, row};
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, Finding, Level, Report, render};

fn assert_clean(report: &Report) {
    assert_eq!(report.finding_count(), 0, "{}", render::text(report));
    assert!(!report.is_missing_data(), "{}", render::text(report));
}

/// Every check looked at something, and skipped nothing; without drafts there is nothing to accept.
fn assert_complete(report: &Report) {
    assert_clean(report);
    let needless = [CheckName::Accept, CheckName::Masks, CheckName::AppliedMask];
    for check in CheckName::ALL.into_iter().filter(|check| !needless.contains(check)) {
        let tally = &report.checks[&check];
        assert!(
            tally.checked > 0 && tally.skipped == 0 && tally.reasons.is_empty(),
            "{check}: {}",
            render::text(report)
        );
    }
    assert!(report.guarantees.iter().all(|guarantee| guarantee.level == Level::Exact));
}

fn replayed(recorded: &Recorded) -> Report {
    replay_file(&recorded.capture, Some(&recorded.model), Isa::Scalar).unwrap()
}

/// Changes the records of a capture and replays it.
fn changed(recorded: &Recorded, change: impl FnOnce(&mut Vec<Record>)) -> Report {
    let mut records = recorded.records.clone();
    change(&mut records);
    let path = recorded.folder.path().join("changed.mcap");
    write(&records, &path);
    replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap()
}

fn steps(records: &mut [Record]) -> impl Iterator<Item = &mut StepRecord> {
    records.iter_mut().filter_map(|record| match record {
        Record::Step(step) => Some(step.as_mut()),
        _ => None,
    })
}

#[test]
fn every_check_holds_on_every_architecture_and_head() {
    for model in [
        SyntheticModel::llama(1),
        SyntheticModel::lfm2(2),
        SyntheticModel::llama(3).with_format(WeightFormat::Q4_1),
        SyntheticModel::lfm2(4).with_format(WeightFormat::Q8_0),
    ] {
        assert_complete(&replayed(&record(model.clone(), USUAL)));
        let drafted = replayed(&record(model, &format!("{USUAL}drafter = \"random\"\n")));
        assert_complete(&drafted);
        let accept = &drafted.checks[&CheckName::Accept];
        assert!(accept.checked > 0 && accept.skipped == 0, "{}", render::text(&drafted));
    }
}

#[test]
fn a_rounded_cache_is_replayed_rounded() {
    assert_complete(&replayed(&record(SyntheticModel::llama(5), "kv-type = \"f16\"\n")));
}

#[test]
fn masks_are_replayed_under_the_settings_that_were_recorded() {
    for whitespace in ["any", "single", "none"] {
        let settings = format!(
            "{USUAL}reasoning-end = '{REASONING_END}'\ndrafter = 'grammar'\ngrammar-whitespace = '{whitespace}'\n\
             grammar-canonical = 'off'\n"
        );
        let report = replayed(&recorded::record_constrained(SyntheticModel::llama(9), &settings));
        assert_complete(&report);
        assert!(report.checks[&CheckName::Masks].checked > 0, "{whitespace}");
    }
}

#[test]
fn every_instruction_set_says_the_same() {
    let recorded = record(SyntheticModel::lfm2(6).with_format(WeightFormat::Q4_1), USUAL);
    let scalar = replayed(&recorded);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_supported()) {
        let report = replay_file(&recorded.capture, Some(&recorded.model), isa).unwrap();
        assert_eq!(report, scalar, "{isa}");
    }
}

#[test]
fn whole_rows_need_no_model() {
    let recorded = record(SyntheticModel::llama(7), "tier = \"full\"\n");
    assert_complete(&replayed(&recorded));
    let report = replay_file(&recorded.capture, None, Isa::Scalar).unwrap();
    assert_eq!(report.finding_count(), 0, "{}", render::text(&report));
    assert!(report.is_missing_data(), "the checks that need the model are missing it");
    for check in [CheckName::Logits, CheckName::Sampler, CheckName::Validity, CheckName::Params] {
        assert_eq!(report.checks[&check].skipped, 0, "{check}: {}", render::text(&report));
    }
    for check in [CheckName::Prompt, CheckName::Forward] {
        assert_eq!(report.checks[&check].checked, 0, "{check}: {}", render::text(&report));
        assert!(report.checks[&check].skipped > 0, "{check}");
    }
}

#[test]
fn smaller_tiers_check_what_they_keep() {
    for (tier, level) in [("topk", Level::RankOnly), ("off", Level::None)] {
        let recorded = record(SyntheticModel::llama(8), &format!("tier = \"{tier}\"\ntop-k-rows = 4\n"));
        let report = replayed(&recorded);
        assert_clean(&report);
        let logits = report.guarantees.iter().find(|guarantee| guarantee.check == CheckName::Logits).unwrap();
        assert_eq!(logits.level, level);
        assert_eq!(report.checks[&CheckName::Forward].skipped, 0, "the whole model is run in any tier");
        // A greedy token is the argmax, with or without the row.
        let report = changed(&recorded, |records| {
            let greedy = steps(records).find(|step| step.request == 0 && step.path.is_some() && !step.rows.is_empty());
            let statistics = greedy.unwrap().rows[0].statistics.as_mut().unwrap();
            statistics.argmax = statistics.argmax.map(|token| token ^ 1);
        });
        let found: Vec<CheckName> = report.findings.iter().map(|finding| finding.check).collect();
        assert!(
            found.contains(if tier == "off" { &CheckName::Sampler } else { &CheckName::Logits }),
            "{tier}: {found:?}"
        );
    }
}

#[test]
fn an_invalid_row_that_became_a_token_is_found_by_its_values() {
    let recorded = record(SyntheticModel::llama(9), "tier = \"full\"\n");
    let report = changed(&recorded, |records| {
        let wanted = steps(records).filter(|step| step.request == 1 && !step.rows.is_empty()).nth(2).unwrap();
        let place = (wanted.step, wanted.request);
        let mut values = vec![0.0; 299];
        values[17] = f32::NAN;
        let statistics = wanted.rows[0].statistics.as_mut().unwrap();
        // What was recorded of it hides the NaN; only the checksum is right.
        statistics.checksum = scalar::row_statistics(&values).checksum;
        for record in records.iter_mut() {
            if let Record::Logits(logits) = record
                && (logits.step, logits.request) == place
            {
                logits.payload = row::encode_full(&values).unwrap();
            }
        }
    });
    let validity: Vec<_> = report.findings.iter().filter(|finding| finding.check == CheckName::Validity).collect();
    assert_eq!(validity.len(), 1, "{}", render::text(&report));
    assert!(validity[0].request == Some(1) && validity[0].expected.contains("NaN"), "{:?}", validity[0]);
}

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
fn a_foreign_recorder_may_know_less() {
    let recorded = record(SyntheticModel::llama(12), "tier = \"full\"\n");
    let report = changed(&recorded, |records| {
        for record in records.iter_mut() {
            match record {
                Record::Header(header) => {
                    header.sampler_semantics = "another-engine".to_owned();
                    header.arithmetic_version = None;
                    header.recorder.name = "another-engine".to_owned();
                    header.configuration.clear();
                }
                Record::Request(record) => {
                    if let RequestRecord::Admitted(admission) = record.as_mut() {
                        admission.owner = None;
                        admission.generation_config = None;
                        admission.server_overrides = None;
                    }
                }
                Record::Step(step) => {
                    let known = (**step).clone();
                    **step = StepRecord {
                        time_ns: None,
                        q_len: known.q_len.filter(|_| known.rows.is_empty()),
                        prev_accepted: None,
                        path: None,
                        scheduler: None,
                        batch: None,
                        input_tokens: None,
                        cached_prefix: None,
                        state: None,
                        timings: None,
                        ..known
                    };
                    for row in &mut step.rows {
                        (row.rank, row.margin, row.logprob) = (None, None, None);
                    }
                }
                _ => {}
            }
        }
    });
    assert_eq!(report.finding_count(), 0, "{}", render::text(&report));
    assert!(render::text(&report).contains("how much came from the prefix cache"), "{}", render::text(&report));
    assert!(report.checks[&CheckName::Sampler].checked > 0, "{}", render::text(&report));
    assert_eq!(report.checks[&CheckName::Params].checked, 0, "another engine resolves by other rules");
    let sampler = report.guarantees.iter().find(|guarantee| guarantee.check == CheckName::Sampler).unwrap();
    assert_eq!(sampler.level, Level::WithinTolerance);
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
fn another_model_is_refused_with_both_hashes() {
    let recorded = record(SyntheticModel::llama(16), USUAL);
    let other = record(SyntheticModel::llama(17), USUAL);
    let error = replay_file(&recorded.capture, Some(&other.model), Isa::Scalar).unwrap_err().to_string();
    for identity in [&recorded.model.identity, &other.model.identity] {
        assert!(error.contains(&identity.file_hashes()[0].hex), "{error}");
    }
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
                assert!(report.is_missing_data() || what == "flipped", "{name}, {what} at {place}: {text}");
                with_missing_steps += u32::from(text.contains("steps before it are missing"));
            }
        }
    }
    assert!(with_missing_steps > 2, "steps in the middle of sequences were missing {with_missing_steps} times");
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

#[test]
fn an_unknown_kv_type_is_not_taken_for_one() {
    let recorded = record(SyntheticModel::llama(27), USUAL);
    for (value, words) in [(None, "is not recorded"), (Some("\"q8_0\""), "stored as `q8_0`")] {
        let report = changed(&recorded, |records| {
            for header in records.iter_mut().filter_map(|record| match record {
                Record::Header(header) => Some(header),
                _ => None,
            }) {
                match value {
                    None => header.configuration.retain(|setting| setting.name != "kv-type"),
                    Some(value) => {
                        let mut settings = header.configuration.iter_mut();
                        settings.find(|setting| setting.name == "kv-type").unwrap().value = value.to_owned();
                    }
                }
            }
        });
        assert_eq!(report.finding_count(), 0, "{}", render::text(&report));
        let forward = &report.checks[&CheckName::Forward];
        assert!(forward.checked == 0 && forward.skipped > 0, "{}", render::text(&report));
        assert!(render::text(&report).contains(words), "{}", render::text(&report));
        assert_eq!(report.checks[&CheckName::Logits].skipped, 0, "the head does not read the cache");
    }
}

#[test]
fn null_leaves_out_messages_too() {
    let recorded = record(SyntheticModel::llama(28), USUAL);
    let report = changed(&recorded, |records| {
        for record in records {
            if let Record::Request(record) = record
                && let RequestRecord::Admitted(admission) = record.as_mut()
                && admission.request == 4
            {
                let mut body: Value = serde_json::from_str(admission.body.as_deref().unwrap()).unwrap();
                body["messages"] = Value::Null;
                body["logprobs"] = Value::Null;
                admission.body = Some(body.to_string());
            }
        }
    });
    assert_clean(&report);
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

#[test]
fn one_bad_capture_does_not_stop_the_others() {
    let recorded = record(SyntheticModel::llama(30), USUAL);
    let folder = recorded.folder.path();
    let path = |name: &str| folder.join(name).display().to_string();
    let (capture, model) = (path("capture.mcap"), path("model.gguf"));
    std::fs::write(folder.join("bad.mcap"), "no capture").unwrap();
    let arguments = ["replay", &path("bad.mcap"), &capture, "--model", &model, "--json"];
    let (status, output, errors) = stepscope(&arguments, folder);
    assert_eq!(status, Some(2), "{output}");
    let report: Value = serde_json::from_str(&output).unwrap();
    assert!(report["checks"]["forward"]["checked"].as_u64().is_some_and(|rows| rows > 0), "{output}");
    assert_eq!(report["failed"][0]["capture"], path("bad.mcap").as_str());
    let (first, last) = errors.split_once('\n').unwrap();
    assert_eq!(first.matches("bad.mcap").count(), 1, "{errors}");
    assert!(last.contains("1 of 2 captures"), "{errors}");
    let (status, _, errors) = stepscope(&["replay", &path("bad.mcap")], folder);
    assert_eq!((status, errors.matches("bad.mcap").count()), (Some(2), 1), "{errors}");
}

#[test]
fn the_summary_says_each_reason_once() {
    let recorded = record(SyntheticModel::llama(31), USUAL);
    let report = replay_file(&recorded.capture, None, Isa::Scalar).unwrap();
    let text = render::text(&report);
    assert_eq!(text.matches("no model was given").count(), 1, "{text}");
    assert!(text.contains("prompt: none, logits: none, forward: none, masks: none, sampler: rank only"), "{text}");
}

#[test]
fn the_help_says_what_the_exit_status_means() {
    let (status, help, _) = stepscope(&["replay", "--help"], std::path::Path::new("."));
    assert_eq!(status, Some(0));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["0 clean;", "1 findings;", "2 a capture could not be replayed", "3 no findings, but data was missing"]
    {
        assert!(help.contains(words), "{help}");
    }
}

/// Runs the program; its exit status and what it prints.
fn stepscope(arguments: &[&str], cache: &std::path::Path) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_stepscope")).args(arguments).env("STEPSCOPE_CACHE", cache).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_says_how_it_ended() {
    let recorded = record(SyntheticModel::llama(19), USUAL);
    let folder = recorded.folder.path();
    let path = |name: &str| folder.join(name).display().to_string();
    let (capture, model) = (path("capture.mcap"), path("model.gguf"));

    let (status, output, _) = stepscope(&["replay", &capture, "--model", &model], folder);
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains("clean: every recorded decision"), "{output}");

    let (status, output, _) = stepscope(&["replay", &capture, &capture, "--model", &model, "--json"], folder);
    assert_eq!(status, Some(0), "{output}");
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(report["checks"].as_object().unwrap().len(), CheckName::ALL.len());
    let rows = recorded.records.iter().filter(|record| matches!(record, Record::Logits(_))).count() as u64;
    assert_eq!(report["checks"]["logits"]["checked"], 2 * rows, "two captures are summed");
    assert_eq!(report["findings"], Value::Array(Vec::new()));
    assert!(report["records"].as_u64().is_some_and(|records| records > 0));

    let cache = tempfile::tempdir().unwrap();
    let (status, output, _) = stepscope(&["replay", &capture], cache.path());
    assert_eq!(status, Some(3), "without the model: {output}");
    assert!(output.contains("--model"), "{output}");
    let (status, output, _) = stepscope(&["replay", &capture, "--check", "params,validity"], cache.path());
    assert_eq!(status, Some(0), "these need no model: {output}");
    let name = &recorded.model.identity.name;
    for name in [format!("{name}.gguf"), "another name.gguf".to_owned()] {
        std::fs::copy(folder.join("model.gguf"), cache.path().join(&name)).unwrap();
        let (status, output, _) = stepscope(&["replay", &capture], cache.path());
        assert_eq!(status, Some(0), "`{name}` in the cache folder is the recorded model: {output}");
        std::fs::remove_file(cache.path().join(&name)).unwrap();
    }

    let mut records = recorded.records.clone();
    steps(&mut records).find(|step| step.request == 0 && !step.rows.is_empty()).unwrap().emitted[0] ^= 1;
    write(&records, &folder.join("wrong.mcap"));
    let (status, output, _) = stepscope(&["replay", &path("wrong.mcap"), "--model", &model], folder);
    assert_eq!(status, Some(1), "{output}");
    assert!(output.contains("line-0") && output.contains("expected"), "{output}");

    for (arguments, words) in [
        (vec!["replay", "no-such.mcap"], "no-such.mcap"),
        (vec!["replay", &capture, "--check", "logit"], "the checks are"),
        (vec!["replay"], "CAPTURE"),
    ] {
        let (status, _, errors) = stepscope(&arguments, folder);
        assert_eq!(status, Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
    }
}

#[test]
fn what_a_header_says_of_faults_changes_no_verdict() {
    let recorded = record(SyntheticModel::llama(5), &format!("{USUAL}inject = 'seed-ignored'\n"));
    let told = replayed(&recorded);
    assert!(told.findings.iter().all(|finding| finding.check == CheckName::Sampler) && told.finding_count() > 0);
    let untold = changed(&recorded, |records| {
        for record in records {
            if let Record::Header(header) = record {
                assert_eq!(std::mem::take(&mut header.faults), ["seed-ignored"]);
            }
        }
    });
    assert_eq!(untold.findings, told.findings);
    assert_eq!(untold.checks, told.checks);
}
