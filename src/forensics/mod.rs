//! From symptoms to causes: what can be read off the records of a step, and off those of a whole answer.

pub mod bisect;
pub mod correlate;
pub mod diff;
pub mod localize;
pub mod outcome;
pub mod provenance;
pub mod repetition;
pub mod report;
pub mod signs;
pub mod what_if;
