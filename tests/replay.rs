//! Replay of what `record` makes: everything is checked and nothing is found; and what is missing or unknown is said.

#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::process::Command;

use recorded::{Recorded, USUAL, record, replay_file, write};
use serde_json::Value;
use stepscope::arith::{Isa, WeightFormat, scalar};
use stepscope::capture::records::{LogitsPayload, LossRecord, RequestRecord, StepRecord, StopReason};
use stepscope::capture::{Record, row};
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, Level, Report, render};

fn assert_clean(report: &Report) {
    assert_eq!(report.finding_count(), 0, "{}", render::text(report));
    assert!(!report.is_missing_data(), "{}", render::text(report));
}

/// Every check looked at something, and skipped nothing.
fn assert_complete(report: &Report) {
    assert_clean(report);
    for check in CheckName::ALL {
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
        assert_complete(&replayed(&record(model, USUAL)));
    }
}

#[test]
fn a_rounded_cache_is_replayed_rounded() {
    assert_complete(&replayed(&record(SyntheticModel::llama(5), "kv-type = \"f16\"\n")));
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
                        cached_prefix: known.cached_prefix.filter(|cached| *cached > 0),
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
    assert_eq!(report["checks"].as_object().unwrap().len(), 8);
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
