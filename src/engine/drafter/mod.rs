//! Drafters: what proposes the tokens that a step verifies.
//!
//! A drafter decides how fast tokens come and, but for [`VerifyRule::Rejection`](super::sampler::VerifyRule), nothing
//! else. All of them propose from the tokens so far and what keys the request's draws, so that a proposal depends on
//! neither batch nor scheduling.

mod grammar;
mod model;
mod ngram;
mod random;
mod scripted;

pub use grammar::GrammarDrafter;
pub use model::{DraftModelError, ModelDrafter};
pub use ngram::NgramDrafter;
pub use random::RandomDrafter;
pub use scripted::{Script, ScriptedDrafter};

use crate::backend::BackendError;
use crate::engine::sampler::Draft;
use crate::params::SamplingParams;
use crate::types::{SequenceId, TokenId};

/// Proposes tokens.
pub trait Drafter: Send {
    /// Proposes for each of the sequences, in order, what may come after its tokens: one proposal each, which may be empty.
    ///
    /// # Errors
    /// If a draft model's backend fails.
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError>;

    /// How many of the tokens that a sequence's grammar forces it wants to be told.
    fn forced_tokens(&self) -> usize {
        0
    }

    /// A sequence has ended: what the drafter keeps of it can go.
    fn forget(&mut self, _sequence: SequenceId) {}
}

/// A sequence that is to be drafted for.
#[derive(Clone, Copy, Debug)]
pub struct DraftContext<'a> {
    /// Which one.
    pub sequence: SequenceId,
    /// The client's id for its request.
    pub client_id: Option<&'a str>,
    /// The prompt, then what was emitted; all of it is committed.
    pub tokens: &'a [TokenId],
    /// How many of them are the prompt.
    pub prompt: usize,
    /// The parameters that it is sampled with.
    pub params: &'a SamplingParams,
    /// Whether drafts are tested against their probabilities, so that a drafter that has some must draw from them.
    pub tests_probabilities: bool,
    /// Positions it can come to use.
    pub positions: usize,
    /// The tokens that its grammar forces next, as many as [`Drafter::forced_tokens`] asks for.
    pub forced: &'a [TokenId],
}

/// Proposes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDrafter;

impl Drafter for NoDrafter {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        Ok(vec![Vec::new(); sequences.len()])
    }
}
