//! The teeth table: every fault planted, and what caught it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::parting::{Partings, Trails, trails};
use crate::arith::{Isa, KvType};
use crate::capture::CaptureReader;
use crate::cli::{Outcome, output, record};
use crate::engine::faults::{Area, Fault};
use crate::model::synthetic::SyntheticModel;
use crate::model::{Model, write_first_blocks};
use crate::replay::forward::{PlainModel, Products};
use crate::replay::{CaptureRecording, CheckName, FINDINGS_KEPT, Finding, Job, Report, replay};

/// The ways of running, as lines of a `--config` file. A fault is tried in each until one shows it.
const WAYS: [(&str, &str); 5] = [
    ("sync, chaos", "drafter = 'random'\ndrafts = 5\nscheduling = 'sync'\n"),
    ("sync, right drafts", "drafter = 'scripted'\ndrafts = 6\nscheduling = 'sync'\ndraft-script = 'SCRIPT'\n"),
    (
        "async, prompt lookup",
        "drafter = 'ngram'\ndrafts = 4\nscheduling = 'async'\ntool-format = 'tagged'\ngrammar-whitespace = 'none'\n",
    ),
    ("sync, draft model", "drafter = 'model'\ndrafts = 5\nscheduling = 'sync'\ndraft-model = 'DRAFT'\n"),
    (
        "sync, draft model, rejection",
        "drafter = 'model'\ndrafts = 4\nverify-rule = 'rejection'\ndraft-model = 'DRAFT'\n",
    ),
];

const USUAL: &str =
    "max-batch = 4\nprefill-chunk = 24\nthreads = 1\ncontext-length = 512\nreasoning-end = '</tool_call>'\n";
/// Requests of each kind.
const ROUNDS: usize = 3;
/// Their seed is left to the engine, so that they part from the clean run in any case: in a run with a fault they are left
/// out, but for the one of seeds, which makes them alike.
const UNSEEDED: &str = "unseeded";

/// What one run came to.
struct Run {
    /// The answers, by `custom_id`.
    answers: BTreeMap<String, Value>,
    trails: Trails,
    report: Report,
    steps: usize,
}

/// One line of the table.
struct Bite {
    fault: Fault,
    /// The way of running that shows it, unless none does.
    way: Option<&'static str>,
    /// Requests whose answers it changes there.
    changed: usize,
    /// How many of them the check that should catch it finds something in, where they part from the clean run or later.
    caught_in: usize,
    /// Findings of any check elsewhere.
    elsewhere: usize,
    /// The checks that have findings there, with how many.
    caught: BTreeMap<CheckName, u64>,
    /// The first finding of the check that should catch it in such a request.
    first: Option<String>,
}

/// What the runs without a fault came to.
struct Honest {
    steps: usize,
    rows: u64,
    findings: u64,
}

/// A folder with models, requests and a script of right drafts.
struct Bench {
    folder: tempfile::TempDir,
    model: Model,
    draft: Model,
}

/// Every so many scripted drafts one is an end token, which is right nowhere but at the end.
const WRONG: usize = 7;

/// Plants the faults (all of them, if none is named) and prints what caught them.
pub(super) fn run(only: &[Fault], as_json: bool) -> anyhow::Result<Outcome> {
    let bench = Bench::new()?;
    let mut clean = Vec::new();
    for (way, settings) in WAYS {
        clean.push((way, settings, bench.run(settings, None)?));
    }
    let findings: u64 = clean.iter().map(|(_, _, run)| run.report.finding_count()).sum();
    let honest = Honest {
        steps: clean.iter().map(|(_, _, run)| run.steps).sum(),
        rows: clean.iter().map(|(_, _, run)| run.report.rows).sum(),
        findings,
    };
    let is_wanted = |fault: &Fault| only.is_empty() || only.contains(fault);
    let mut bites = Vec::new();
    for fault in Fault::all().filter(is_wanted) {
        bites.push(bench.bite(fault, &clean)?);
    }
    let missed = bites.iter().filter(|bite| bite.way.is_none()).count();
    output::to_stdout(|out| match as_json {
        true => Ok(writeln!(out, "{:#}", table_json(&bites, &honest))?),
        false => table(out, &bites, &honest),
    })?;
    Ok(if missed == 0 && findings == 0 { Outcome::Clean } else { Outcome::Findings })
}

