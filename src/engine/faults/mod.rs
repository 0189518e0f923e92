//! Planted faults: the one place where the engine does something wrong on purpose.
//!
//! A fault is named, is switched on by `record --inject` and by `what-if`, which repeats such a run, and is written into the capture's header. Without one
//! every function here gives back what it was given. No request can switch a fault on.

mod backend;
mod catalogue;
mod drafter;
mod grammar;
mod params;
mod sampler;
mod tools;

pub use self::catalogue::{Area, Condition, Fault, UnknownFault};
use self::grammar::Astray;
pub(super) use self::sampler::Surroundings;
use crate::backend::Backend;
use crate::engine::drafter::Drafter;
use crate::engine::scheduler::Plan;
use crate::grammar::{GrammarError, MaskRow};
use crate::tools::{Parsed, ToolUse};
use crate::types::{FinishReason, SequenceId, TokenId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mask rows of one share, or why there are none.
pub(super) type Filled = Result<Vec<Option<MaskRow>>, GrammarError>;

/// The fault that is switched on, if one is, and what it keeps between steps.
#[derive(Debug, Default)]
pub(super) struct Faults {
    active: Option<Fault>,
    /// What a fault of the grammar has led each sequence to.
    astray: HashMap<SequenceId, Astray>,
    /// Whether it is still planted, for the parts that stand where the backend and the drafter do.
    switch: Switch,
}

/// Whether a fault is planted, told wherever it is.
pub(super) type Switch = Arc<AtomicBool>;

impl Faults {
    pub fn new(fault: Fault) -> Self {
        Self { active: Some(fault), astray: HashMap::new(), switch: Arc::new(AtomicBool::new(true)) }
    }

    /// The fault that is planted, if one is.
    pub fn active(&self) -> Option<Fault> {
        self.active
    }

    /// What its parts elsewhere are told by.
    pub fn switch(&self) -> Switch {
        self.switch.clone()
    }

    /// Ends the fault: from here on nothing goes wrong. What has gone wrong stays.
    pub fn end(&mut self) {
        self.switch.store(false, Ordering::Relaxed);
        self.active = None;
        self.astray.clear();
    }

    fn is(&self, fault: Fault) -> bool {
        self.active == Some(fault)
    }

    /// How many of `proposed` drafts the scheduler takes for legal, of which the grammar accepts `legal`.
    pub fn legal(&self, legal: usize, proposed: usize) -> usize {
        if self.is(Fault::DRAFTS_UNTRIMMED) { proposed } else { legal }
    }

    /// What keeps a share with so many places, of `most`, from being judged at all.
    pub fn refuses(&self, places: usize, most: usize) -> Option<String> {
        let is_ragged = places != 0 && places != most;
        (self.is(Fault::RAGGED_QUERY_FAILS) && is_ragged)
            .then(|| format!("a query verifies {places} drafts, and the kernel was compiled for {most}"))
    }

    /// What the sampler is told that the grammar allows, share by share and row by row.
    pub fn applied<'a>(&self, plan: &Plan, filled: &'a [Filled]) -> Vec<Vec<Option<&'a MaskRow>>> {
        let rows = |filled: &'a Filled| filled.iter().flatten().map(Option::as_ref).collect();
        let applied: Vec<Vec<Option<&MaskRow>>> = filled.iter().map(rows).collect();
        match self.active {
            Some(fault) => grammar::misapplied(fault, plan, applied),
            None => applied,
        }
    }

    /// What comes of a judged row that ends the sequence, if it does; `more` rows may follow, as its draft was accepted.
    pub fn stop(&self, stop: Option<FinishReason>, more: bool) -> Option<FinishReason> {
        let by_content = |stop: &FinishReason| {
            matches!(stop, FinishReason::EndToken(_) | FinishReason::StopToken(_) | FinishReason::StopString(_))
        };
        stop.filter(|stop| !(self.is(Fault::END_MISSED) && more && by_content(stop)))
    }

    /// Whether rows are judged after the sequence has ended.
    pub fn goes_on_after_the_end(&self) -> bool {
        self.is(Fault::COMMIT_PAST_END)
    }

    /// Whether rows are judged after a draft was rejected.
    pub fn goes_on_after_rejection(&self) -> bool {
        self.is(Fault::GOES_ON_AFTER_REJECTION)
    }

    /// The token that an invalid row gives.
    pub fn token_of_invalid_row(&self) -> Option<TokenId> {
        self.is(Fault::INVALID_ROW_TO_ZERO).then_some(TokenId(0))
    }

    /// What an answer calls, as it is told.
    pub fn called(&self, calls: Option<Parsed>) -> Option<Parsed> {
        match self.active {
            Some(fault) => calls.map(|calls| tools::misread(fault, calls)),
            None => calls,
        }
    }

    /// A sequence has ended.
    pub fn forget(&mut self, sequence: SequenceId) {
        self.astray.remove(&sequence);
    }
}

/// A backend with the fault, where it is one of a backend.
pub(super) fn backend(fault: Fault, inner: Box<dyn Backend>, switch: Switch) -> Box<dyn Backend> {
    Box::new(backend::FaultyBackend::new(fault, inner, switch))
}

/// A drafter with the fault, where it is one of a drafter.
pub(super) fn drafter(fault: Fault, inner: Box<dyn Drafter>, switch: Switch) -> Box<dyn Drafter> {
    match fault {
        Fault::DRAFTS_STALE | Fault::DRAFTS_FROM_NEIGHBOUR => {
            Box::new(drafter::FaultyDrafter::new(fault, inner, switch))
        }
        _ => inner,
    }
}

impl Fault {
    /// Resolves a request's parameters wrongly, where it is a fault of that.
    pub fn resolve(self, resolved: &mut crate::params::ResolvedParams) {
        params::resolve(self, resolved);
    }

    /// The tools that a prompt tells of.
    pub fn told(self, tools: Option<&ToolUse>) -> Option<&ToolUse> {
        tools.filter(|_| self != Self::TOOLS_NOT_TOLD)
    }

    /// The tools that an output is constrained to.
    pub fn asked(self, tools: &ToolUse) -> ToolUse {
        ToolUse { parallel: tools.parallel || self == Self::PARALLEL_CALLS_IGNORED, ..tools.clone() }
    }
}
