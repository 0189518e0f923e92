//! Packing: a capture as one file to give away, in today's format, with prompts and outputs taken out if that is asked for.
//!
//! A capture holds everything that replay needs but the model, which its header names by hashes; packing keeps that so, and
//! keeps nothing else: attachments and channels that the format does not know are left behind.

mod header;
mod redactor;
mod salt;
mod upgraded;

use std::path::Path;

use self::redactor::Redactor;
use super::error::CaptureError;
use super::reader::CaptureReader;
use super::records::{FORMAT_VERSION, LossRecord, Redaction};
use super::recover::ForeignColumns;
use super::topic::{Record, Topic};
use super::verify::{Verification, verify};
use super::writer::{CopyWriter, WriteSummary, WriterOptions};

/// What is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redact {
    /// What clients sent: bodies, prompts, schemas, ids; and what tells of it: masks, drafts that were not accepted.
    Prompts,
    /// What came back: texts, calls, tokens; and what tells of it: masks.
    Outputs,
    /// Both.
    All,
}

impl Redact {
    pub(super) fn prompts(self) -> bool {
        self != Self::Outputs
    }

    pub(super) fn outputs(self) -> bool {
        self != Self::Prompts
    }
}

/// What was written.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The new capture.
    pub written: WriteSummary,
    /// Format version of the old one.
    pub from_version: u32,
    /// What the new one's header says was left out or hashed.
    pub redactions: Vec<Redaction>,
    /// What verification says of the new one.
    pub verification: Verification,
}

/// Why a capture cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// What is damaged could hide what is to be taken out.
    #[error("{path}: {what}; `stepscope recover` first, and pack what it saves")]
    NotWhole {
        /// The capture.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// There is no randomness for the salt.
    #[error("the system gives no random bytes for the salt of hashes: {0}")]
    NoSalt(String),
}

/// Writes the capture that `reader` reads to `out`, which must not exist, in the newest format.
///
/// With `redact` what stands for text is left out, or replaced by hashes with a salt that is forgotten afterwards, as
/// docs/capture-format.md has it, section 10. Holds the length of each prompt.
///
/// # Errors
/// When the old file is not whole, or the new one cannot be written.
pub fn pack(reader: &CaptureReader, out: &Path, redact: Option<Redact>) -> Result<Packed, PackError> {
    // Whoever opened the reader may have skipped chunks for what their indexes say.
    let reader = CaptureReader::open_whole(reader.path())?;
    if !reader.is_finished() {
        return Err(not_whole(&reader, "the recording was not finished".to_owned()));
    }
    let from_version = reader.header().format_version;
    let mut header = reader.header().clone();
    header.format_version = FORMAT_VERSION;
    let redactor = redact.map(|what| Redactor::new(what, &reader, &mut header)).transpose()?;
    let redactions = header.redactions.clone();
    let writer = CopyWriter::create(out, header, &WriterOptions::default())?;
    let written = copy(&reader, writer, redactor.as_ref()).inspect_err(|_| remove_partial(out))?;
    let verification = verify(&CaptureReader::open(&written.path)?)?;
    Ok(Packed { written, from_version, redactions, verification })
}

/// Copies every record but those that the writer makes by itself.
fn copy(
    reader: &CaptureReader,
    mut writer: CopyWriter,
    redactor: Option<&Redactor>,
) -> Result<WriteSummary, PackError> {
    let (epoch_ns, from_version) = (reader.header().epoch_ns, reader.header().format_version);
    let (mut foreign, mut latest) = (ForeignColumns::default(), epoch_ns);
    let told = |record: Record| match redactor {
        Some(redactor) => redactor.redacted(record),
        None => Some(record),
    };
    for message in reader.messages() {
        let message = message.map_err(|error| match error {
            CaptureError::Io { .. } => PackError::Capture(error),
            other => not_whole(reader, other.to_string()),
        })?;
        latest = latest.max(message.log_time);
        match message.record {
            Record::Header(_) => {}
            Record::Columns(columns) => foreign.add(&columns),
            record => {
                if let Some(record) = told(upgraded::upgraded(record, from_version, reader)) {
                    writer.write(record, message.log_time)?;
                }
            }
        }
    }
    if let Some(reason) = foreign.reason() {
        let time_ns = latest.saturating_sub(epoch_ns);
        let (channel, reason) = (Topic::Columns.name().to_owned(), format!("pack: {reason}"));
        let loss = LossRecord { time_ns, channel, messages: None, bytes: None, steps: None, reason };
        if let Some(loss) = told(Record::Loss(loss)) {
            writer.write(loss, latest)?;
        }
    }
    Ok(writer.finish()?)
}

fn not_whole(reader: &CaptureReader, what: String) -> PackError {
    PackError::NotWhole { path: reader.path().display().to_string(), what }
}

/// What was begun is no capture, and would be in the way of another try.
fn remove_partial(out: &Path) {
    let mut name = std::ffi::OsString::from(out);
    name.push(".partial");
    if let Err(error) = std::fs::remove_file(&name) {
        tracing::warn!("{} is left: {error}", Path::new(&name).display());
    }
}