impl Bench {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let path = |name: &str| folder.path().join(name);
        let mut synthetic = SyntheticModel::lfm2(11);
        synthetic.generation_config = serde_json::from_value(json!({"temperature": 0.9, "top_k": 50}))?;
        synthetic.write_gguf(&path("model.gguf"))?;
        write_first_blocks(&path("model.gguf"), 2, &path("draft.gguf"))?;
        let (model, draft) = (Model::load(&path("model.gguf"))?, Model::load(&path("draft.gguf"))?);
        let bench = Self { folder, model, draft };
        bench.write_script()?;
        Ok(bench)
    }

    fn write_requests(&self, requests: &[Value]) -> anyhow::Result<()> {
        let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
        Ok(fs::write(self.path("requests.jsonl"), lines.join("\n"))?)
    }

    /// The answers as they would go on past their ends, for a drafter that knows them.
    fn write_script(&self) -> anyhow::Result<()> {
        let mut endless = requests();
        for request in &mut endless {
            if let Some(body) = request["body"].as_object_mut() {
                body.remove("stop");
                body.insert("ignore_eos".to_owned(), json!(true));
            }
        }
        let reader = self.record("", &endless, None)?;
        let end = self.model.tokenizer.end_tokens().first().context("an end token")?.0;
        let mut script = String::new();
        for sequence in reader.sequences() {
            let id = reader.request(sequence.request)?.admission.and_then(|admission| admission.client_id);
            let mut tokens = Vec::new();
            for step in reader.steps(sequence) {
                tokens.extend(step?.emitted);
            }
            tokens.iter_mut().skip(WRONG - 1).step_by(WRONG).for_each(|token| *token = end);
            script += &format!("{}\n", json!({"custom_id": id, "choice": sequence.choice.0, "tokens": tokens}));
        }
        Ok(fs::write(self.path("script.jsonl"), script)?)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Records the requests and replays them, with every check; those of whole models where a fault is no fault of theirs
    /// are left out.
    fn run(&self, settings: &str, fault: Option<Fault>) -> anyhow::Result<Run> {
        let mut requests = requests();
        requests.retain(|request| {
            let is_unseeded = request["custom_id"].as_str().is_some_and(|id| id.starts_with(UNSEEDED));
            !is_unseeded || fault.is_none_or(|fault| fault == Fault::SEED_ZERO)
        });
        let reader = self.record(settings, &requests, fault)?;
        let steps = reader.sequences().map(|sequence| reader.step_count(sequence)).sum();
        let needs_model = fault.is_none_or(|fault| fault.area() == Area::State);
        let checks: Vec<CheckName> =
            CheckName::ALL.into_iter().filter(|check| needs_model || *check != CheckName::Forward).collect();
        let (answers, trails) = (answers(&self.path("outputs.jsonl"))?, trails(&reader)?);
        Ok(Run { answers, trails, report: self.replay(reader, &checks)?, steps })
    }

    fn record(&self, settings: &str, requests: &[Value], fault: Option<Fault>) -> anyhow::Result<CaptureReader> {
        self.write_requests(requests)?;
        let named = |text: &str, name: &str, file: &str| text.replace(name, &self.path(file).display().to_string());
        let settings = named(&named(settings, "DRAFT", "draft.gguf"), "SCRIPT", "script.jsonl");
        fs::write(self.path("config.toml"), format!("{USUAL}{settings}"))?;
        let (capture, outputs) = (self.path("capture.mcap"), self.path("outputs.jsonl"));
        for file in [&capture, &outputs].into_iter().filter(|file| file.exists()) {
            fs::remove_file(file)?;
        }
        let options = record::Options {
            model: Some(self.path("model.gguf")),
            requests: Some(self.path("requests.jsonl")),
            out: Some(capture.clone()),
            outputs: Some(outputs.clone()),
            config: Some(self.path("config.toml")),
            inject: fault.map(record::FaultOption),
            ..record::Options::default()
        };
        record::record(options)
            .with_context(|| fault.map_or("without a fault".to_owned(), |fault| fault.to_string()))?;
        Ok(CaptureReader::open(&capture)?)
    }

    fn replay(&self, reader: CaptureReader, checks: &[CheckName]) -> anyhow::Result<Report> {
        let plain = PlainModel::new(&self.model, Products::new(Isa::Scalar, &self.model.weights)?, KvType::F32)?;
        let draft = PlainModel::new(&self.draft, Products::new(Isa::Scalar, &self.draft.weights)?, KvType::F32)?;
        Ok(replay(&Job {
            name: "capture.mcap",
            recording: &CaptureRecording::new(reader),
            plain: Some(&plain),
            no_model: "",
            draft: Some(&draft),
            checks,
            progress: &|| {},
        })?)
    }

    /// Plants a fault in one way of running after the other, until it changes an answer and its check finds it there.
    fn bite(&self, fault: Fault, clean: &[(&'static str, &'static str, Run)]) -> anyhow::Result<Bite> {
        let check: CheckName = fault.check().parse()?;
        let mut last =
            Bite { fault, way: None, changed: 0, caught_in: 0, elsewhere: 0, caught: BTreeMap::new(), first: None };
        for (way, settings, honest) in clean {
            let run = self.run(settings, Some(fault))?;
            let changed = changed(fault, &honest.answers, &run.answers);
            let partings = Partings::new(&honest.trails, &run.trails);
            let (explained, elsewhere): (Vec<&Finding>, Vec<&Finding>) =
                run.report.findings.iter().partition(|finding| partings.explain(finding));
            let right = |finding: &&&Finding| {
                finding.check == check && finding.client_id.as_ref().is_some_and(|id| changed.contains(id.as_str()))
            };
            let right: Vec<&Finding> = explained.iter().filter(right).copied().collect();
            let caught_in: BTreeSet<&str> = right.iter().filter_map(|finding| finding.client_id.as_deref()).collect();
            let caught: BTreeMap<CheckName, u64> = run
                .report
                .checks
                .iter()
                .filter(|(_, tally)| tally.findings > 0)
                .map(|(check, tally)| (*check, tally.findings))
                .collect();
            let first = right.first().map(|finding| {
                let place = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
                let (request, step) = (place(finding.request), place(finding.step));
                format!("request {request}, step {step}: {}", finding.fact)
            });
            let bites = !caught_in.is_empty();
            last = Bite {
                fault,
                way: bites.then_some(*way),
                changed: changed.len(),
                caught_in: caught_in.len(),
                elsewhere: elsewhere.len(),
                caught,
                first,
            };
            if bites {
                break;
            }
        }
        Ok(last)
    }
}

