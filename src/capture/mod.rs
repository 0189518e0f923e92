//! Captures: records, codecs, writer, reader, recovery.
//!
//! [`CaptureWriter`] records; [`CaptureReader`] reads what any recorder wrote, as untrusted input: bounded memory, no
//! panic, and what is missing or damaged is stated. docs/capture-format.md is the normative description of the file.

mod codec;
pub mod columns;
pub mod conditions;
mod error;
mod issue;
pub mod limits;
mod pack;
mod reader;
pub mod records;
mod recover;
pub mod row;
pub mod tap;
mod topic;
mod upgrade;
mod verify;
mod wire;
mod writer;

pub use codec::{DecodeError, EncodeError, Encoding};
pub use error::{CaptureError, Place};
pub use issue::{Issue, IssueKind, Issues};
pub use pack::{PackError, Packed, Redact, pack};
pub use reader::{CaptureReader, ChannelTotals, Crc, Message, RequestRecords, Survey};
pub use recover::{Recovery, recover};
pub use topic::{Record, Topic};
pub use verify::{RowCounts, Verification, verify};
pub use writer::{
    CaptureWriter, ChannelSummary, Overflow, Ring, RingOptions, RowKey, Sink, Snapshot, WriteSummary, WriterOptions,
};

#[cfg(test)]
mod tests;
