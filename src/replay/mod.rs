//! Replay: does each recorded decision follow from its recorded inputs?
//!
//! The code here is the plain form of what the engine does fast: sequential, one request, one row, straight from the
//! definition. It shares vocabulary, the scalar arithmetic and the parameter types with the engine, and calls none of
//! its code.

mod batches;
mod budget;
mod capture_file;
mod checks;
mod constraint;
mod context;
mod draft_model;
mod drafting;
mod ending;
pub(crate) mod execution;
pub mod forward;
pub(crate) mod gaps;
mod grammars;
pub(crate) mod joined;
pub(crate) mod passage;
mod preflight;
pub mod recording;
mod recover;
pub(crate) mod redaction;
pub mod rejection;
mod remarks;
pub mod render;
mod report;
mod rules;
mod run;
pub mod sampler;
pub(crate) mod tools;
mod verdict;

pub use capture_file::CaptureRecording;
pub use preflight::{Guarantee, Level, Preflight, PreflightError, WrongModel, recorded_kv_type};
pub use remarks::{REMARKS_KEPT, Remark};
pub use report::{FINDINGS_KEPT, Finding, Place, Report, Tally};
pub use rules::{Rules, RulesError};
pub use run::{Job, ReplayError, replay};
pub use tools::Format as CallFormat;
pub use verdict::{CheckName, Mismatch, Skip, UnknownCheck, Verdict};