/// Requests of whose answers a fault changes some.
fn changed<'a>(
    fault: Fault,
    honest: &'a BTreeMap<String, Value>,
    found: &BTreeMap<String, Value>,
) -> BTreeSet<&'a str> {
    if fault == Fault::SEED_ZERO {
        // Equal requests without a seed are answered alike.
        let unseeded: BTreeSet<&str> =
            honest.keys().map(String::as_str).filter(|id| id.starts_with(UNSEEDED)).collect();
        let texts: BTreeSet<String> = unseeded.iter().filter_map(|id| found.get(*id)).map(Value::to_string).collect();
        return if texts.len() == 1 { unseeded } else { BTreeSet::new() };
    }
    let differs = |(id, answer): &(&String, &Value)| !id.starts_with(UNSEEDED) && found.get(*id) != Some(*answer);
    honest.iter().filter(differs).map(|(id, _)| id.as_str()).collect()
}

/// What each request was answered.
fn answers(outputs: &Path) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut answers = BTreeMap::new();
    for line in fs::read_to_string(outputs)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        let id = line["custom_id"].as_str().context("an output without a custom_id")?.to_owned();
        let body = &line["response"]["body"];
        answers.insert(id, json!([body["choices"], body["error"]]));
    }
    ensure!(!answers.is_empty(), "no answers");
    Ok(answers)
}

