//! The engine, driven through a few requests, and what it did with each.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::GateError;
use crate::backend::Backend;
use crate::engine::constraint::{GrammarPosition, OutputGrammar};
use crate::engine::drafter::Drafter;
use crate::engine::faults::Fault;
use crate::engine::sampler::{Draft, Odds};
use crate::engine::speculation::Speculation;
use crate::engine::{
    AdmittedReport, Clock, Engine, EngineConfig, EventReport, FinishedReport, Layers, Prompt, Received, RefusalReason,
    RefusedReport, StepReport, Submission, Tap,
};
use crate::grammar::MaskRow;
use crate::model::Tokenizer;
use crate::params::{Defaults, Endpoint, Request};
use crate::types::{FinishReason, SequenceId, TokenId};

/// A request of a gate.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub prompt: Vec<TokenId>,
    pub sampling: Sampling,
    pub max_tokens: u32,
    pub grammar: Option<OutputGrammar>,
}

/// What it is sampled with; what is `None` the request leaves out.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampling {
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub seed: u64,
    pub min_tokens: u32,
    pub stop_token_ids: Vec<u32>,
}

/// How the engine is to run.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    pub tokenizer: &'a Arc<Tokenizer>,
    pub max_batch: usize,
    pub prefill_chunk: usize,
    pub speculation: Speculation,
    pub fault: Option<Fault>,
}

/// What became of one request.
#[derive(Debug)]
pub(super) struct Trail {
    /// Steps with rows.
    pub steps: Vec<Step>,
    pub tokens: Vec<TokenId>,
    pub reason: FinishReason,
}

/// One step of one request.
#[derive(Debug)]
pub(super) struct Step {
    /// Tokens that were emitted before it.
    pub before: usize,
    /// The drafts in the places after the last committed token; `None` is a withheld one.
    pub drafts: Vec<Option<Draft>>,
    pub rows: Vec<Row>,
    pub emitted: Vec<TokenId>,
    pub odds: Vec<Option<Odds>>,
    /// Where the grammar stood after it.
    pub grammar: Option<GrammarPosition>,
}

/// One row of a step.
#[derive(Debug)]
pub(super) struct Row {
    pub logits: Vec<f32>,
    pub filled: Option<MaskRow>,
    pub applied: Option<MaskRow>,
}

/// A row of which a token came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<'a> {
    /// Tokens that were emitted before its token.
    pub before: usize,
    pub row: &'a Row,
    pub draft: Option<&'a Draft>,
    pub odds: Option<Odds>,
    pub token: TokenId,
}

impl Trail {
    /// The rows of which tokens came, in order.
    pub fn judged(&self) -> impl Iterator<Item = Judged<'_>> {
        self.steps.iter().flat_map(|step| {
            let rows = step.rows.iter().zip(&step.emitted).zip(&step.odds).enumerate();
            rows.map(|(index, ((row, token), odds))| Judged {
                before: step.before + index,
                row,
                draft: step.drafts.get(index).and_then(Option::as_ref),
                odds: *odds,
                token: *token,
            })
        })
    }

    /// Whether the request failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.reason, FinishReason::Failed(_))
    }
}

impl Bench<'_> {
    /// Runs the requests to their ends; a trail for each, in order.
    pub fn run(
        &self,
        backend: Box<dyn Backend>,
        drafter: Box<dyn Drafter>,
        jobs: &[Job],
    ) -> Result<Vec<Trail>, GateError> {
        let longest = jobs.iter().map(|job| job.prompt.len() + job.max_tokens as usize).max().unwrap_or(0);
        let config = EngineConfig {
            max_batch: self.max_batch,
            prefill_chunk: self.prefill_chunk,
            prefix_cache: false,
            context_length: longest + 1,
        };
        let vocabulary_size = backend.capacity().vocabulary_size;
        let mut engine = Engine::new(backend, self.tokenizer.clone(), config, Clock::start(), Seen::default())?
            .speculate(drafter, self.speculation)?;
        if let Some(fault) = self.fault {
            engine = engine.inject(fault);
        }
        let mut ids = Vec::new();
        for (request, job) in jobs.iter().enumerate() {
            let submitted = job.submission(vocabulary_size, config.context_length, self.fault);
            let refused = |reason| GateError::Refused { request, reason };
            let (id, accepted) = engine.submit(submitted.map_err(refused)?);
            accepted.map_err(refused)?;
            ids.push(id);
        }
        let most: usize = jobs.iter().map(|job| job.prompt.len() + job.max_tokens as usize).sum();
        let mut finished = BTreeMap::new();
        for _ in 0..=most {
            if engine.is_idle() {
                break;
            }
            finished.extend(engine.step()?.into_iter().map(|choice| (choice.id.request, choice)));
        }
        if !engine.is_idle() {
            return Err(GateError::Endless { steps: most });
        }
        let mut seen = engine.into_tap();
        let trails = ids.into_iter().enumerate().map(|(request, id)| {
            let choice = finished.remove(&id).ok_or(GateError::Lost { request })?;
            let steps = seen.steps.remove(&choice.id).unwrap_or_default();
            Ok(Trail { steps, tokens: choice.tokens, reason: choice.reason })
        });
        trails.collect()
    }
}

