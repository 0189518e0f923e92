//! Replay of what `record` makes: everything is checked and nothing is found; and what is missing or unknown is said.

#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use recorded::{
    REASONING_END, Recorded, USUAL, assert_clean, changed, record, record_bodies, replay_file, replayed, steps,
    stepscope, write,
};
use serde_json::{Value, json};
use stepscope::arith::{Isa, WeightFormat, scalar};
use stepscope::capture::records::{Admission, Completion, RequestRecord, StepRecord, StopReason};
use stepscope::capture::{Record, row};
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, Level, Report, render};

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
        assert_clean(&report);
        assert!(report.checks[&CheckName::Masks].checked > 0, "{whitespace}");
        // Where any amount may come, white space cuts the call short, which is told.
        let reasons: usize = report.checks.values().map(|tally| tally.reasons.len()).sum();
        assert_eq!(reasons, usize::from(whitespace == "any"), "{}", render::text(&report));
    }
}

/// Captures of recorders that knew no EBNF name every grammar `lark`.
#[test]
fn a_grammar_in_ebnf_may_be_recorded_as_lark() {
    let recorded = recorded::record_constrained(SyntheticModel::llama(9), USUAL);
    let with_kind = |kind: &str| {
        changed(&recorded, |records| {
            let requests = records.iter_mut().filter_map(|record| match record {
                Record::Request(request) => Some(request.as_mut()),
                _ => None,
            });
            let mut admissions = requests.filter_map(|request| match request {
                RequestRecord::Admitted(admission) => Some(admission),
                _ => None,
            });
            let is_lark = |admission: &&mut Admission| {
                admission.constraint.as_ref().is_some_and(|constraint| constraint.kind == "lark")
                    && admission.body.as_ref().is_some_and(|body| body.contains("structured_outputs"))
            };
            let admission = admissions.find(is_lark).unwrap();
            let mut body: Value = serde_json::from_str(admission.body.as_ref().unwrap()).unwrap();
            let source = "root ::= \"a\"";
            body["structured_outputs"]["grammar"] = source.into();
            admission.body = Some(body.to_string());
            let constraint = admission.constraint.as_mut().unwrap();
            (constraint.kind, constraint.source) = (kind.to_owned(), source.to_owned());
        })
    };
    let is_found = |report: &Report| report.findings.iter().any(|finding| finding.check == CheckName::Params);
    for (kind, is_wrong) in [("lark", false), ("ebnf", false), ("regex", true)] {
        assert_eq!(is_found(&with_kind(kind)), is_wrong, "{kind}");
    }
}

#[test]
fn masks_of_another_library_or_version_are_skipped_and_the_reason_names_both() {
    let recorded = recorded::record_constrained(SyntheticModel::llama(9), USUAL);
    let is_built = cfg!(feature = "xgrammar");
    let cases = [
        ("llguidance", "1.0.0", "recorded with `llguidance` 1.0.0, and this build has 1.9.1"),
        ("xgrammar", "0.2.8", "recorded with `xgrammar` 0.2.8, which this build lacks; build it with `make xgrammar`"),
        match is_built {
            true => ("xgrammar", "0.1.9", "recorded with `xgrammar` 0.1.9, and this build has 0.2.8"),
            false => (
                "xgrammar",
                "0.1.9",
                "recorded with `xgrammar` 0.1.9, and this build lacks the library, of which 0.2.8",
            ),
        },
    ];
    for (name, version, reason) in cases.into_iter().filter(|(_, version, _)| !(is_built && *version == "0.2.8")) {
        let mut records = recorded.records.clone();
        for record in &mut records {
            if let Record::Header(header) = record {
                let library = header.components.iter_mut().find(|component| component.name == "llguidance").unwrap();
                (library.name, library.version) = (name.to_owned(), version.to_owned());
            }
        }
        let path = |name: &str| recorded.folder.path().join(name).display().to_string();
        write(&records, &recorded.folder.path().join("other.mcap"));
        let arguments = ["replay", &path("other.mcap"), "--model", &path("model.gguf"), "--check", "masks"];
        let (status, output, errors) = stepscope(&arguments, recorded.folder.path());
        assert_eq!(status, Some(3), "{name} {version}: {output}{errors}");
        let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.contains(reason), "{name} {version}: {output}");
    }
}

