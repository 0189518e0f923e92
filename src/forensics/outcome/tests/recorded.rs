//! Outcomes of the choices of a capture, and what has to be recorded for them.

use std::path::Path;

use super::*;
use crate::capture::records::{
    Admission, Completion, ConstraintRecord, FORMAT_VERSION, Header, RequestRecord, Setting, StepRecord, StopReason,
};
use crate::capture::{CaptureReader, CaptureWriter, WriterOptions};

/// A request with one choice, and its records.
struct Recorded {
    header: Header,
    admission: Admission,
    steps: Vec<StepRecord>,
    completion: Option<Completion>,
}

/// A choice that emitted these tokens, two at a time.
fn recorded(tokens: &[u32]) -> Recorded {
    let header = json!({"format_version": FORMAT_VERSION, "recorder": {"name": "test", "version": "0", "build": null},
        "sampler_semantics": "stepscope", "epoch_ns": "0", "logits_tier": "off", "arithmetic_version": null,
        "model": null, "device": null});
    let admission = json!({"request": "0", "client_id": "call-7", "time_ns": "0", "prompt_tokens": [5], "choices": 1,
        "body": body(json!("required")).to_string(), "tool_format": "json"});
    let steps = tokens.chunks(2).zip(0..).map(|(tokens, step)| {
        let step = json!({"step": step.to_string(), "request": "0", "choice": 0, "first_position": 2 * step, "drafts": [],
            "emitted": tokens});
        serde_json::from_value(step).unwrap()
    });
    let completion = json!({"request": "0", "choice": 0, "time_ns": "0", "stop": "max_tokens",
        "emitted_tokens": tokens.len()});
    Recorded {
        header: serde_json::from_value(header).unwrap(),
        admission: serde_json::from_value(admission).unwrap(),
        steps: steps.collect(),
        completion: serde_json::from_value(completion).unwrap(),
    }
}

fn outcomes_of(recorded: Recorded, expected: &[(&str, Call)]) -> Vec<ChoiceOutcome> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.mcap");
    write(recorded, &path);
    let expected = expected.iter().map(|(id, call)| ((*id).to_owned(), call.clone())).collect();
    outcomes(&CaptureReader::open(&path).unwrap(), &SPECIAL, &expected).unwrap()
}

fn write(recorded: Recorded, path: &Path) {
    let writer = CaptureWriter::create(path, recorded.header, WriterOptions::default()).unwrap();
    writer.write(RequestRecord::Admitted(recorded.admission)).unwrap();
    recorded.steps.into_iter().for_each(|step| writer.write(step).unwrap());
    recorded.completion.into_iter().for_each(|end| writer.write(RequestRecord::Finished(end)).unwrap());
    writer.finish().unwrap();
}

#[test]
fn only_an_answer_that_came_says_what_should_come() {
    let expected_by = |change: &dyn Fn(&mut Completion)| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clean.mcap");
        let mut recorded = recorded(&whole());
        change(recorded.completion.as_mut().unwrap());
        write(recorded, &path);
        ExpectedCalls::open(&path)
    };
    let called = |calls: &str| Some(calls.to_owned());
    let look = r#"[{"name": "look", "arguments": "{}"}]"#;
    let expected = expected_by(&|end| end.tool_calls = called(look)).unwrap();
    assert_eq!(expected.get("call-7").unwrap().len(), 1);
    assert_eq!(expected_by(&|end| end.tool_calls = called("[]")).unwrap().get("call-7"), Some([].as_slice()));

    let unknown: [&dyn Fn(&mut Completion); 4] = [
        &|end| end.tool_calls = None,
        &|end| (end.tool_calls, end.stop) = (called("[]"), None),
        &|end| (end.tool_calls, end.stop) = (called("[]"), Some(StopReason::Failed("no memory".to_owned()))),
        &|end| (end.tool_calls, end.stop) = (called("[]"), Some(StopReason::Cancelled)),
    ];
    for change in unknown {
        let error = expected_by(change).unwrap_err();
        assert!(matches!(error, ExpectedCallsError::Empty { .. }), "{error}");
    }
}

const NOTHING: Result<CallOutcome, NoOutcome> = Err(NoOutcome::NothingToJudge);
const NOT_KNOWN: Result<CallOutcome, NoOutcome> = Err(NoOutcome::NotKnown);

/// The outcome of the one choice, with its records changed.
fn outcome_of(tokens: &[u32], change: impl FnOnce(&mut Recorded)) -> Result<CallOutcome, NoOutcome> {
    let mut recorded = recorded(tokens);
    change(&mut recorded);
    let [ChoiceOutcome { outcome, .. }] = &outcomes_of(recorded, &[])[..] else { panic!("one choice") };
    *outcome
}

fn whole() -> Vec<u32> {
    tokens(&timer("soft eggs", CallFormat::Json), &SPECIAL)
}

