//! `stepscope pack`: a capture to give away. What is taken out is nowhere in the file, and what stays says the same.

#[path = "support/command.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod command;
#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use command::stepscope;
use serde_json::Value;
use stepscope::capture::records::{
    EventRecord, KernelIdentity, LossRecord, ParamSource, Refusal, RequestRecord, ResolvedField, Setting, StepRecord,
    StopReason,
};
use stepscope::capture::{CaptureReader, Encoding, Record};
use tempfile::TempDir;

/// What must be in no packed file, whatever letters around it.
const SECRET: &str = "zanzibar";

fn captures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("captures").join(name)
}

fn pack(capture: &Path, out: &Path, redact: Option<&str>) {
    let mut arguments = vec!["pack".to_owned(), capture.display().to_string(), "--out".to_owned()];
    arguments.push(out.display().to_string());
    arguments.extend(redact.into_iter().flat_map(|what| ["--redact".to_owned(), what.to_owned()]));
    let run = stepscope(&arguments);
    assert!([0, 3].contains(&run.status), "{arguments:?}: {}{}", run.stdout, run.stderr);
}

fn records(capture: &Path) -> Vec<Record> {
    let reader = CaptureReader::open(capture).unwrap();
    reader.messages().map(|message| message.unwrap().record).collect()
}

/// Every record as JSON.
fn values(capture: &Path) -> Vec<Value> {
    let json = |record: &Record| serde_json::from_slice(&record.encode(Encoding::Json).unwrap()).unwrap();
    records(capture).iter().map(json).collect()
}