/// Requests in which each fault has something to bite: every way of sampling, of constraining and of ending.
fn requests() -> Vec<Value> {
    let (end, line_break) = ("4", "15");
    let schema = json!({"type": "object", "required": ["name", "count"], "additionalProperties": false,
        "properties": {"name": {"enum": ["alpha", "beta", "gamma"]}, "count": {"type": "integer", "minimum": 0, "maximum": 999}}});
    let parameters = json!({"type": "object", "required": ["at", "n"], "additionalProperties": false,
        "properties": {"at": {"enum": ["C:\\new"]}, "n": {"enum": [1, 20]}}});
    let tools = json!([{"type": "function", "function": {"name": "put", "parameters": parameters}}]);
    let long = "the order of the answers is not the order of the questions, and a man of the house said so. ".repeat(2);
    let mut lines = Vec::new();
    // Its prompt is a token longer than the chunks it is computed in.
    let prompt: Vec<u32> = (10..35).collect();
    let body = json!({"prompt": prompt, "temperature": 0, "max_tokens": 20, "ignore_eos": true});
    lines.push(json!({"custom_id": "chunks", "method": "POST", "url": "/v1/completions", "body": body}));
    for round in 0..ROUNDS {
        let bodies = [
            ("greedy", json!({"temperature": 0, "max_tokens": 60, "ignore_eos": true, "logprobs": true})),
            (
                "drawn",
                json!({"temperature": 0.8, "seed": 7 + round, "max_tokens": 60, "top_p": 0.95, "ignore_eos": true}),
            ),
            ("default", json!({"seed": 70 + round, "max_tokens": 40, "ignore_eos": true})),
            (
                "filtered",
                json!({"temperature": 1.1, "seed": 17 + round, "min_p": 0.2, "top_k": 30, "max_tokens": 60, "ignore_eos": true,
                    "logit_bias": {"40": 6, "41": 6, "42": -100}}),
            ),
            (
                "penalized",
                json!({"temperature": 0.3, "seed": 27 + round, "repetition_penalty": 1.4, "frequency_penalty": 1.0,
                    "max_tokens": 60, "ignore_eos": true}),
            ),
            (
                "late-end",
                json!({"temperature": 0.9, "seed": 37 + round, "min_tokens": 20, "max_tokens": 60, "logit_bias": {"2": 7},
                    "stop": ["e", "th"]}),
            ),
            ("two", json!({"temperature": 1, "seed": 47 + round, "n": 2, "max_tokens": 40, "ignore_eos": true})),
            (UNSEEDED, json!({"temperature": 1, "max_tokens": 12, "ignore_eos": true})),
            (
                "schema",
                json!({"temperature": 0, "max_tokens": 80, "logit_bias": {end: 100},
                    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}),
            ),
            (
                "schema-drawn",
                json!({"seed": 57 + round, "max_tokens": 80, "logit_bias": {end: 100},
                    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}),
            ),
            (
                "late-reasoning",
                json!({"temperature": 0.9, "seed": 87 + round, "max_tokens": 90, "logit_bias": {end: 5},
                    "structured_outputs": {"regex": "(ab|cd|ef){4,12}"}}),
            ),
            (
                "pattern",
                json!({"temperature": 0, "max_tokens": 60, "logit_bias": {end: 100},
                    "structured_outputs": {"regex": "(ab|cd|ef){4,12}(, (ab|cd|ef){2,5})*"}}),
            ),
            (
                "choice",
                json!({"seed": 67 + round, "max_tokens": 40, "logit_bias": {end: 100}, "structured_outputs": {"choice": ["alphabetical", "alphanumeric"]}}),
            ),
            (
                "object",
                json!({"seed": 77 + round, "max_tokens": 60, "logit_bias": {end: 100}, "response_format": {"type": "json_object"}}),
            ),
            (
                "call",
                json!({"temperature": 0, "max_tokens": 120, "logit_bias": {end: 100}, "tools": tools, "tool_choice": "required"}),
            ),
            (
                "one-call",
                json!({"seed": 97 + round, "n": 4, "max_tokens": 120, "logit_bias": {end: 100, line_break: 3 * round}, "tools": tools,
                    "tool_choice": "required", "parallel_tool_calls": false}),
            ),
        ];
        for (name, mut body) in bodies {
            // The same question for the requests whose answers have to differ.
            let number = if name == UNSEEDED { 0 } else { round };
            // Tools are a system message by themselves.
            let told = if body.get("tools").is_some() { "" } else { &long };
            body["messages"] = json!([
                {"role": "system", "content": told},
                {"role": "user", "content": format!("Question {number} of {name}")},
            ]);
            let id = format!("{name}-{round}");
            lines.push(json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}));
        }
    }
    lines
}

