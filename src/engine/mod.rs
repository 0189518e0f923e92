//! The engine: requests in, tokens out, every decision reported to a tap.
//!
//! Begin with [`step`](Engine::step), the loop's one iteration: `schedule -> forward -> mask -> sample -> commit`. The
//! rest of this module is what it stands on: the scheduler, the state that running sequences hold, how they begin and
//! end, and the [`Tap`] that every box reports to.

mod change;
pub mod constraint;
pub mod drafter;
mod error;
pub mod faults;
mod lifecycle;
pub mod logprobs;
mod request;
pub mod sampler;
mod scheduler;
mod sequence;
pub mod speculation;
mod state;
mod step;
pub mod stop;
mod tap;
pub mod validity;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use error::EngineError;
pub use request::{Layers, Owner, Prompt, Received, RefusalReason, Submission, Tooling};
pub use sequence::FinishedChoice;
pub use tap::{
    AdmittedReport, EventKind, EventReport, FinishedReport, NoTap, RefusedReport, RowReport, StepReport, StepTimings,
    Tap,
};

use crate::arith::Kernels;
use crate::backend::{Backend, StepOutput};
use crate::model::Tokenizer;
use crate::params::Warning;
use crate::types::{ChoiceIndex, RequestId, SequenceId, StepId, TokenId};
use drafter::{Drafter, NoDrafter};
use faults::{Fault, Faults};
use sampler::Sampler;
use scheduler::{Limits, Scheduler};
use speculation::Speculation;
use state::{State, pages_for};

/// How an engine runs. Nothing in it changes a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Sequences that run at a time, at least 1.
    pub max_batch: usize,
    /// Prompt tokens per step, at least 1.
    pub prefill_chunk: usize,
    /// Whether computed prefixes are kept for later sequences.
    pub prefix_cache: bool,
    /// Tokens of the longest sequence.
    pub context_length: usize,
}

/// A clock that never goes back, and what its zero is in calendar time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    epoch_ns: u64,
}

/// Runs requests, step by step, and reports to `T`.
pub struct Engine<T> {
    config: EngineConfig,
    clock: Clock,
    backend: Box<dyn Backend>,
    tokenizer: Arc<Tokenizer>,
    tap: T,
    state: State,
    scheduler: Scheduler,
    sampler: Sampler,
    drafter: Box<dyn Drafter>,
    speculation: Speculation,
    faults: Faults,
    /// What the next judged row of a sequence gives, whatever it says.
    forced: HashMap<SequenceId, TokenId>,
    requests: BTreeMap<RequestId, RunningRequest>,
    next_request: RequestId,
    next_step: StepId,
    /// Reused from step to step.
    output: StepOutput,
}

/// A request of which not every choice has ended.
struct RunningRequest {
    submission: Arc<Submission>,
    owner: Owner,
    /// Choices that wait for the first one to compute the prompt, so that they can share it.
    held_back: std::ops::Range<u32>,
    /// Choices that have not ended, held back or not.
    unfinished: u32,
}

impl<T: Tap> Engine<T> {
    /// An idle engine.
    ///
    /// # Errors
    /// If the configuration asks for nothing to be done at all, or for more than the backend has.
    pub fn new(
        backend: Box<dyn Backend>,
        tokenizer: Arc<Tokenizer>,
        config: EngineConfig,
        clock: Clock,
        tap: T,
    ) -> Result<Self, EngineError> {
        let capacity = backend.capacity();
        config.check(&capacity)?;
        let kernels = backend.device().isa.and_then(|isa| Kernels::new(isa).ok()).unwrap_or_else(Kernels::detect);
        let limits = Limits { max_batch: config.max_batch, prefill_chunk: config.prefill_chunk };
        Ok(Self {
            state: State::new(&capacity, config.prefix_cache),
            scheduler: Scheduler::new(limits),
            config,
            clock,
            backend,
            tokenizer,
            tap,
            sampler: Sampler::new(kernels),
            drafter: Box::new(NoDrafter),
            speculation: Speculation::default(),
            faults: Faults::default(),
            forced: HashMap::new(),
            requests: BTreeMap::new(),
            next_request: RequestId(0),
            next_step: StepId(0),
            output: StepOutput::default(),
        })
    }

