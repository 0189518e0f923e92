//! The engine against a backend whose rows are known ([`super::fake`]).

mod cache;
mod cancel;
mod invalid_rows;
mod recorded;
mod schedule;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use super::fake::{FakeBackend, Shared, reference_row};
use super::*;
use crate::arith::scalar;
use crate::engine::sampler::{SampleContext, TokenCounts};
use crate::engine::validity::ValidRow;
use crate::model::Model;
use crate::model::synthetic::SyntheticModel;
use crate::params::{Defaults, Endpoint, Request};
use crate::types::{ChoiceIndex, FinishReason, Position, SequenceId, TokenId};

const CONTEXT: usize = 400;

/// What a tap saw, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub steps: Vec<SeenStep>,
    pub finished: Vec<(SequenceId, FinishReason)>,
    pub events: Vec<(EventKind, SequenceId)>,
}

#[derive(Clone, Debug)]
pub(super) struct SeenStep {
    pub step: StepId,
    pub sequence: SequenceId,
    pub batch: Vec<SequenceId>,
    pub prefill: bool,
    pub tokens: usize,
    pub cached_prefix: usize,
    pub prev_accepted: Option<usize>,
    pub column: Option<usize>,
    pub emitted: Vec<TokenId>,
}

impl Tap for Seen {
    fn admitted(&mut self, _: &AdmittedReport<'_>) {}
    fn refused(&mut self, _: &RefusedReport<'_>) {}

    fn step(&mut self, report: &StepReport<'_>) {
        self.steps.push(SeenStep {
            step: report.step,
            sequence: report.sequence,
            batch: report.batch.to_vec(),
            prefill: report.prefill,
            tokens: report.input.len(),
            cached_prefix: report.cached_prefix,
            prev_accepted: report.prev_accepted,
            column: report.state.map(|state| state.column),
            emitted: report.emitted.to_vec(),
        });
    }

    fn finished(&mut self, report: &FinishedReport<'_>) {
        self.finished.push((report.sequence, report.reason.clone()));
    }

    fn event(&mut self, report: &EventReport<'_>) {
        self.events.push((report.kind, report.sequence));
    }
}

/// How an engine under test is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub max_batch: usize,
    pub prefill_chunk: usize,
    pub prefix_cache: bool,
    pub recurrent: bool,
    pub pages: usize,
}

impl Setup {
    pub fn new(recurrent: bool) -> Self {
        Self { max_batch: 3, prefill_chunk: 40, prefix_cache: true, recurrent, pages: 64 }
    }

    pub fn engine(self) -> (Engine<Seen>, Arc<Mutex<Shared>>) {
        let (backend, shared) = FakeBackend::new(self.pages, if self.recurrent { self.max_batch } else { 0 });
        let config = EngineConfig {
            max_batch: self.max_batch,
            prefill_chunk: self.prefill_chunk,
            prefix_cache: self.prefix_cache,
            context_length: CONTEXT,
        };
        let engine = Engine::new(Box::new(backend), tokenizer(), config, Clock::start(), Seen::default());
        (engine.expect("a setup that an engine can run with"), shared)
    }
}

/// A request: tokens, a JSON object of sampling fields, and the session it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub prompt: Vec<TokenId>,
    pub fields: &'static str,
    pub session: Option<&'static str>,
}

/// `length` tokens that begin with `first`; jobs with different first tokens share no prefix.
fn prompt(first: u32, length: usize) -> Vec<TokenId> {
    (0..length as u32).map(|index| TokenId((first + index * (index + 3)) % 64)).collect()
}

pub(super) fn job(first: u32, length: usize, fields: &'static str) -> Job {
    Job { prompt: prompt(first, length), fields, session: None }
}

impl Job {
    fn submission(&self) -> Submission {
        let body = format!(r#"{{"prompt": [0], "ignore_eos": true, {}}}"#, self.fields);
        let request = Request::parse(&body, Some(Endpoint::Completions)).expect("the test's body is valid");
        let defaults = Defaults { vocabulary_size: 64, context_length: CONTEXT as u32, ..Defaults::default() };
        let resolved = request.resolve(&defaults).expect("the test's parameters are valid");
        Submission {
            received: Received::default(),
            session: self.session.map(str::to_owned),
            prompt: Prompt { text: None, add_special_tokens: false, tokens: self.prompt.clone() },
            sampling: resolved.sampling(),
            resolved,
            layers: Layers::default(),
            grammar: None,
            tools: None,
        }
    }

    /// What the job's choices emit, decoded one token at a time without any engine.
    pub fn expected(&self, recurrent: bool) -> Vec<Vec<TokenId>> {
        let sampling = self.submission().sampling;
        let mut sampler = Sampler::default();
        let choice = |choice| {
            let mut tokens = self.prompt.clone();
            let mut counts = TokenCounts::of_prompt(&tokens);
            for emitted in 0..sampling.max_tokens.min((CONTEXT - self.prompt.len()) as u32) {
                let row = reference_row(&tokens, recurrent);
                let statistics = scalar::row_statistics(&row);
                let position = Position(tokens.len() as u32);
                let context = SampleContext {
                    params: &sampling,
                    counts: &counts,
                    emitted,
                    end_tokens: &[],
                    mask: None,
                    position,
                    choice: ChoiceIndex(choice),
                };
                let token = sampler.sample(&ValidRow::check(&row, &statistics).unwrap(), &context).unwrap();
                tokens.push(token);
                counts.push(token);
            }
            tokens.split_off(self.prompt.len())
        };
        (0..sampling.choices).map(choice).collect()
    }
}

/// Runs until idle; every choice that ended.
fn run(engine: &mut Engine<Seen>) -> BTreeMap<SequenceId, FinishedChoice> {
    let mut finished = BTreeMap::new();
    for _ in 0..10_000 {
        if engine.is_idle() {
            return finished;
        }
        finished.extend(
            engine.step().expect("the fake backend does not fail").into_iter().map(|choice| (choice.id, choice)),
        );
    }
    panic!("not idle after 10,000 steps");
}

/// Submits a job that is not refused.
pub(super) fn submit(engine: &mut Engine<Seen>, job: &Job) -> RequestId {
    let (request, accepted) = engine.submit(job.submission());
    accepted.expect("the test's job is accepted");
    request
}

/// The emitted tokens of a request's choices, all of which ended.
fn tokens_of(finished: &BTreeMap<SequenceId, FinishedChoice>, request: RequestId) -> Vec<Vec<TokenId>> {
    finished.values().filter(|choice| choice.id.request == request).map(|choice| choice.tokens.clone()).collect()
}

fn first_choice(request: RequestId) -> SequenceId {
    SequenceId { request, choice: ChoiceIndex(0) }
}

/// A tokenizer with more tokens than the fake backend's rows have.
fn tokenizer() -> Arc<Tokenizer> {
    static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        SyntheticModel::llama(0).write_gguf(&path).unwrap();
        Model::load(&path).unwrap().tokenizer
    });
    TOKENIZER.clone()
}