/// Every byte of a capture, chunks decompressed, as lower-case text.
fn text(capture: &Path) -> String {
    let file = fs::read(capture).unwrap();
    let mut bytes = file.clone();
    for record in mcap::read::LinearReader::new(&file).unwrap() {
        if let mcap::records::Record::Chunk { header, data } = record.unwrap() {
            let chunk = mcap::read::ChunkReader::new(header, &data).unwrap();
            for record in chunk {
                match record.unwrap() {
                    mcap::records::Record::Message { data, .. } => bytes.extend_from_slice(&data),
                    other => bytes.extend_from_slice(format!("{other:?}").as_bytes()),
                }
            }
        }
    }
    bytes.make_ascii_lowercase();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether any list of numbers in a record has three neighbours out of `runs`.
fn has_run(value: &Value, runs: &HashSet<[u64; 3]>) -> bool {
    match value {
        Value::Array(list) => {
            let numbers: Vec<u64> = list.iter().filter_map(Value::as_u64).collect();
            let of_rows: Vec<u64> = list.iter().filter_map(|row| row.get("token")?.as_u64()).collect();
            let run = |numbers: &[u64]| numbers.windows(3).any(|window| runs.contains(window));
            run(&numbers) || run(&of_rows) || list.iter().any(|value| has_run(value, runs))
        }
        Value::Object(object) => object.values().any(|value| has_run(value, runs)),
        _ => false,
    }
}

/// Three tokens in a row, of these.
fn runs(tokens: &[u32]) -> impl Iterator<Item = [u64; 3]> {
    // The end tokens of the incident's model are kept, and nothing can be told by one token again and again.
    let is_telling = |window: &&[u32]| window[0] != window[1] && !window.contains(&0);
    tokens.windows(3).filter(is_telling).map(|window| [window[0].into(), window[1].into(), window[2].into()])
}

/// A capture of the incident, with a secret in every field that can hold a text.
fn planted(folder: &Path) -> PathBuf {
    let secret = |what: &str| format!("{what} {SECRET}");
    let mut records = records(&captures("incident/faulty.mcap"));
    records.retain(|record| !matches!(record, Record::Columns(_)));
    let mut is_first = true;
    records.retain(|record| !matches!(record, Record::Header(_)) || std::mem::take(&mut is_first));
    for record in &mut records {
        match record {
            Record::Header(header) => {
                header.model.as_mut().unwrap().name = secret("a model");
                for (name, value) in
                    [("out", format!("{SECRET}.mcap")), ("note", secret("a")), ("list", format!("[{SECRET:?}]"))]
                {
                    let value = if name == "list" { value } else { Value::from(value).to_string() };
                    header.configuration.push(Setting { name: name.to_owned(), value, source: None });
                }
                let (name, value) = (secret("a name"), "1".to_owned());
                header.configuration.push(Setting { name, value, source: None });
                let kernel = KernelIdentity { name: format!("/home/{SECRET}/a.cu"), hashes: Vec::new() };
                header.device.as_mut().unwrap().kernels.push(kernel);
            }
            Record::Request(request) => match request.as_mut() {
                RequestRecord::Admitted(admission) => {
                    admission.client_id = admission.client_id.take().map(|id| secret(&id));
                    admission.endpoint = Some(format!("/v1/chat/completions?user={SECRET}"));
                    admission.body =
                        admission.body.take().map(|body| body.replacen('{', &format!("{{\"user\":\"{SECRET}\","), 1));
                    admission.prompt_text = Some(secret("a prompt"));
                    admission.owner = Some(secret("session"));
                    admission.server_overrides = Some(format!("{{\"stop\":[\"{SECRET}\"]}}"));
                    admission.generation_config = Some(format!("{{\"stop\":[\"{SECRET}\"]}}"));
                    admission.warnings.push(secret("a warning of"));
                    admission.constraint.as_mut().unwrap().source.push_str(SECRET);
                    admission.constraint.as_mut().unwrap().kind.push_str(SECRET);
                    admission.tool_format = Some(secret("tagged"));
                    for (name, value) in [("stop", format!("[{SECRET:?}]")), (SECRET, "1 2".to_owned())] {
                        let (name, source) = (name.to_owned(), ParamSource::Client);
                        admission.params.as_mut().unwrap().push(ResolvedField { name, value, source });
                    }
                }
                RequestRecord::Refused(_) => {}
                RequestRecord::Finished(completion) => {
                    completion.text = Some(secret("an answer"));
                    completion.tool_calls = Some(format!("[{SECRET:?}]"));
                    completion.stop = Some(StopReason::StopString(secret("stop")));
                }
            },
            Record::Step(step) if step.stop.is_some() => step.stop = Some(StopReason::Failed(secret("failed"))),
            _ => {}
        }
    }
    let (client_id, body) = (Some(secret("id")), Some(secret("body")));
    let refusal = Refusal { request: 900, client_id, time_ns: 1, body, error: secret("no such field") };
    records.push(Record::Request(Box::new(RequestRecord::Refused(refusal))));
    for kind in ["warning".to_owned(), secret("kind")] {
        let message = secret("message");
        let event = EventRecord { time_ns: 1, kind, request: None, choice: None, step: None, message };
        records.push(Record::Event(event));
    }
    for channel in ["step".to_owned(), "logits".to_owned(), secret("channel")] {
        let reason = secret("reason");
        let loss = LossRecord { time_ns: 1, channel, messages: Some(1), bytes: None, steps: None, reason };
        records.push(Record::Loss(loss));
    }
    let path = folder.join("planted.mcap");
    recorded::write(&records, &path);
    path
}

#[test]
fn nothing_of_a_planted_secret_is_left() {
    let folder = TempDir::new().unwrap();
    let planted = planted(folder.path());
    let packed = |what: &str| {
        let out = folder.path().join(format!("{what}.mcap"));
        pack(&planted, &out, (what != "whole").then_some(what));
        out
    };
    // The search finds what is there.
    let whole = packed("whole");
    assert!(text(&whole).matches(SECRET).count() > 200, "the secret is in every request");
    let (prompts, outputs, all) = (packed("prompts"), packed("outputs"), packed("all"));
    assert_eq!(
        text(&all).matches(SECRET).count(),
        0,
        "{:?}",
        values(&all).iter().find(|value| value.to_string().contains(SECRET))
    );
    let with_secret = |capture: &Path| {
        let values = values(capture);
        let kinds = values.iter().filter(|value| value.to_string().contains(SECRET));
        kinds.map(|value| value.as_object().unwrap().keys().next().unwrap().clone()).collect::<HashSet<String>>()
    };
    assert_eq!(with_secret(&prompts), HashSet::from(["finished".to_owned()]), "answers alone are left");
    let left = with_secret(&outputs);
    assert_eq!(left, HashSet::from(["admitted".to_owned(), "refused".to_owned()]), "requests alone are left");
}

/// Every text of a capture without prompts and outputs is one of the format's own.
#[test]
fn every_text_that_is_left_is_known() {
    let folder = TempDir::new().unwrap();
    let planted = planted(folder.path());
    let all = folder.path().join("all.mcap");
    pack(&planted, &all, Some("all"));
    fn texts(value: &Value, found: &mut HashSet<String>) {
        match value {
            Value::String(text) => drop(found.insert(text.clone())),
            Value::Array(list) => list.iter().for_each(|value| texts(value, found)),
            Value::Object(object) => object.values().for_each(|value| texts(value, found)),
            _ => {}
        }
    }
    let known = [
        "redacted",
        "sync",
        "async",
        "verify",
        "decode",
        "prefill",
        "match",
        "mismatch",
        "after_rejection",
        "after_end",
        "missing",
        "grammar",
        "limit",
        "max_tokens",
        "grammar_end",
        "protocol_default",
        "client",
        "generation_config",
        "generated",
        "server_override",
        "warning",
        "step",
        "*",
    ];
    let mut found = HashSet::new();
    for value in values(&all).iter().filter(|value| {
        value.get("format_version").is_none() && value.get("batch").is_none_or(|batch| !batch.is_string())
    }) {
        texts(value, &mut found);
    }
    let is_plain = |text: &String| {
        let is_number = text.parse::<f64>().is_ok() || ["null", "true", "false", "[]", "{}"].contains(&text.as_str());
        let is_hash = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_alias = ["id-", "owner-"].iter().any(|prefix| text.starts_with(prefix));
        let parameters = [
            "temperature",
            "top_p",
            "min_p",
            "top_k",
            "seed",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "min_tokens",
            "stop",
            "stop_token_ids",
            "ignore_eos",
            "logprobs",
            "n",
        ];
        is_number || is_hash || is_alias || known.contains(&text.as_str()) || parameters.contains(&text.as_str())
    };
    found.retain(|text| !is_plain(text));
    assert_eq!(found, HashSet::new());
}

#[test]
fn tokens_are_taken_out_and_their_structure_stays() {
    let folder = TempDir::new().unwrap();
    let capture = captures("incident/faulty.mcap");
    let (mut prompts, mut outputs) = (HashSet::new(), HashSet::new());
    for record in records(&capture) {
        match record {
            Record::Request(request) => {
                if let RequestRecord::Admitted(admission) = *request {
                    prompts.extend(runs(&admission.prompt_tokens));
                }
            }
            Record::Step(step) => outputs.extend(runs(&step.emitted)),
            _ => {}
        }
    }
    // Answers quote prompts.
    let prompts: HashSet<[u64; 3]> = prompts.difference(&outputs).copied().collect();
    let leaks =
        |capture: &Path, runs: &HashSet<[u64; 3]>| values(capture).iter().filter(|value| has_run(value, runs)).count();
    let packed = |what: &str| {
        let out = folder.path().join(format!("{what}.mcap"));
        pack(&capture, &out, Some(what));
        out
    };
    assert!(leaks(&capture, &prompts) > 0 && leaks(&capture, &outputs) > 0, "the search finds what is there");
    let (without_prompts, without_outputs, without) = (packed("prompts"), packed("outputs"), packed("all"));
    assert_eq!((leaks(&without, &prompts), leaks(&without, &outputs)), (0, 0));
    assert_eq!(leaks(&without_prompts, &prompts), 0);
    assert!(leaks(&without_prompts, &outputs) > 0);
    assert!(leaks(&without_outputs, &prompts) > 0);
    for what in ["logits", "mask", "sketch"] {
        let reader = CaptureReader::open(&without).unwrap();
        let survey = reader.survey().unwrap();
        assert!(survey.channels.iter().all(|(topic, totals)| topic.name() != what || totals.messages == 0), "{what}");
    }

    let steps = |capture: &Path| -> Vec<StepRecord> {
        let step = |record| if let Record::Step(step) = record { Some(*step) } else { None };
        records(capture).into_iter().filter_map(step).collect()
    };
    let (before, after) = (steps(&capture), steps(&without));
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        let equal = |step: &StepRecord| -> Vec<bool> {
            let drafts = step.drafts.iter().zip(&step.emitted).map(|(draft, token)| *draft == i64::from(*token));
            let best =
                |row: &stepscope::capture::records::RowRecord| row.statistics.and_then(|statistics| statistics.argmax);
            drafts.chain(step.rows.iter().map(|row| best(row) == row.token)).collect()
        };
        assert_eq!(equal(before), equal(after), "tokens at one place are equal where they were");
        let rest = |step: &StepRecord| {
            let masks =
                step.rows.iter().map(|row| (row.scheduler_mask == row.applied_mask, row.mask_population, row.rank));
            (
                step.q_len,
                step.prev_accepted,
                step.emitted.len(),
                step.drafts.len(),
                step.withheld.clone(),
                masks.collect::<Vec<_>>(),
            )
        };
        assert_eq!(rest(before), rest(after));
    }
}

