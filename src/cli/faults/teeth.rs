//! The teeth table: every fault planted, and what caught it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::cause::{Correlated, Operation, correlated, label_of, operation};
use super::parting::{Partings, Trails, trails};
use super::requests::{UNSEEDED, requests};
use super::table::{table, table_json};
use crate::arith::{Isa, KvType};
use crate::capture::CaptureReader;
use crate::cli::{Outcome, output, record};
use crate::engine::faults::{Area, Condition as Expected, Fault};
use crate::forensics::correlate::Label;
use crate::model::synthetic::SyntheticModel;
use crate::model::{Model, write_first_blocks};
use crate::replay::forward::{PlainModel, Products};
use crate::replay::{CaptureRecording, CheckName, Finding, Job, Report, replay};

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

const USUAL: &str = "max-batch = 4\nprefill-chunk = 24\nthreads = 1\ncontext-length = 512\nsketches = 'on'\nreasoning-end = '</tool_call>'\n";

/// What one run came to.
struct Run {
    /// The answers, by `custom_id`.
    answers: BTreeMap<String, Value>,
    trails: Trails,
    report: Report,
    steps: usize,
}

/// One line of the table.
pub(super) struct Bite {
    pub(super) fault: Fault,
    /// The way of running that shows it, unless none does.
    pub(super) way: Option<&'static str>,
    /// Requests whose answers it changes there.
    pub(super) changed: usize,
    /// How many of them the check that should catch it finds something in, where they part from the clean run or later.
    pub(super) caught_in: usize,
    /// Findings of any check elsewhere.
    pub(super) elsewhere: usize,
    /// The checks that have findings there, with how many.
    pub(super) caught: BTreeMap<CheckName, u64>,
    /// The first finding of the check that should catch it in such a request.
    pub(super) first: Option<String>,
    /// The condition of the bad steps there.
    pub(super) correlated: Option<Correlated>,
    /// The operation that went wrong first there, if one did.
    pub(super) operation: Option<Operation>,
}

impl Bite {
    /// Whether the capture tells the cause that the fault has, and no other.
    pub(super) fn is_explained(&self) -> bool {
        let condition = self.correlated.as_ref().and_then(|correlated| correlated.condition.as_ref());
        let is_condition = match (self.fault.condition(), condition) {
            (Some(Expected { predicate: expected, .. }), Some(found)) => {
                found.predicate == expected || found.equivalents.iter().any(|equivalent| equivalent == expected)
            }
            (expected, found) => expected.is_none() && found.is_none(),
        };
        let operation = self.operation.as_ref().map(|found| (found.name.as_str(), found.how));
        is_condition && operation == self.fault.operation()
    }
}

/// What the runs without a fault came to.
pub(super) struct Honest {
    pub(super) steps: usize,
    pub(super) rows: u64,
    pub(super) findings: u64,
    /// Conditions that go with bad steps, each with the way of running and the label.
    pub(super) conditions: Vec<String>,
    /// Operations that differ, each with the way of running.
    pub(super) operations: Vec<String>,
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
    let (mut conditions, mut operations) = (Vec::new(), Vec::new());
    for (way, settings) in WAYS {
        let run = bench.run(settings, None)?;
        let (capture, plain) = (bench.path("capture.mcap"), bench.plain(&bench.model, Isa::detect())?);
        operations.extend(operation(&capture, &plain)?.map(|found| format!("{way}: {}", found.name)));
        for label in [Label::Finding(None), Label::Diverged, Label::ForcedMisrank] {
            let Correlated { label, condition, .. } = correlated(&capture, label, &run.report, &plain)?;
            conditions.extend(condition.map(|found| format!("{way}: {label}: {}", found.predicate)));
        }
        clean.push((way, settings, run));
    }
    let findings: u64 = clean.iter().map(|(_, _, run)| run.report.finding_count()).sum();
    let honest = Honest {
        steps: clean.iter().map(|(_, _, run)| run.steps).sum(),
        rows: clean.iter().map(|(_, _, run)| run.report.rows).sum(),
        findings,
        conditions,
        operations,
    };
    let is_wanted = |fault: &Fault| only.is_empty() || only.contains(fault);
    let mut bites = Vec::new();
    for fault in Fault::all().filter(is_wanted) {
        bites.push(bench.bite(fault, &clean)?);
    }
    let missed = bites.iter().filter(|bite| bite.way.is_none() || !bite.is_explained()).count();
    let is_clean = findings == 0 && honest.conditions.is_empty() && honest.operations.is_empty();
    output::to_stdout(|out| match as_json {
        true => Ok(writeln!(out, "{:#}", table_json(&bites, &honest))?),
        false => table(out, &bites, &honest),
    })?;
    Ok(if missed == 0 && is_clean { Outcome::Clean } else { Outcome::Findings })
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
        let (plain, draft) = (self.plain(&self.model, Isa::Scalar)?, self.plain(&self.draft, Isa::Scalar)?);
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

    /// A model of the bench, to be run plainly; every way of computing gives the same bits.
    fn plain<'a>(&self, model: &'a Model, isa: Isa) -> anyhow::Result<PlainModel<'a>> {
        Ok(PlainModel::new(model, Products::new(isa, &model.weights)?, KvType::F32)?)
    }

    /// Plants a fault in one way of running after the other, until it changes an answer and its check finds it there.
    fn bite(&self, fault: Fault, clean: &[(&'static str, &'static str, Run)]) -> anyhow::Result<Bite> {
        let check: CheckName = fault.check().parse()?;
        let plain = self.plain(&self.model, Isa::detect())?;
        let mut last = None;
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
            let mut bite = Bite {
                fault,
                way: bites.then_some(*way),
                changed: changed.len(),
                caught_in: caught_in.len(),
                elsewhere: elsewhere.len(),
                caught,
                first,
                correlated: None,
                operation: None,
            };
            if bites {
                let (capture, label) = (self.path("capture.mcap"), label_of(check));
                bite.correlated =
                    Some(correlated(&capture, label, &run.report, &plain).with_context(|| fault.to_string())?);
                bite.operation = operation(&capture, &plain).with_context(|| fault.to_string())?;
                return Ok(bite);
            }
            last = Some(bite);
        }
        last.context("no way of running")
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
