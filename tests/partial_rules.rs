//! Where less is known: rows of which the best alone were kept, and drafts of an engine with the rules of vLLM.

#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use recorded::{Recorded, USUAL, changed, record, record_constrained, replay_file, steps, write};
use stepscope::arith::Isa;
use stepscope::capture::Record;
use stepscope::capture::records::{
    EventRecord, LogitsPayload, ParamSource, RequestRecord, ResolvedField, StepRecord, WithheldDraft, WithheldReason,
};
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, Finding};

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
            let step = decoding(records, GREEDY).step;
            let second = kept(records, (step, GREEDY))[1];
            decoding(records, GREEDY).emitted[0] = second;
            let Some((name, value)) = list else { return };
            let admission = records.iter_mut().find_map(|record| match record {
                Record::Request(request) => match request.as_mut() {
                    RequestRecord::Admitted(admission) if admission.request == GREEDY => Some(admission),
                    _ => None,
                },
                _ => None,
            });
            let (name, value, source) = (name.to_owned(), value.to_owned(), ParamSource::Client);
            let params = admission.expect("the request").params.as_mut().expect("its parameters");
            params.push(ResolvedField { name, value, source });
        };
        [CheckName::Sampler, CheckName::Signs].map(|check| {
            let found = findings(&recorded, check, change);
            found.iter().any(|finding| ["token", "not_the_best_token"].contains(&finding.fact.as_str()))
        })
    };
    assert_eq!(others_best(None), [true, true]);
    assert_eq!(others_best(Some(("bad_words", "[]"))), [true, true]);
    assert_eq!(others_best(Some(("bad_words", r#"["dog"]"#))), [false, false]);
    assert_eq!(others_best(Some(("allowed_token_ids", "[1,2]"))), [false, false]);
}

#[test]
fn draws_that_did_not_come_from_the_requests_seed_are_findings() {
    let recorded = record(SyntheticModel::llama(41), &format!("{USUAL}tier = 'topk'\ntop-k-rows = 64\n"));
    for (request, is_drawn) in [(GREEDY, false), (DRAWN, true)] {
        let mut place = None;
        let found = findings(&recorded, CheckName::Sampler, |records| {
            let step = decoding(records, request).step;
            place = Some(step);
            let (kind, message) = ("seed_not_used".to_owned(), "a source that others share".to_owned());
            let (request, choice, step) = (Some(request), Some(0), Some(step));
            records.push(Record::Event(EventRecord { time_ns: 1, kind, request, choice, step, message }));
        });
        let steps: Vec<_> = found.iter().map(|finding| (finding.request, finding.step)).collect();
        assert_eq!(steps, if is_drawn { vec![(Some(request), place)] } else { vec![] });
    }
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
    }
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