#[test]
fn the_condition_of_the_incident_is_found_without_its_texts() {
    let folder = TempDir::new().unwrap();
    let capture = captures("incident/faulty.mcap");
    let first = |capture: &Path| {
        let run = stepscope(&["correlate", &capture.display().to_string(), "--json"]);
        assert_eq!(run.status, 1, "{}", run.stderr);
        let found: Value = serde_json::from_str(&run.stdout).unwrap();
        let first = &found["ranked"][0];
        ["predicate", "true", "false", "increase"].map(|part| first[part].clone())
    };
    let expected = first(&capture);
    assert_eq!(expected[0], "prev_accepted > q_len");
    for what in ["prompts", "outputs", "all"] {
        let out = folder.path().join(format!("{what}.mcap"));
        pack(&capture, &out, Some(what));
        assert_eq!(first(&out), expected, "{what}");
    }
}

/// Exit status of a replay of an incident's capture with its models, and what it printed.
fn replay(capture: &Path) -> (i32, String) {
    let file = |name: &str| captures("incident").join(name).display().to_string();
    let (target, draft) = (file("target.gguf"), file("draft.gguf"));
    let run = stepscope(&["replay", &capture.display().to_string(), "--model", &target, "--draft-model", &draft]);
    (run.status, run.stdout + &run.stderr)
}

