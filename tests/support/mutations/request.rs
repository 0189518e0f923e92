//! Mutations of the request channel: admissions and completions.

use serde_json::Value;
use stepscope::capture::Record;
use stepscope::capture::records::{Admission, Completion, ParamSource, RequestRecord, ResolvedField, StopReason};
use stepscope::replay::CheckName::{Commit, Forward, Params, Prompt, Sampler, Termination};

use super::Expected::{Finding, Nothing};
use super::{Mutation, Place, mutation, of_admission, of_completion};

/// Lists every field: a new one does not compile until it is named here, and should then stand in the table.
fn _every_field(admission: Admission, completion: Completion) {
    let Admission {
        request: _,
        client_id: _,
        time_ns: _,
        endpoint: _,
        body: _,
        prompt_text: _,
        add_special_tokens: _,
        prompt_tokens: _,
        params: _,
        owner: _,
        choices: _,
        server_overrides: _,
        generation_config: _,
        warnings: _,
        constraint: _,
        tool_format: _,
    } = admission;
    let Completion { request: _, choice: _, time_ns: _, stop: _, emitted_tokens: _, text: _, tool_calls: _ } =
        completion;
}

/// Changes a member of the body.
fn body(admission: &mut Admission, change: impl Fn(&mut Value)) {
    let text = admission.body.as_mut().expect("the body is recorded");
    let mut value = serde_json::from_str(text).expect("the body is JSON");
    change(&mut value);
    *text = value.to_string();
}

fn field<'a>(admission: &'a mut Admission, name: &str) -> &'a mut ResolvedField {
    let params = admission.params.as_mut().expect("the parameters are recorded");
    params.iter_mut().find(|field| field.name == name).expect("the parameter is recorded")
}

/// The value of a resolved parameter, in the request that its change is told by.
fn value(name: &'static str, request: u64, to: &'static str) -> Mutation {
    of_admission(name, request, Finding(Params), move |admission| field(admission, name).value = to.to_owned())
}

