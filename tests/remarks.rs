//! What replay remarks of answers that follow from their inputs, and are odd nevertheless.

#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::process::Command;

use recorded::{Recorded, record_requests, replay_file, write};
use serde_json::{Value, json};
use stepscope::arith::Isa;
use stepscope::capture::Record;
use stepscope::capture::records::{RequestRecord, StepRecord};
use stepscope::model::Model;
use stepscope::model::synthetic::SyntheticModel;

fn line(id: &str, body: Value) -> Value {
    json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body})
}

/// Answers that loop, that were asked for before, and that are drawn with a seed of the engine's.
fn requests(model: &Model) -> Vec<Value> {
    let favourite = model.tokenizer.encode("a", false).unwrap()[0].0.to_string();
    let question = json!({"role": "user", "content": "Where?"});
    let look = |values: Value| {
        json!([{"type": "function", "function": {"name": "look", "parameters":
            {"type": "object", "properties": {"n": {"enum": values}}, "required": ["n"], "additionalProperties": false}}}])
    };
    let asked = json!({"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{ \"n\" : 1 }"}}]});
    let told = json!({"role": "tool", "tool_call_id": "1", "content": "Nothing."});
    let call = |values: Value| {
        json!({"messages": [question, asked, told], "tools": look(values), "tool_choice": "required", "temperature": 0,
            "parallel_tool_calls": false, "max_tokens": 200})
    };
    let drawn = |seed: Value| json!({"messages": [question], "temperature": 1.5, "top_k": -1, "seed": seed, "max_tokens": 12, "ignore_eos": true});
    vec![
        line(
            "loops",
            json!({"messages": [question], "temperature": 0, "max_tokens": 30, "logit_bias": {favourite: 100}}),
        ),
        line("again", call(json!([1]))),
        line("another", call(json!([2]))),
        line("drawn-1", drawn(Value::Null)),
        line("drawn-2", drawn(Value::Null)),
        line("seeded-1", drawn(json!(5))),
        line("seeded-2", drawn(json!(5))),
    ]
}

fn recorded() -> Recorded {
    record_requests(
        SyntheticModel::llama(51),
        "max-batch = 3\ngrammar-whitespace = 'none'\n",
        512,
        |_| Vec::new(),
        requests,
    )
}

fn remarks(recorded: &Recorded, records: &[Record]) -> Vec<(String, String)> {
    let path = recorded.folder.path().join("changed.mcap");
    write(records, &path);
    let report = replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap();
    report.remarks.into_iter().map(|remark| (remark.client_id.unwrap(), remark.words)).collect()
}

fn steps(records: &mut [Record], request: u64) -> impl Iterator<Item = &mut StepRecord> {
    records.iter_mut().filter_map(move |record| match record {
        Record::Step(step) if step.request == request => Some(step.as_mut()),
        _ => None,
    })
}

#[test]
fn what_is_odd_is_told_and_nothing_else() {
    let recorded = recorded();
    let own = [
        ("loops".to_owned(), "the answer ends with the same 1 tokens 30 times over".to_owned()),
        ("again".to_owned(), "the same call again: `look` with {\"n\":1}".to_owned()),
    ];
    assert_eq!(remarks(&recorded, &recorded.records), own);

    let mut records = recorded.records.clone();
    let first: Vec<Vec<u32>> = steps(&mut records, 3).map(|step| step.emitted.clone()).collect();
    steps(&mut records, 4).zip(first).for_each(|(step, emitted)| step.emitted = emitted);
    let found = remarks(&recorded, &records);
    assert_eq!(found[..2], own);
    let words = "drew the very 12 tokens of request 3, choice 0, after the same prompt, and no client gave a seed";
    assert_eq!(found[2..], [("drawn-2".to_owned(), words.to_owned())]);
}

#[test]
fn a_remark_quotes_no_more_of_a_capture_than_can_be_read() {
    let recorded = recorded();
    let mut records = recorded.records.clone();
    for record in &mut records {
        let Record::Request(request) = record else { continue };
        if let RequestRecord::Finished(completion) = request.as_mut() {
            let call = json!({"name": "look", "arguments": "x".repeat(1 << 20)});
            completion.tool_calls = Some(json!([call, call]).to_string());
        }
    }
    let found = remarks(&recorded, &records);
    assert!(found.len() > 5, "{}", found.len());
    for (_, words) in found {
        assert!(words.len() < 1_100, "{} bytes", words.len());
    }
}

#[test]
fn a_remark_is_no_finding() {
    let recorded = recorded();
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepscope"));
        command.arg("replay").arg(&recorded.capture).arg("--model").arg(recorded.folder.path().join("model.gguf"));
        let output = command.args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&[]);
    assert!(
        text.contains("worth a look, and no finding (2 of 2):\n  request 0 (`loops`), choice 0: the answer ends"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!(json["remarks"][1]["client_id"], "again");
    assert_eq!(json["remarks_left_out"], 0);
}
