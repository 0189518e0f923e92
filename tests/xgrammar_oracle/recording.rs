//! A capture made with XGrammar: recorded with drafts that are rolled back, and replayed with every check.

use serde_json::{Value, json};
use stepscope::arith::Isa;
use stepscope::capture::Record;
use stepscope::capture::records::MaskRecord;
use stepscope::model::Model;
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, render};

use crate::recorded::{Recorded, record_requests, replay_file, write};

/// A schema, and tools that must be called, that may be, and that the model is drawn to call.
fn requests(model: &Model) -> Vec<Value> {
    let open = model.tokenizer.encode("<", false).unwrap()[0].0.to_string();
    let tools = json!([{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters":
        {"type": "object", "properties": {"n": {"enum": [1, 2]}, "where": {"type": "string", "maxLength": 4}}, "required": ["n"], "additionalProperties": false}}}]);
    let schema = json!({"type": "object", "properties": {"number": {"type": "integer"}, "any": {}, "letter": {"enum": ["x", "y"]}},
        "required": ["number", "letter"], "additionalProperties": false});
    let bodies = [
        json!({"temperature": 0, "max_tokens": 60,
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}),
        json!({"seed": 2, "max_tokens": 60, "tool_choice": "required", "tools": tools}),
        json!({"seed": 3, "max_tokens": 60, "tool_choice": "auto", "tools": tools}),
        json!({"seed": 4, "max_tokens": 60, "tools": tools, "logit_bias": {open.as_str(): 30}}),
        json!({"seed": 5, "max_tokens": 30, "structured_outputs": {"grammar": "root ::= \"a\" | \"b\" root"}}),
    ];
    let line = |(index, mut body): (usize, Value)| {
        body["messages"] = json!([{"role": "user", "content": format!("Question {index}")}]);
        json!({"custom_id": format!("line-{index}"), "method": "POST", "url": "/v1/chat/completions", "body": body})
    };
    bodies.into_iter().enumerate().map(line).collect()
}

fn recorded(model: SyntheticModel, settings: &str) -> Recorded {
    let settings = format!("grammar-backend = 'xgrammar'\nmax-batch = 3\nprefill-chunk = 24\ndrafts = 5\n{settings}");
    record_requests(model, &settings, 512, |_| Vec::new(), requests)
}

#[test]
fn what_is_recorded_with_it_is_replayed_and_nothing_is_found() {
    for (model, settings) in [
        (SyntheticModel::llama(9), "drafter = 'random'\nscheduling = 'async'\n"),
        (SyntheticModel::lfm2(4), "drafter = 'grammar'\nscheduling = 'sync'\ngrammar-whitespace = 'none'\n"),
        (SyntheticModel::llama(3), "drafter = 'random'\nscheduling = 'sync'\ntool-format = 'tagged'\n"),
    ] {
        let recorded = recorded(model, settings);
        let report = replay_file(&recorded.capture, Some(&recorded.model), Isa::Scalar).unwrap();
        let shown = render::text(&report);
        assert_eq!(report.finding_count(), 0, "{settings}{shown}");
        assert!(!report.is_missing_data(), "{settings}{shown}");
        for check in [CheckName::Masks, CheckName::AppliedMask, CheckName::Drafts, CheckName::Accept] {
            assert!(report.checks[&check].checked > 0, "{settings}{check}: {shown}");
        }
        let mut rejected = 0;
        for record in &recorded.records {
            match record {
                Record::Step(step) => rejected += (step.drafts.len() + 1).saturating_sub(step.emitted.len()),
                Record::Header(header) => {
                    assert!(header.components.iter().any(|component| component.name == "xgrammar"));
                }
                _ => {}
            }
        }
        assert!(rejected > 10 || settings.contains("'grammar'"), "{settings}{rejected} drafts were rejected");
    }
}

#[test]
fn a_mask_that_does_not_follow_is_found() {
    let recorded = recorded(SyntheticModel::llama(9), "drafter = 'random'\n");
    let mut records = recorded.records.clone();
    let mask = |record: &Record| match record {
        Record::Mask(mask) => Some(mask.clone()),
        _ => None,
    };
    let other: MaskRecord = records.iter().rev().find_map(mask).unwrap();
    let mut hashes = records.iter_mut().flat_map(|record| match record {
        Record::Step(step) => step.rows.iter_mut().filter_map(|row| row.scheduler_mask.as_mut()).collect(),
        _ => Vec::new(),
    });
    *hashes.find(|hash| **hash != other.hash).unwrap() = other.hash;
    let path = recorded.folder.path().join("changed.mcap");
    write(&records, &path);
    let report = replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap();
    assert!(report.findings.iter().any(|finding| finding.check == CheckName::Masks), "{}", render::text(&report));
}