#[test]
fn replay_says_what_it_cannot_check_and_finds_nothing_false() {
    let folder = TempDir::new().unwrap();
    for name in ["clean", "faulty", "defaults"] {
        let capture = captures(&format!("incident/{name}.mcap"));
        for (what, blocked) in [
            ("prompts", &["prompt", "params", "logits", "forward", "drafts", "masks"][..]),
            ("outputs", &["logits", "forward", "drafts", "masks", "sampler", "termination"]),
            ("all", &["prompt", "params", "logits", "forward", "drafts", "masks", "sampler", "termination"]),
        ] {
            let out = folder.path().join(format!("{name}-{what}.mcap"));
            pack(&capture, &out, Some(what));
            let (status, said) = replay(&out);
            assert_eq!(status, 3, "{name} without {what}: {said}");
            for check in blocked {
                let level = format!("{check}: none");
                let is_told = said.lines().zip(said.lines().skip(1)).any(|(levels, why)| {
                    levels.split(", ").any(|part| part.trim() == level) && why.contains("redacted in the capture: ")
                });
                assert!(is_told, "{name} without {what}: nothing about {check} in {said}");
            }
        }
    }
    // Of what another engine recorded, as well.
    for name in ["sync-ngram", "sync-guidance", "async-draft-model", "hybrid", "newer-runner"] {
        for what in ["prompts", "outputs", "all"] {
            let out = folder.path().join(format!("{name}-{what}.mcap"));
            pack(&captures(&format!("vllm/{name}.mcap")), &out, Some(what));
            let (status, said) = {
                let run = stepscope(&["replay", &out.display().to_string()]);
                (run.status, run.stdout)
            };
            assert_eq!(status, 3, "{name} without {what}: {said}");
        }
    }
}

