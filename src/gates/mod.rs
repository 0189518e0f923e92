//! Gates: is this build right, on this device?
//!
//! A gate drives the engine as it decodes, and compares what it decides with the plain forms of [`crate::replay`], with the
//! grammar's own masks, or with chance. With teeth, each gate is run again with faults planted, and must fail. Everything has
//! fixed seeds, so that a gate says the same each time.

mod arithmetic;
mod composition;
mod driver;
mod filters;
mod fixture;
mod judgement;
mod reference;
mod rollback;
mod scripted;
mod validity;

pub use composition::{ACCEPTANCE, Bounds, Composed, DRAWS, QUANTILE, SETS};
pub use judgement::{Gate, Line, Report, Verdict};

use crate::backend::BackendError;
use crate::engine::{EngineError, RefusalReason};
use crate::grammar::GrammarError;
use crate::model::ModelError;

/// Why gates could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The models of the gates cannot be written down.
    #[error("cannot write the gates' models to a temporary folder: {0}; is there room, and is TMPDIR a folder?")]
    Folder(#[from] std::io::Error),
    /// They cannot be read back.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A backend cannot start.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The engine as a whole failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A gate's grammar cannot be compiled.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// A gate's own request is refused.
    #[error("request {request} of the gate is refused: {reason}")]
    Refused {
        /// Its index.
        request: usize,
        /// Why.
        reason: RefusalReason,
    },
    /// The engine goes on where every request must have ended.
    #[error("the engine has not ended after {steps} steps; expected one token or more from each")]
    Endless {
        /// Steps taken.
        steps: usize,
    },
    /// The engine is idle, and a request has no end.
    #[error("request {request} of the gate has no end, and the engine has nothing left to do")]
    Lost {
        /// Its index.
        request: usize,
    },
    /// A part of the plain form cannot be set up, or the golden vectors cannot be read.
    #[error("{what}: {why}")]
    Reference {
        /// The part.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// Runs every gate, and with `teeth` every gate's planted faults as well.
///
/// # Errors
/// If a gate cannot be run at all.
pub fn run(teeth: bool) -> Result<Report, GateError> {
    let fixture = fixture::Fixture::new()?;
    let mut lines = composition::run(&fixture, teeth)?;
    lines.extend(filters::run(&fixture, teeth)?);
    lines.extend(validity::run(&fixture, teeth)?);
    lines.extend(rollback::run(&fixture, teeth)?);
    lines.extend(arithmetic::run(&fixture, teeth)?);
    Ok(Report { lines })
}
