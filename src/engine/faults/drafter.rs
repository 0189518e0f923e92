//! Faults between the drafter and the scheduler.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::{Fault, Switch};
use crate::backend::BackendError;
use crate::engine::drafter::{DraftContext, Drafter};
use crate::engine::sampler::Draft;
use crate::types::SequenceId;

/// A drafter whose proposals arrive late, or at another sequence.
pub struct FaultyDrafter {
    fault: Fault,
    inner: Box<dyn Drafter>,
    switch: Switch,
    /// What was proposed the last time.
    last: HashMap<SequenceId, Vec<Draft>>,
}

impl FaultyDrafter {
    pub fn new(fault: Fault, inner: Box<dyn Drafter>, switch: Switch) -> Self {
        Self { fault, inner, switch, last: HashMap::new() }
    }
}

impl Drafter for FaultyDrafter {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        let mut proposals = self.inner.propose(sequences)?;
        if !self.switch.load(Ordering::Relaxed) {
            return Ok(proposals);
        }
        if self.fault == Fault::DRAFTS_FROM_NEIGHBOUR {
            let places = 1.min(proposals.len());
            proposals.rotate_right(places);
            return Ok(proposals);
        }
        for (context, proposal) in sequences.iter().zip(&mut proposals) {
            let late = self.last.insert(context.sequence, proposal.clone());
            *proposal = late.unwrap_or_default();
        }
        Ok(proposals)
    }

    fn forced_tokens(&self) -> usize {
        self.inner.forced_tokens()
    }

    fn forget(&mut self, sequence: SequenceId) {
        self.last.remove(&sequence);
        self.inner.forget(sequence);
    }
}
