//! Replay: does each recorded decision follow from its recorded inputs?
//!
//! The code here is the plain form of what the engine does fast: sequential, one request, one row, straight from the
//! definition. It shares vocabulary, the scalar arithmetic and the parameter types with the engine, and calls none of
//! its code.

mod preflight;
mod report;
mod verdict;

pub use preflight::{Guarantee, Level};
pub use report::{FINDINGS_KEPT, Finding, Place, Report, Tally};
pub use verdict::{CheckName, Mismatch, Skip, UnknownCheck, Verdict};
