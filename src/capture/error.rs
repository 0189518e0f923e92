//! What can go wrong with a capture file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::codec::{DecodeError, EncodeError};
use super::records::FORMAT_VERSION;
use super::topic::Topic;

/// Why a capture could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The file does not begin as an MCAP file does.
    #[error("{}: byte 0: expected an MCAP file, found other bytes; is this a capture?", path.display())]
    NotMcap {
        /// The file.
        path: PathBuf,
    },
    /// The MCAP file was made by something else.
    #[error("{}: an MCAP file of profile {profile:?}, not \"stepscope\": not a capture", path.display())]
    OtherProfile {
        /// The file.
        path: PathBuf,
        /// What the file says it is.
        profile: String,
    },
    /// No copy of the header can be read.
    #[error("{}: no intact message on the `header` channel: {why}", path.display())]
    NoHeader {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// Made by a later Stepscope.
    #[error(
        "{}: capture format {found}, but this Stepscope reads formats up to {FORMAT_VERSION}; use a newer Stepscope",
        path.display()
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
    },
    /// A chunk cannot be read.
    #[error("{}: byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the chunk begins in the file.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A chunk holds other messages than its header or its indexes say, so that one which was not read may hold records.
    #[error("{}: byte {offset}: {what}; `stepscope recover` reads the chunk itself", path.display())]
    WrongIndex {
        /// The file.
        path: PathBuf,
        /// Where the chunk begins in the file.
        offset: u64,
        /// What is wrong with its header or its indexes.
        what: String,
    },
    /// A message cannot be decoded.
    #[error("{}: `{topic}` message {place}: {source}", path.display())]
    Message {
        /// The file.
        path: PathBuf,
        /// The message's channel.
        topic: Topic,
        /// Where the message is.
        place: Place,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A record cannot be written.
    #[error("`{topic}` record: {source}")]
    Encode {
        /// The record's channel.
        topic: Topic,
        /// What is wrong with it.
        source: EncodeError,
    },
    /// The name is taken; captures are never overwritten.
    #[error("{}: exists already and is not overwritten; remove it or choose another name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A payload was handed over for a step whose record was not.
    #[error("`{topic}` record for step {step}, request {request}.{choice}: its step record must be written first")]
    PayloadBeforeStep {
        /// The payload's channel.
        topic: Topic,
        /// The step.
        step: u64,
        /// The request.
        request: u64,
        /// The choice.
        choice: u32,
    },
    /// The writer's thread ended without a result: a defect of Stepscope.
    #[error("the writer's thread died; the partial file may be cut; please report this as a defect")]
    WriterDied,
    /// An earlier write failed, and nothing can be written since.
    #[error("recording stopped: {0}")]
    Stopped(Arc<CaptureError>),
}

/// Where a message stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Outside chunks.
    Bare {
        /// Offset in the file.
        offset: u64,
    },
    /// Inside a chunk.
    Chunk {
        /// Offset of the chunk in the file.
        chunk: u64,
        /// Offset in the chunk's uncompressed records.
        offset: u64,
    },
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bare { offset } => write!(formatter, "at byte {offset}"),
            Self::Chunk { chunk, offset } => {
                write!(formatter, "at byte {offset} of the uncompressed chunk at byte {chunk}")
            }
        }
    }
}
