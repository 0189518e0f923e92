//! Captures: records, codecs, writer, reader, recovery.
//!
//! [`CaptureWriter`] records; [`CaptureReader`] reads what any recorder wrote, as untrusted input: bounded memory, no
//! panic, and what is missing or damaged is stated. docs/capture-format.md is the normative description of the file.

mod codec;
mod error;
pub mod limits;
pub mod records;
pub mod row;
mod topic;
mod wire;

pub use codec::{DecodeError, EncodeError, Encoding};
pub use error::{CaptureError, Place};
pub use topic::{Record, Topic};