#[test]
fn the_outcome_of_a_choice_is_that_of_its_tokens() {
    let whole = whole();
    assert_eq!(outcome_of(&whole, |_| {}), Ok(Whole));
    assert_eq!(outcome_of(&whole[..whole.len() - 1], |_| {}), Ok(NeverClosed));
    let found = outcomes_of(recorded(&whole), &[]);
    assert_eq!((found.len(), found[0].client_id.as_deref()), (1, Some("call-7")));
    let call = |label: &str| Call { name: "timer".to_owned(), arguments: json!({"minutes": 25, "label": label}) };
    let with = |id, label| outcomes_of(recorded(&whole), &[(id, call(label))])[0].outcome;
    assert_eq!(with("call-7", "soft eggs"), Ok(Whole));
    assert_eq!(with("call-7", "hard eggs"), Ok(OtherArguments));
    assert_eq!(with("call-8", "hard eggs"), Ok(Whole));
}

/// What ends an answer is no part of it: seen where a special token of its own is within a call that is cut.
#[test]
fn the_token_that_ends_it_and_the_reasoning_are_no_part_of_the_answer() {
    let end = SPECIAL.end_tokens()[0].0;
    let close = SPECIAL.token_id("</tool_call>").unwrap().0;
    let stopped =
        |stop: StopReason| move |recorded: &mut Recorded| recorded.completion.as_mut().unwrap().stop = Some(stop);
    let with = |token: u32| [whole(), vec![token]].concat();
    assert_eq!(outcome_of(&with(close), stopped(StopReason::StopToken(close))), Ok(Whole));
    assert_eq!(outcome_of(&with(close), stopped(StopReason::MaxTokens)), Ok(ClosedTwice));
    let ends_with = |token: u32| {
        move |recorded: &mut Recorded| {
            let model = json!({"name": "test", "architecture": null, "vocabulary_size": null, "context_length": null,
                "end_tokens": [token]});
            recorded.header.model = serde_json::from_value(model).unwrap();
        }
    };
    assert_eq!(outcome_of(&with(close), ends_with(close)), Ok(Whole), "the recorded end tokens");
    assert_eq!(outcome_of(&with(close), ends_with(end)), Ok(ClosedTwice));

    let reasons = tokens("Should I? <tool_call>", &SPECIAL);
    let reasoning = |recorded: &mut Recorded| {
        let (kind, source) = ("lark".to_owned(), String::new());
        recorded.admission.constraint = Some(ConstraintRecord { kind, source, begins_after: Some(end) });
    };
    assert_eq!(outcome_of(&[&reasons[..], &[end], &whole()].concat(), reasoning), Ok(Whole));
    assert_eq!(outcome_of(&[&reasons[..], &whole()].concat(), reasoning), NOTHING, "it never answered");
}

#[test]
fn how_calls_are_written_is_recorded_or_not_known() {
    let setting = |value: &str| {
        let value = value.to_owned();
        move |recorded: &mut Recorded| {
            let name = "tool-format".to_owned();
            recorded.header.configuration = vec![Setting { name, value, source: None }];
            recorded.admission.tool_format = None;
        }
    };
    let whole = whole();
    assert_eq!(outcome_of(&whole, setting("\"json\"")), Ok(Whole));
    assert_eq!(outcome_of(&whole, setting("\"tagged\"")), Ok(AgainstSchema));
    for unknown in ["null", "\"xml\"", ""] {
        assert_eq!(outcome_of(&whole, setting(unknown)), NOT_KNOWN, "{unknown}");
    }
    assert_eq!(outcome_of(&whole, |recorded| recorded.admission.tool_format = Some("xml".to_owned())), NOT_KNOWN);
}

/// Every answer here is broken by its tokens.
#[test]
fn what_is_not_recorded_is_not_known() {
    let broken = &whole()[..20];
    let unknown = |change: fn(&mut Recorded)| outcome_of(broken, change);
    assert_eq!(unknown(|_| {}), Ok(NeverClosed));
    assert_eq!(unknown(|recorded| recorded.admission.body = None), NOT_KNOWN, "no body");
    assert_eq!(unknown(|recorded| recorded.admission.body = Some("9f1c".to_owned())), NOT_KNOWN, "a hash for a body");
    assert_eq!(unknown(|recorded| recorded.admission.body = Some("{}".to_owned())), NOTHING, "no tools");
    let may_not = |recorded: &mut Recorded| recorded.admission.body = Some(body(json!("none")).to_string());
    assert_eq!(unknown(may_not), NOTHING, "no tool may be called");
    assert_eq!(unknown(|recorded| recorded.completion = None), NOT_KNOWN, "no end");
    let is_missing = |recorded: &mut Recorded| drop(recorded.steps.remove(3));
    assert_eq!(unknown(is_missing), NOT_KNOWN, "a step is missing");
    fn ended(recorded: &mut Recorded, stop: Option<StopReason>) {
        recorded.completion.as_mut().unwrap().stop = stop;
    }
    assert_eq!(unknown(|recorded| ended(recorded, None)), Ok(NeverClosed), "for whatever reason");
    assert_eq!(unknown(|recorded| ended(recorded, Some(StopReason::Failed(String::new())))), NOTHING, "a failure");
    assert_eq!(unknown(|recorded| ended(recorded, Some(StopReason::Cancelled))), NOTHING, "cancelled");
}
