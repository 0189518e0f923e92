//! Why an engine cannot run.

use crate::backend::{BackendError, Capacity};
use crate::engine::EngineConfig;
use crate::types::StepId;

/// A failure of the engine as a whole; what fails one request alone is a [`crate::types::FinishReason`].
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A setting that no engine can run with.
    #[error("{setting} is {found}; expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: usize,
        /// What it can be.
        expected: String,
    },
    /// The backend could not take a step.
    #[error("step {step}: {source}")]
    Backend {
        /// The step.
        step: StepId,
        /// What the backend says.
        source: BackendError,
    },
    /// The drafter's model could not take a step.
    #[error("step {step}: the draft model: {source}")]
    Drafter {
        /// The step.
        step: StepId,
        /// What its backend says.
        source: BackendError,
    },
    /// The backend did not return what was asked for.
    #[error(
        "step {step}: asked for {expected} logits rows of {vocabulary} values and what the head read for each; got \
         {values} values, {statistics} statistics and {inputs} inputs"
    )]
    Output {
        /// The step.
        step: StepId,
        /// Rows that were asked for.
        expected: usize,
        /// Values in a row.
        vocabulary: usize,
        /// Logits that came.
        values: usize,
        /// Row statistics that came.
        statistics: usize,
        /// Head inputs that came.
        inputs: usize,
    },
}

impl EngineConfig {
    /// Whether an engine can run like this on a backend of that capacity.
    ///
    /// # Errors
    /// If a setting asks for nothing to be done at all, or for more than the backend has.
    pub fn check(&self, capacity: &Capacity) -> Result<(), EngineError> {
        let at_least = |setting, found: usize, least: usize| match found < least {
            true => Err(EngineError::Setting { setting, found, expected: format!("{least} or more") }),
            false => Ok(()),
        };
        at_least("max-batch", self.max_batch, 1)?;
        at_least("prefill-chunk", self.prefill_chunk, 1)?;
        at_least("context-length", self.context_length, 2)?;
        at_least("kv-pages", capacity.pages, 1)?;
        if capacity.state_slots > 0 {
            at_least("state slots of the backend", capacity.state_slots, self.max_batch)?;
            if self.prefix_cache {
                at_least("snapshots of the backend", capacity.snapshots, capacity.pages)?;
            }
        }
        Ok(())
    }
}