    /// Lets sequences speculate with what `drafter` proposes.
    ///
    /// # Errors
    /// If the backend has no room for as many drafts.
    pub fn speculate(mut self, drafter: Box<dyn Drafter>, speculation: Speculation) -> Result<Self, EngineError> {
        self.change_speculation(drafter, speculation)?;
        Ok(self)
    }

    /// Plants a fault: the engine does something wrong from here on.
    pub fn inject(mut self, fault: Fault) -> Self {
        self.faults.end();
        self.faults = Faults::new(fault);
        self.backend = faults::backend(fault, self.backend, self.faults.switch());
        self.drafter = faults::drafter(fault, self.drafter, self.faults.switch());
        self
    }

    /// Takes a request in, or refuses it; either way it gets a number and is reported.
    pub fn submit(&mut self, submission: Submission) -> (RequestId, Result<(), RefusalReason>) {
        if let Err(reason) = self.check(&submission) {
            return (self.refuse(&submission.received, &reason), Err(reason));
        }
        let request = self.number_request();
        let owner = match &submission.session {
            Some(session) => Owner::Session(session.as_str().into()),
            None => Owner::Request(request),
        };
        let time_ns = self.clock.now_ns();
        self.tap.admitted(&AdmittedReport { request, time_ns, owner: &owner, submission: &submission });
        let is_odd = |warning: &&Warning| matches!(warning, Warning::GreedyAgainstRecommendation { .. });
        if let Some(warning) = submission.resolved.warnings.iter().find(is_odd) {
            let sequence = SequenceId { request, choice: ChoiceIndex(0) };
            let (kind, message) = (EventKind::GreedyAgainstRecommendation, warning.to_string());
            self.tap.event(&EventReport { kind, time_ns, sequence, step: None, message: &message });
        }
        let choices = submission.sampling.choices;
        let running =
            RunningRequest { submission: Arc::new(submission), owner, held_back: 1..choices, unfinished: choices };
        self.scheduler.enqueue(running.choice(request, 0));
        self.requests.insert(request, running);
        (request, Ok(()))
    }

    /// Numbers and reports a request that was refused before it became a [`Submission`].
    pub fn refuse(&mut self, received: &Received, reason: &RefusalReason) -> RequestId {
        let request = self.number_request();
        let time_ns = self.clock.now_ns();
        self.tap.refused(&RefusedReport { request, time_ns, received, reason });
        request
    }

    /// Whether every request that was submitted has ended.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Sequences that run, and those that wait for a place.
    pub fn load(&self) -> (usize, usize) {
        let held_back: usize = self.requests.values().map(|request| request.held_back.len()).sum();
        (self.scheduler.running().len(), self.scheduler.waiting() + held_back)
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.next_step.0
    }

    /// The tap.
    pub fn tap(&self) -> &T {
        &self.tap
    }

    /// The tap, to be changed.
    pub fn tap_mut(&mut self) -> &mut T {
        &mut self.tap
    }

    /// Ends the engine, and gives its tap back.
    pub fn into_tap(self) -> T {
        self.tap
    }

    fn check(&self, submission: &Submission) -> Result<(), RefusalReason> {
        let tokens = &submission.prompt.tokens;
        let context = self.config.context_length;
        let vocabulary = self.backend.capacity().vocabulary_size;
        submission.check_prompt(context)?;
        if let Some(position) = tokens.iter().position(|token| token.index() >= vocabulary) {
            return Err(RefusalReason::UnknownToken { position, token: tokens[position], vocabulary });
        }
        let needed = pages_for(submission.positions(context));
        let pages = self.state.page_count();
        if needed > pages {
            return Err(RefusalReason::TooManyPages { needed, pages });
        }
        Ok(())
    }

    fn number_request(&mut self) -> RequestId {
        let number = self.next_request;
        self.next_request.0 += 1;
        number
    }
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), epoch_ns: since_epoch.as_nanos() as u64 }
    }

    /// Nanoseconds since the clock began.
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Nanoseconds from the Unix epoch to the clock's beginning.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }
}
