//! Where less is known: rows of which the best alone were kept, and drafts of an engine with the rules of vLLM.

#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::path::Path;

use recorded::{Recorded, USUAL, changed, record, record_constrained, replay_file, steps, write};
use stepscope::arith::Isa;
use stepscope::capture::records::{
    Admission, EventRecord, LogitsPayload, LossRecord, ParamSource, Redaction, RequestRecord, ResolvedField,
    StepRecord, StopReason, WithheldDraft, WithheldReason,
};
use stepscope::capture::{CaptureReader, Record};
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, Finding, Report};
use tempfile::TempDir;

/// The findings of one check, once the records were changed.
fn findings(recorded: &Recorded, check: CheckName, change: impl FnOnce(&mut Vec<Record>)) -> Vec<Finding> {
    let report = changed(recorded, change);
    assert!(report.checks[&check].checked > 0, "{check} had something to look at");
    report.findings.into_iter().filter(|finding| finding.check == check).collect()
}

/// A step of the request that decodes one token and goes on.
fn decoding(records: &mut [Record], request: u64) -> &mut StepRecord {
    let decodes = |step: &&mut StepRecord| {
        step.request == request
            && step.choice == 0
            && step.first_position > 0
            && step.rows.len() == 1
            && step.stop.is_none()
    };
    steps(records).filter(decodes).nth(1).expect("such a step")
}

/// The ids that were kept of a step's first row, best first.
fn kept(records: &[Record], (step, request): (u64, u64)) -> Vec<u32> {
    let ids = records.iter().find_map(|record| match record {
        Record::Logits(logits) if (logits.step, logits.request, logits.choice) == (step, request, 0) => {
            match &logits.payload {
                LogitsPayload::TopK { ids, .. } => Some(ids.clone()),
                _ => None,
            }
        }
        _ => None,
    });
    ids.expect("the best of the row")
}

/// Which token comes instead, by the ids that were kept.
type Other<'a> = &'a dyn Fn(&[u32]) -> u32;

/// A greedy request, and one that draws from the best 50 without anything that moves values.
const GREEDY: u64 = 0;
const DRAWN: u64 = 2;