/// A call is judged the same whatever ends the answer: an end token that something else was told for is no part of it.
#[test]
fn a_call_is_judged_whatever_ends_it() {
    let settings = "max-batch = 3\ngrammar-whitespace = 'none'\n";
    let body = |more: Value| {
        let mut body = json!({"temperature": 0, "tool_choice": "required", "parallel_tool_calls": false,
            "tools": [{"type": "function", "function": {"name": "look"}}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let completions = |recorded: &Recorded| -> Vec<Completion> {
        let requests = recorded.records.iter().filter_map(request);
        let finished = requests.filter_map(|request| match request {
            RequestRecord::Finished(completion) => Some(completion.clone()),
            _ => None,
        });
        finished.collect()
    };
    let whole = record_bodies(SyntheticModel::llama(9), settings, 400, &[body(json!({"max_tokens": 100}))]);
    let length = completions(&whole)[0].emitted_tokens;
    let prompt = whole.records.iter().filter_map(request).find_map(|request| match request {
        RequestRecord::Admitted(admission) => Some(admission.prompt_tokens.len()),
        _ => None,
    });
    let end = whole.model.tokenizer.end_tokens()[0].0;
    let cases = [
        (json!({"max_tokens": length}), StopReason::EndToken(end), true),
        (json!({"max_tokens": length + 1, "ignore_eos": true}), StopReason::GrammarEnd, true),
        (json!({"max_tokens": length, "ignore_eos": true, "stop_token_ids": [end]}), StopReason::StopToken(end), true),
        (json!({"max_tokens": length, "ignore_eos": true}), StopReason::MaxTokens, true),
        (json!({"max_tokens": length / 2}), StopReason::MaxTokens, false),
        (json!({"max_tokens": length, "stop": ["look"]}), StopReason::StopString("look".to_owned()), false),
        (json!({"ignore_eos": true}), StopReason::ContextFull, true),
    ];
    for (more, stop, is_whole) in cases {
        let room = if stop == StopReason::ContextFull { length as usize } else { 100 };
        let recorded = record_bodies(SyntheticModel::llama(9), settings, prompt.unwrap() + room, &[body(more.clone())]);
        let [completion] = &completions(&recorded)[..] else { panic!("one choice") };
        assert_eq!(completion.stop, Some(stop), "{more}");
        let calls = r#"[{"name":"look","arguments":"{}"}]"#;
        assert_eq!(completion.tool_calls.as_deref(), Some(if is_whole { calls } else { "[]" }), "{more}");
        let report = replayed(&recorded);
        assert_clean(&report);
        let commit = &report.checks[&CheckName::Commit];
        // Of the JSON that is cut short the name alone is judged.
        assert_eq!(commit.reasons.len(), usize::from(!is_whole), "{more}: {}", render::text(&report));
        let changed = changed(&recorded, |records| {
            for record in records {
                let Record::Request(request) = record else { continue };
                if let RequestRecord::Finished(completion) = request.as_mut() {
                    completion.tool_calls = Some(r#"[{"name":"look","arguments":"{1}"}]"#.to_owned());
                }
            }
        });
        assert!(changed.checks[&CheckName::Commit].findings > 0, "{more}");
    }
}

fn request(record: &Record) -> Option<&RequestRecord> {
    match record {
        Record::Request(request) => Some(request),
        _ => None,
    }
}

#[test]
fn a_tool_format_that_is_not_known_is_skipped_and_not_guessed() {
    let bodies =
        [json!({"temperature": 0, "max_tokens": 80, "tools": [{"type": "function", "function": {"name": "look"}}]})];
    let recorded = record_bodies(SyntheticModel::llama(9), USUAL, 400, &bodies);
    assert_clean(&replayed(&recorded));
    let with_format = |value: &str| {
        changed(&recorded, |records| {
            for record in records {
                let Record::Header(header) = record else { continue };
                let setting = header.configuration.iter_mut().find(|setting| setting.name == "tool-format").unwrap();
                setting.value = value.to_owned();
            }
        })
    };
    assert_clean(&with_format("null"));
    let report = with_format("\"xml\"");
    assert_eq!(report.finding_count(), 0, "{}", render::text(&report));
    assert!(report.is_missing_data());
    assert!(render::text(&report).contains("`tool-format` is \"xml\""), "{}", render::text(&report));
    assert!(with_format("\"tagged\"").finding_count() > 0, "the template has no tags");
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
fn another_model_is_refused_with_both_hashes() {
    let recorded = record(SyntheticModel::llama(16), USUAL);
    let other = record(SyntheticModel::llama(17), USUAL);
    let error = replay_file(&recorded.capture, Some(&other.model), Isa::Scalar).unwrap_err().to_string();
    for identity in [&recorded.model.identity, &other.model.identity] {
        assert!(error.contains(&identity.file_hashes()[0].hex), "{error}");
    }
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