pub fn table() -> Vec<Mutation> {
    let mut table = vec![
        of_admission("admission.client_id", 0, Nothing("a label of the client's; nothing repeats it"), |admission| {
            admission.client_id = Some("another".to_owned());
        }),
        mutation("admission.request", Finding(Commit), |records| {
            change_admission(records, 4, |admission| admission.request = 400);
            Place { request: Some(4), step: None }
        }),
        mutation("admission.time_ns", Finding(Commit), |records| {
            change_admission(records, 0, |admission| admission.time_ns = u64::MAX / 2);
            let step = records.iter().find_map(|record| match record {
                Record::Step(step) if step.request == 0 => Some(step.step),
                _ => None,
            });
            Place { request: Some(0), step }
        }),
        of_admission("admission.endpoint", 0, Finding(Prompt), |admission| {
            admission.endpoint = Some("/v1/completions".to_owned());
        }),
        of_admission("body.messages", 0, Finding(Prompt), |admission| {
            body(admission, |body| body["messages"][1]["content"] = "Goodbye.".into());
        }),
        of_admission("body.prompt", 3, Finding(Prompt), |admission| {
            body(admission, |body| body["prompt"] = "Once upon a tide".into());
        }),
        of_admission("body.prompt, tokens", 4, Finding(Prompt), |admission| {
            body(admission, |body| body["prompt"][1] = 21.into());
        }),
        of_admission("body.temperature", 1, Finding(Params), |admission| {
            body(admission, |body| body["temperature"] = 0.7.into());
        }),
        of_admission("body.seed", 1, Finding(Params), |admission| body(admission, |body| body["seed"] = 8.into())),
        of_admission("prompt_text", 0, Finding(Prompt), |admission| {
            admission.prompt_text.as_mut().expect("it is recorded").push(' ');
        }),
        of_admission("add_special_tokens", 0, Finding(Prompt), |admission| admission.add_special_tokens = Some(true)),
        of_admission("prompt_tokens", 0, Finding(Prompt), |admission| admission.prompt_tokens[3] += 1),
        of_admission("owner", 0, Finding(Commit), |admission| admission.owner = Some("request 5".to_owned())),
        of_admission("choices", 2, Finding(Params), |admission| admission.choices = 3),
        of_admission("choices, which are missing", 2, Finding(Commit), |admission| admission.choices = 3),
        of_admission("server_overrides", 0, Finding(Params), |admission| {
            admission.server_overrides = Some("{\"min_p\": 0.5}".to_owned());
        }),
        of_admission("generation_config", 0, Finding(Params), |admission| {
            admission.generation_config = Some("{\"temperature\": 0.9, \"top_k\": 51}".to_owned());
        }),
        of_admission("warnings", 0, Nothing("words for people; no decision depends on them"), |admission| {
            admission.warnings.push("another".to_owned());
        }),
        of_admission("params, one absent", 0, Finding(Params), |admission| {
            admission.params.as_mut().expect("they are recorded").pop();
        }),
        of_admission("params.source", 0, Finding(Params), |admission| {
            field(admission, "top_k").source = ParamSource::Client;
        }),
        of_admission("params.source of a fresh seed", 5, Finding(Params), |admission| {
            field(admission, "seed").source = ParamSource::ProtocolDefault;
        }),
    ];
    table.extend([
        value("temperature", 1, "0.81"),
        value("top_p", 1, "0.91"),
        value("min_p", 0, "0.02"),
        value("top_k", 0, "49"),
        value("seed", 1, "8"),
        value("repetition_penalty", 1, "1.2"),
        value("presence_penalty", 1, "0.2"),
        value("frequency_penalty", 1, "0.3"),
        value("logit_bias", 1, "{\"7\": 1.0}"),
        value("min_tokens", 3, "2"),
        value("max_tokens", 0, "13"),
        value("stop", 3, "[\"abab\"]"),
        value("stop_token_ids", 6, "[]"),
        value("ignore_eos", 4, "false"),
        value("logprobs", 0, "3"),
        value("n", 2, "1"),
    ]);
    table.extend(completions());
    table.extend([
        // The seed is fresh: nothing says what it should have been, but it did not give these tokens.
        mutation("seed, generated", Finding(Sampler), |records| {
            change_admission(records, 2, |admission| field(admission, "seed").value = "12345".to_owned());
            sampled_place(records, 2)
        }),
        mutation("prompt_tokens, as the model read them", Finding(Forward), |records| {
            change_admission(records, 0, |admission| admission.prompt_tokens[3] += 1);
            sampled_place(records, 0)
        }),
    ]);
    table
}

fn completions() -> Vec<Mutation> {
    vec![
        of_completion("completion.time_ns", 0, Finding(Commit), |completion| completion.time_ns = 0),
        of_completion("completion.stop", 0, Finding(Termination), |completion| {
            completion.stop = Some(StopReason::ContextFull);
        }),
        of_completion("completion.stop, another string", 3, Finding(Termination), |completion| {
            completion.stop = Some(StopReason::StopString("b".to_owned()));
        }),
        of_completion("completion.stop, failed", 0, Finding(Termination), |completion| {
            completion.stop = Some(StopReason::Failed("another".to_owned()));
        }),
        of_completion("completion.emitted_tokens", 0, Finding(Commit), |completion| completion.emitted_tokens += 1),
        of_completion("completion.text", 0, Finding(Commit), |completion| {
            completion.text.as_mut().expect("it is recorded").push('!');
        }),
        of_completion("completion.text, with the stop string", 3, Finding(Commit), |completion| {
            completion.text.as_mut().expect("it is recorded").push_str("abab");
        }),
        of_completion("completion.choice", 0, Finding(Commit), |completion| completion.choice = 7),
        of_completion("completion.request", 0, Finding(Commit), |completion| completion.request = 4),
    ]
}

/// The first step with a row of a request's first choice.
fn sampled_place(records: &[Record], request: u64) -> Place {
    let step = records.iter().find_map(|record| match record {
        Record::Step(step) if step.request == request && !step.rows.is_empty() => Some(step.step),
        _ => None,
    });
    Place { request: Some(request), step }
}

fn change_admission(records: &mut [Record], request: u64, change: impl Fn(&mut Admission)) {
    for record in records {
        if let Record::Request(record) = record
            && let RequestRecord::Admitted(admission) = record.as_mut()
            && admission.request == request
        {
            change(admission);
        }
    }
}