#[test]
fn a_token_is_held_against_the_best_of_its_row() {
    let recorded = record(SyntheticModel::llama(41), &format!("{USUAL}tier = 'topk'\ntop-k-rows = 64\n"));
    assert_eq!(findings(&recorded, CheckName::Sampler, |_| {}), []);
    let missing = |ids: &[u32]| (0..).find(|id| !ids.contains(id)).expect("an id that was not kept");
    let second = |ids: &[u32]| ids[1];
    let past_top_k = |ids: &[u32]| ids[55];
    let others: [(u64, Other<'_>); 3] = [(GREEDY, &second), (DRAWN, &past_top_k), (DRAWN, &missing)];
    for (request, other) in others {
        let mut step = 0;
        let found = findings(&recorded, CheckName::Sampler, |records| {
            step = decoding(records, request).step;
            let token = other(&kept(records, (step, request)));
            decoding(records, request).emitted[0] = token;
        });
        let is_it = |finding: &Finding| finding.request == Some(request) && finding.step == Some(step);
        assert!(found.iter().any(is_it), "request {request}: {found:?}");
    }
}

/// Lists that vLLM has and this repository has not take tokens away: the best token may not come then.
#[test]
fn lists_of_tokens_are_not_taken_for_findings() {
    let recorded = record(SyntheticModel::llama(41), &format!("{USUAL}tier = 'topk'\ntop-k-rows = 64\n"));
    let others_best = |list: Option<(&str, &str)>| {
        let change = |records: &mut Vec<Record>| {
            as_of_vllm(records);
            let step = decoding(records, GREEDY).step;
            let second = kept(records, (step, GREEDY))[1];
            decoding(records, GREEDY).emitted[0] = second;
            let Some(list) = list else { return };
            add_list(records, GREEDY, list);
        };
        [CheckName::Sampler, CheckName::Signs].map(|check| {
            let found = findings(&recorded, check, change);
            found.iter().any(|finding| ["token", "not_the_best_token"].contains(&finding.fact.as_str()))
        })
    };
    assert_eq!(others_best(None), [true, true]);
    for nothing in ["null", "[]", "[ ]", "", "\"\""] {
        assert_eq!(others_best(Some(("bad_words", nothing))), [true, true], "`{nothing}`");
    }
    for something in [r#"["dog"]"#, "{", "7"] {
        assert_eq!(others_best(Some(("bad_words", something))), [false, false], "`{something}`");
    }
    assert_eq!(others_best(Some(("allowed_token_ids", "[1,2]"))), [false, false]);
}

fn admission(records: &mut [Record], request: u64) -> &mut Admission {
    let admission = records.iter_mut().find_map(|record| match record {
        Record::Request(record) => match record.as_mut() {
            RequestRecord::Admitted(admission) if admission.request == request => Some(admission),
            _ => None,
        },
        _ => None,
    });
    admission.expect("the request")
}

/// Adds a parameter of vLLM to a request.
fn add_list(records: &mut [Record], request: u64, (name, value): (&str, &str)) {
    let (name, value, source) = (name.to_owned(), value.to_owned(), ParamSource::Client);
    let params = admission(records, request).params.as_mut().expect("its parameters");
    params.push(ResolvedField { name, value, source });
}

const LIST: (&str, &str) = ("bad_words", r#"["dog"]"#);

/// This repository's engine has no such lists: its draws are repeated, whatever a field of that name says.
#[test]
fn lists_of_tokens_excuse_nothing_of_this_engine() {
    let recorded = record(SyntheticModel::llama(41), &format!("{USUAL}tier = 'topk'\ntop-k-rows = 64\n"));
    let found = findings(&recorded, CheckName::Sampler, |records| {
        let step = decoding(records, GREEDY).step;
        let second = kept(records, (step, GREEDY))[1];
        decoding(records, GREEDY).emitted[0] = second;
        add_list(records, GREEDY, LIST);
    });
    assert!(found.iter().any(|finding| finding.fact == "token"), "{found:?}");
}

/// What a client was told of the raw row holds whatever lists leave of it.
#[test]
fn lists_of_tokens_do_not_excuse_what_the_client_was_told() {
    let recorded = record(SyntheticModel::llama(41), &format!("{USUAL}tier = 'full'\n"));
    let found = |is_changed: bool| {
        findings(&recorded, CheckName::Sampler, |records| {
            as_of_vllm(records);
            add_list(records, GREEDY, LIST);
            let logprob = decoding(records, GREEDY).rows[0].logprob.as_mut().expect("the request asks for them");
            *logprob -= if is_changed { 1.0 } else { 0.0 };
        })
    };
    assert_eq!(found(false), []);
    let facts: Vec<String> = found(true).into_iter().map(|finding| finding.fact).collect();
    assert_eq!(facts, ["logprob"]);
}

/// Nor does the one token that a mask allows depend on them, or that the token is one that the mask allows.
#[test]
fn lists_of_tokens_do_not_excuse_a_token_outside_the_mask() {
    let recorded = record_constrained(SyntheticModel::llama(41), &format!("{USUAL}tier = 'topk'\ntop-k-rows = 64\n"));
    for is_forced in [true, false] {
        let mut place = (0, 0);
        let mut outside = |is_changed: bool| {
            findings(&recorded, CheckName::Sampler, |records| {
                as_of_vllm(records);
                let masked = |step: &&mut StepRecord| {
                    let population = step.rows.first().and_then(|row| row.mask_population);
                    step.emitted.len() == 1 && population.is_some_and(|population| (population == 1) == is_forced)
                };
                let step = steps(records).find(masked).expect("a step with such a mask");
                place = (step.request, step.step);
                let mask = step.rows[0].applied_mask.expect("its mask");
                add_list(records, place.0, LIST);
                let forbidden = records.iter().find_map(|record| match record {
                    Record::Mask(record) if record.hash == mask => {
                        (0..record.tokens).find(|token| record.bits[*token as usize / 8] >> (token % 8) & 1 == 0)
                    }
                    _ => None,
                });
                let of_place = |step: &&mut StepRecord| (step.request, step.step) == place;
                if is_changed {
                    steps(records).find(of_place).expect("the step").emitted[0] = forbidden.expect("a token");
                }
            })
        };
        assert_eq!(outside(false), [], "forced: {is_forced}");
        let found = outside(true);
        let is_it = |finding: &Finding| (finding.request, finding.step) == (Some(place.0), Some(place.1));
        assert!(found.iter().any(is_it), "forced: {is_forced}: {found:?}");
    }
}

/// Where an event says that a draw was: request, choice, step.
type Told = (Option<u64>, Option<u32>, Option<u64>);

/// An event of a draw that did not come from its request's seed.
fn foreign_draw((request, choice, step): Told) -> Record {
    let (kind, message) = ("seed_not_used".to_owned(), "a source that others share".to_owned());
    Record::Event(EventRecord { time_ns: 1, kind, request, choice, step, message })
}

/// What the sampler check says of draws, and whether something was missing for it.
fn judged_draws(recorded: &Recorded, change: impl FnOnce(&mut Vec<Record>)) -> (Vec<Told>, bool) {
    let mut records = recorded.records.clone();
    change(&mut records);
    let path = recorded.folder.path().join("changed.mcap");
    write(&records, &path);
    let report = replay_file(&path, None, Isa::Scalar).unwrap();
    let is_source =
        |finding: &&Finding| (finding.check, finding.fact.as_str()) == (CheckName::Sampler, "random source");
    let found = report.findings.iter().filter(is_source);
    let found = found.map(|finding| (finding.request, finding.choice, finding.step)).collect();
    let tells = |reason: &str| reason.contains("without the request's seed");
    (found, report.checks[&CheckName::Sampler].reasons.keys().any(|skip| skip.missing && tells(&skip.reason)))
}

#[test]
fn draws_that_did_not_come_from_the_requests_seed_are_findings_once_per_step() {
    let settings = format!("{USUAL}tier = 'topk'\ntop-k-rows = 64\ndrafter = 'random'\ndrafts = 5\n");
    let recorded = record(SyntheticModel::llama(41), &settings);
    for (request, is_drawn) in [(GREEDY, false), (DRAWN, true)] {
        let mut place = (None, None, None);
        let (found, is_missing) = judged_draws(&recorded, |records| {
            let of_rows = |step: &&mut StepRecord| step.request == request && step.rows.len() > 2;
            let step = steps(records).find(of_rows).expect("a step with drafts");
            place = (Some(request), Some(step.choice), Some(step.step));
            // Some token came from every row.
            step.emitted.resize(step.rows.len(), 1);
            records.extend([foreign_draw(place), foreign_draw(place)]);
        });
        assert_eq!((found, is_missing), (if is_drawn { vec![place] } else { vec![] }, false));
    }
}

/// The temperature alone says whether a draw needs a seed.
#[test]
fn draws_are_judged_whatever_else_is_known_of_their_step() {
    let recorded = record(SyntheticModel::llama(41), &format!("{USUAL}tier = 'topk'\ntop-k-rows = 64\n"));
    type Change = fn(&mut Vec<Record>, u64);
    let changes: [(&str, Change); 4] = [
        ("no seed", |records, _| {
            let admission = admission(records, DRAWN);
            admission.params.as_mut().expect("its parameters").retain(|field| field.name != "seed");
        }),
        ("no rows", |records, step| {
            steps(records).filter(|record| record.step == step).for_each(|record| record.rows.clear());
        }),
        ("no end tokens", |records, _| {
            for record in records {
                let Record::Header(header) = record else { continue };
                header.model.as_mut().expect("a model").end_tokens = None;
            }
        }),
        ("an unknown mask", |records, step| {
            for record in steps(records).filter(|record| record.step == step) {
                record.rows.iter_mut().for_each(|row| row.applied_mask = Some([7; 32]));
            }
        }),
    ];
    for (what, change) in changes {
        let mut place = (None, None, None);
        let (found, _) = judged_draws(&recorded, |records| {
            let step = decoding(records, DRAWN).step;
            change(records, step);
            place = (Some(DRAWN), Some(0), Some(step));
            records.push(foreign_draw(place));
        });
        assert_eq!(found, [place], "{what}");
    }
}

#[test]
fn draws_of_no_recorded_step_are_told() {
    let recorded = record(SyntheticModel::llama(41), &format!("{USUAL}tier = 'topk'\ntop-k-rows = 64\n"));
    let loss = LossRecord {
        time_ns: 1,
        channel: "*".to_owned(),
        messages: None,
        bytes: None,
        steps: None,
        reason: "planted".to_owned(),
    };
    const REFUSED: u64 = 9;
    let nowhere = [
        (Some(GREEDY), Some(0), Some(1_000_000)),
        (Some(GREEDY), Some(3), Some(1)),
        (Some(GREEDY), None, None),
        (Some(REFUSED), Some(0), Some(1)),
        (Some(1_000_000), Some(0), Some(1)),
    ];
    for told in nowhere {
        let judged = |lost: bool| {
            judged_draws(&recorded, |records| {
                records.push(foreign_draw(told));
                records.extend(lost.then(|| Record::Loss(loss.clone())));
            })
        };
        assert_eq!(judged(false), (vec![told], false), "{told:?}");
        assert_eq!(judged(true), (vec![], true), "{told:?}");
    }
    // One that draws, so that the step does not matter; and one of which nothing is known.
    let drawn = (Some(DRAWN), None, Some(1_000_000));
    assert_eq!(judged_draws(&recorded, |records| records.push(foreign_draw(drawn))), (vec![drawn], false));
    let unknown = (None, Some(0), Some(1));
    assert_eq!(judged_draws(&recorded, |records| records.push(foreign_draw(unknown))), (vec![], true));
}

#[test]
fn masks_that_are_skipped_say_every_version_that_differs() {
    let recorded = record_constrained(SyntheticModel::llama(41), USUAL);
    let mut records = recorded.records.clone();
    for record in &mut records {
        let Record::Header(header) = record else { continue };
        for component in &mut header.components {
            component.version.push_str("-other");
        }
    }
    let path = recorded.folder.path().join("versions.mcap");
    write(&records, &path);
    let report = replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap();
    assert_eq!(report.checks[&CheckName::Masks].checked, 0);
    let masks = report.guarantees.iter().find(|guarantee| guarantee.check == CheckName::Masks).unwrap();
    for name in ["tokenizers", "llguidance"] {
        assert!(masks.why.contains(&format!("recorded with `{name}` ")), "{}", masks.why);
        assert!(masks.why.contains(&format!("record with `{name}` ")), "{}", masks.why);
    }
}

/// XGrammar masks by tokens alone: it tokenizes no forced text.
#[test]
fn masks_of_xgrammar_need_no_particular_tokenizer() {
    let recorded = record_constrained(SyntheticModel::llama(41), USUAL);
    let mut records = recorded.records.clone();
    for record in &mut records {
        let Record::Header(header) = record else { continue };
        for component in &mut header.components {
            match component.name.as_str() {
                "tokenizers" => component.version.push_str("-other"),
                "llguidance" => (component.name, component.version) = ("xgrammar".to_owned(), "0.2.8".to_owned()),
                _ => {}
            }
        }
    }
    let path = recorded.folder.path().join("xgrammar.mcap");
    write(&records, &path);
    let report = replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap();
    let why = |check| &report.guarantees.iter().find(|guarantee| guarantee.check == check).unwrap().why;
    assert!(why(CheckName::Prompt).contains("`tokenizers`"), "{}", why(CheckName::Prompt));
    assert!(why(CheckName::Masks).contains("`xgrammar` 0.2.8"), "{}", why(CheckName::Masks));
    assert!(!why(CheckName::Masks).contains("`tokenizers`"), "{}", why(CheckName::Masks));
}

type Change = fn(&mut StepRecord);

fn as_of_vllm(records: &mut [Record]) {
    for record in records {
        if let Record::Header(header) = record {
            header.sampler_semantics = "vllm".to_owned();
        }
    }
}

#[test]
fn drafts_are_held_against_the_rules_of_vllm() {
    for scheduling in ["sync", "async"] {
        let settings = format!("{USUAL}drafter = 'random'\ndrafts = 5\nscheduling = '{scheduling}'\n");
        let recorded = record(SyntheticModel::llama(42), &settings);
        assert_eq!(findings(&recorded, CheckName::Drafts, |records| as_of_vllm(records)), []);
        let changes: [(&str, Change); 3] = [
            ("another draft than was proposed", |step| step.drafts[0] ^= 1),
            ("a draft after one that was withheld", |step| step.drafts = vec![-1, step.drafts[0]]),
            ("the grammar, where there is none", |step| {
                step.drafts.clear();
                let proposed = step.drafts_raw.as_ref().map_or(0, Vec::len) as u32;
                let withheld = |index| WithheldDraft { index, reason: WithheldReason::Grammar };
                step.withheld = Some((0..proposed).map(withheld).collect());
            }),
        ];
        for (what, change) in changes {
            let mut place = (0, 0);
            let found = findings(&recorded, CheckName::Drafts, |records| {
                as_of_vllm(records);
                let verifies = |step: &&mut StepRecord| step.drafts.first().is_some_and(|draft| *draft != -1);
                let step = steps(records).find(verifies).expect("a step that verifies");
                change(step);
                place = (step.request, step.step);
            });
            let is_it = |finding: &Finding| (finding.request, finding.step) == (Some(place.0), Some(place.1));
            assert!(found.iter().any(is_it), "{scheduling}, {what}: {found:?}");
        }
    }
}

/// The request with stop strings.
const STOPPED: u64 = 3;

#[test]
fn a_stop_string_that_is_looked_for_elsewhere_is_not_missed_in_the_steps() {
    let is_stopped = |record: &Record| matches!(record, Record::Step(step) if step.request == STOPPED && matches!(step.stop, Some(StopReason::StopString(_))));
    // Whether the string comes is up to the random weights.
    let recorded = (43..75)
        .map(|seed| record(SyntheticModel::llama(seed), USUAL))
        .find(|recorded| recorded.records.iter().any(is_stopped))
        .expect("a model that comes to the stop string");
    let without_reason = |records: &mut Vec<Record>| {
        let mut stopped = 0;
        for record in records {
            let stop = match record {
                Record::Step(step) if step.request == STOPPED => &mut step.stop,
                Record::Request(request) => match request.as_mut() {
                    RequestRecord::Finished(end) if end.request == STOPPED => &mut end.stop,
                    _ => continue,
                },
                _ => continue,
            };
            stopped += u32::from(matches!(stop.take(), Some(StopReason::StopString(_))));
        }
        assert_eq!(stopped, 2, "a stop string ends the request");
    };
    let own = findings(&recorded, CheckName::Termination, without_reason);
    assert!(own.iter().any(|finding| finding.request == Some(STOPPED)), "{own:?}");
    let foreign = findings(&recorded, CheckName::Termination, |records| {
        as_of_vllm(records);
        without_reason(records);
    });
    assert_eq!(foreign, []);
}

/// The records of a sample capture of vLLM, as they are where its prompts were left out.
fn without_prompts(name: &str, change: impl FnOnce(&mut Vec<Record>)) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("captures/vllm").join(name);
    let reader = CaptureReader::open(&path).unwrap();
    let mut records: Vec<Record> = reader.messages().map(|message| message.unwrap().record).collect();
    for record in &mut records {
        match record {
            Record::Header(header) => {
                let omitted = |field: &str| Redaction { field: field.to_owned(), how: "omitted".to_owned() };
                header.redactions = ["prompt_tokens", "client_id", "constraint"].map(omitted).into();
            }
            Record::Request(request) => {
                let RequestRecord::Admitted(admission) = request.as_mut() else { continue };
                admission.prompt_tokens.fill(0);
                (admission.client_id, admission.constraint) = (None, None);
            }
            _ => {}
        }
    }
    change(&mut records);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("redacted.mcap");
    write(&records, &path);
    replay_file(&path, None, Isa::Scalar).unwrap()
}

#[test]
fn what_was_left_out_is_not_taken_for_a_finding() {
    for name in ["sync-ngram.mcap", "sync-guidance.mcap", "async-draft-model.mcap", "newer-runner.mcap"] {
        let report = without_prompts(name, |_| {});
        assert_eq!(report.findings, [], "{name}");
        for check in [CheckName::Masks, CheckName::Drafts] {
            let left_out = report.checks[&check].reasons.keys().any(|skip| skip.reason.contains("left out"));
            assert!(left_out, "{name}: {check} says why it does less");
        }
    }
    // What is there is held against each other all the same.
    let report = without_prompts("sync-ngram.mcap", |records| {
        let verifies = |step: &&mut StepRecord| step.drafts.first().is_some_and(|draft| *draft != -1);
        steps(records).find(verifies).expect("a step that verifies").drafts[0] ^= 1;
    });
    assert!(report.findings.iter().any(|finding| finding.check == CheckName::Drafts), "{:?}", report.findings);
}

/// A penalty on what stands in the prompt cannot be repeated without the prompt.
#[test]
fn penalties_on_prompts_that_were_left_out_are_not_repeated() {
    let recorded = record(SyntheticModel::llama(41), &format!("{USUAL}tier = 'full'\n"));
    // Greedy, and the best token of each row stands in the prompt.
    let found = |is_redacted: bool| {
        findings(&recorded, CheckName::Sampler, |records| {
            as_of_vllm(records);
            let best: Vec<u32> =
                steps(records).filter(|step| step.request == GREEDY).flat_map(|step| step.emitted.clone()).collect();
            for field in admission(records, GREEDY).params.as_mut().expect("its parameters") {
                if field.name == "repetition_penalty" {
                    field.value = "1000.0".to_owned();
                }
            }
            admission(records, GREEDY).prompt_tokens[..best.len()].copy_from_slice(&best);
            for record in records {
                let Record::Header(header) = record else { continue };
                let redaction = Redaction { field: "prompt_tokens".to_owned(), how: "omitted".to_owned() };
                header.redactions.extend(is_redacted.then_some(redaction));
            }
        })
    };
    assert!(!found(false).is_empty());
    assert_eq!(found(true), []);
}