impl Job {
    fn submission(
        &self,
        vocabulary_size: usize,
        context_length: usize,
        fault: Option<Fault>,
    ) -> Result<Submission, RefusalReason> {
        let invalid = |error: crate::params::RequestFault| RefusalReason::Invalid(error.to_string());
        let body = self.body().to_string();
        let request = Request::parse(&body, Some(Endpoint::Completions)).map_err(invalid)?;
        let defaults = Defaults {
            vocabulary_size: vocabulary_size as u32,
            context_length: context_length as u32,
            ..Defaults::default()
        };
        let mut resolved = request.resolve(&defaults).map_err(invalid)?;
        if let Some(fault) = fault {
            fault.resolve(&mut resolved);
        }
        Ok(Submission {
            received: Received::default(),
            session: None,
            prompt: Prompt { text: None, add_special_tokens: false, tokens: self.prompt.clone() },
            sampling: resolved.sampling(),
            resolved,
            layers: Layers::default(),
            grammar: self.grammar.clone(),
            tools: None,
        })
    }

    /// As a client sends it.
    fn body(&self) -> Value {
        let Sampling { temperature, top_k, top_p, min_p, seed, min_tokens, stop_token_ids } = &self.sampling;
        let mut body = Map::new();
        let mut enter = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        enter("prompt", Some(json!(self.prompt.iter().map(|token| token.0).collect::<Vec<_>>())));
        enter("max_tokens", Some(json!(self.max_tokens)));
        // Without a grammar a sequence is to be as long as it was asked to be.
        enter("ignore_eos", Some(json!(self.grammar.is_none())));
        enter("temperature", temperature.map(|value| json!(value)));
        enter("top_k", top_k.map(|value| json!(value)));
        enter("top_p", top_p.map(|value| json!(value)));
        enter("min_p", min_p.map(|value| json!(value)));
        enter("seed", Some(json!(seed)));
        enter("min_tokens", (*min_tokens > 0).then(|| json!(min_tokens)));
        enter("stop_token_ids", (!stop_token_ids.is_empty()).then(|| json!(stop_token_ids)));
        Value::Object(body)
    }
}

/// The tap: the steps that had rows.
#[derive(Default)]
struct Seen {
    steps: BTreeMap<SequenceId, Vec<Step>>,
    emitted: BTreeMap<SequenceId, usize>,
}

impl Tap for Seen {
    fn admitted(&mut self, _: &AdmittedReport<'_>) {}
    fn refused(&mut self, _: &RefusedReport<'_>) {}
    fn finished(&mut self, _: &FinishedReport<'_>) {}
    fn event(&mut self, _: &EventReport<'_>) {}

    fn step(&mut self, report: &StepReport<'_>) {
        if report.rows.is_empty() {
            return;
        }
        let emitted = self.emitted.entry(report.sequence).or_default();
        let before = *emitted;
        *emitted += report.emitted.len();
        let rows = report.rows.iter().map(|row| Row {
            logits: row.logits.to_vec(),
            filled: row.filled_mask.cloned(),
            applied: row.applied_mask.cloned(),
        });
        self.steps.entry(report.sequence).or_default().push(Step {
            before,
            drafts: report.drafts.places.clone(),
            rows: rows.collect(),
            emitted: report.emitted.to_vec(),
            odds: report.odds.to_vec(),
            grammar: report.grammar.map(|(_, after)| after),
        });
    }
}