/// What needs no text is found in hashes, too: a mask that is another row's.
#[test]
fn what_can_be_checked_is() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("masks.mcap");
    pack(&captures("vllm/neighbours-mask.mcap"), &out, Some("all"));
    let run = stepscope(&["replay", &out.display().to_string(), "--check", "applied-mask,signs"]);
    assert_eq!(run.status, 1, "{}", run.stdout);
}

#[test]
fn commands_that_need_tokens_take_no_hashes_for_them() {
    let folder = TempDir::new().unwrap();
    let capture = captures("incident/faulty.mcap");
    let out = folder.path().join("all.mcap");
    pack(&capture, &out, Some("all"));
    let (capture, out) = (capture.display().to_string(), out.display().to_string());
    let model = captures("incident/target.gguf").display().to_string();
    for arguments in [
        vec!["localize", &out, "--model", &model],
        vec!["diff", &capture, &out],
        vec!["correlate", &out, "--label", "diverged", "--model", &model],
    ] {
        let run = stepscope(&arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {}", run.stdout);
        assert!(run.stderr.contains("redacted"), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn what_is_packed_whole_says_what_it_said() {
    let folder = TempDir::new().unwrap();
    for name in ["incident/clean.mcap", "vllm/mixed-batch.mcap", "defaults/defaults.mcap", "filters/filters.mcap"] {
        let capture = captures(name);
        let out = folder.path().join(name.replace('/', "-"));
        pack(&capture, &out, None);
        assert_eq!(CaptureReader::open(&out).unwrap().header().format_version, 3, "{name} is in today's format");
        let run = |capture: &Path| {
            let run = stepscope(&["replay", &capture.display().to_string(), "--json", "--level", "cheap"]);
            let replayed: Value = serde_json::from_str(&run.stdout).unwrap();
            let checks = replayed["checks"].as_object().unwrap();
            let counts: Vec<(String, Value)> =
                checks.iter().map(|(check, tally)| (check.clone(), tally["findings"].clone())).collect();
            (run.status, counts)
        };
        assert_eq!(run(&out), run(&capture), "{name}");
        let verified = stepscope(&["verify", &out.display().to_string()]);
        assert_eq!(verified.status, 0, "{name}: {}", verified.stdout);
    }
}

#[test]
fn what_is_not_whole_is_not_packed() {
    let folder = TempDir::new().unwrap();
    let bytes = fs::read(captures("incident/clean.mcap")).unwrap();
    let (cut, out) = (folder.path().join("cut.mcap"), folder.path().join("out.mcap"));
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let arguments = ["pack", cut.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let run = stepscope(&arguments);
    assert!(run.status == 2 && run.stderr.contains("recover"), "{}", run.stderr);
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    fs::write(&cut, damaged).unwrap();
    let run = stepscope(&arguments);
    assert!(run.status == 2 && run.stderr.contains("recover"), "{}", run.stderr);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of the try");
}