fn table_json(bites: &[Bite], honest: &Honest) -> Value {
    let line = |bite: &Bite| {
        let caught: BTreeMap<&str, u64> = bite.caught.iter().map(|(check, count)| (check.as_str(), *count)).collect();
        json!({
            "fault": bite.fault.name(),
            "check": bite.fault.check(),
            "is_caught": bite.way.is_some(),
            "way": bite.way,
            "answers_changed": bite.changed,
            "caught_in": bite.caught_in,
            "findings_elsewhere": bite.elsewhere,
            "findings": caught,
            "first": bite.first,
        })
    };
    json!({
        "clean": {"step_records": honest.steps, "rows": honest.rows, "findings": honest.findings},
        "faults": bites.iter().map(line).collect::<Vec<_>>(),
    })
}

fn table(out: &mut dyn Write, bites: &[Bite], honest: &Honest) -> anyhow::Result<()> {
    let Honest { steps, rows, findings } = honest;
    let caught = bites.iter().filter(|bite| bite.way.is_some()).count();
    writeln!(out, "# The teeth table\n")?;
    writeln!(
        out,
        "Made by `stepscope faults --teeth`: {caught} of {} planted faults change an answer and are caught where they do, by the \
         check that should catch them; clean runs of the same requests, {steps} step records and {rows} logits rows, have \
         {findings} findings.\n",
        bites.len()
    )?;
    writeln!(
        out,
        "A finding counts in a request whose answer differs from that of the clean run, from the first step on that the \
         clean run's capture does not have so (admission and end included). `caught in` is the number of such requests in which \
         the check has one, and `elsewhere` the number of findings of any check in requests, or before steps, that the fault did \
         not touch; both among the first {FINDINGS_KEPT} findings that a report keeps.\n"
    )?;
    writeln!(
        out,
        "| fault | what goes wrong | shows in | answers changed | should be caught by | caught in | elsewhere | findings |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for bite in bites {
        let found: Vec<String> = bite.caught.iter().map(|(check, count)| format!("{check} {count}")).collect();
        let way = bite.way.unwrap_or("**nothing: MISSED**");
        let Bite { fault, changed, caught_in, elsewhere, .. } = bite;
        writeln!(
            out,
            "| `{fault}` | {} | {way} | {changed} | {} | {caught_in} | {elsewhere} | {} |",
            fault.description(),
            fault.check(),
            found.join(", ")
        )?;
    }
    Ok(())
}
