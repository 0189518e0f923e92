//! Whether a file keeps the format's promises: CRCs, structure, every record decodable, and records that agree.
//!
//! What a recorded decision was *right* is replay's question; this one is whether the recording is whole.

mod losses;
mod payloads;
mod requests;
mod steps;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use self::losses::Losses;
use self::payloads::PayloadCounts;
use self::requests::check_requests;
use self::steps::check_steps;
use super::error::CaptureError;
use super::issue::{Issue, IssueKind};
use super::reader::{CaptureReader, ChannelTotals, Message};
use super::records::MaskRecord;
use super::topic::{Record, Topic};

/// What verification found.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// What is wrong, in words.
    pub findings: Vec<String>,
    /// What is missing and accounted for, in words.
    pub missing: Vec<String>,
    /// What is on each channel.
    pub channels: BTreeMap<Topic, ChannelTotals>,
    /// Chunks, and how many of them carry a CRC.
    pub chunks: (usize, usize),
    /// Whole sections whose CRC was compared.
    pub sections: Vec<&'static str>,
    /// What is known of the logits rows.
    pub rows: RowCounts,
}

/// How much is known of the logits rows that step records list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows.
    pub rows: u64,
    /// Rows with a checksum.
    pub checksums: u64,
    /// Rows with a payload.
    pub payloads: u64,
    /// Whole rows whose checksum was computed again and compared.
    pub compared: u64,
}

/// Checks everything that can be checked without a model.
///
/// # Errors
/// When the file cannot be read (damage is a finding, not an error).
pub fn verify(reader: &CaptureReader) -> Result<Verification, CaptureError> {
    let mut check = Check::new(reader)?;
    for message in reader.messages() {
        match message {
            Ok(message) => check.message(&message)?,
            Err(error @ CaptureError::Io { .. }) => return Err(error),
            Err(error) => check.unreadable(&error),
        }
    }
    check.channels()?;
    check.section_crcs()?;
    check_steps(&mut check)?;
    check_requests(&mut check)?;
    Ok(check.found)
}

/// A verification in progress.
struct Check<'a> {
    reader: &'a CaptureReader,
    found: Verification,
    losses: Losses,
    payloads: PayloadCounts,
    /// Allowed tokens of each mask.
    masks: HashMap<[u8; 32], u32>,
    /// Chunks that opening found damaged already.
    damaged: Vec<Range<u64>>,
}

impl<'a> Check<'a> {
    fn new(reader: &'a CaptureReader) -> Result<Self, CaptureError> {
        let mut check = Self {
            reader,
            found: Verification { chunks: reader.chunks(), ..Verification::default() },
            losses: Losses::read(reader)?,
            payloads: PayloadCounts::default(),
            masks: HashMap::new(),
            damaged: Vec::new(),
        };
        for issue in reader.issues().iter() {
            check.issue(issue);
        }
        let unsaid = reader.issues().total().saturating_sub(reader.issues().iter().count() as u64);
        if unsaid > 0 {
            check.finding(format!("{unsaid} more issues, not told one by one"));
        }
        for loss in check.losses.in_words() {
            check.found.missing.push(loss);
        }
        Ok(check)
    }

    fn finding(&mut self, finding: impl Into<String>) {
        self.found.findings.push(finding.into());
    }

    /// A finding, unless a loss record accounts for it.
    fn finding_unless_lost(&mut self, topic: Topic, step: Option<u64>, finding: impl Into<String>) {
        if !self.losses.cover(topic, step) && self.reader.is_finished() {
            self.finding(finding);
        }
    }

    fn issue(&mut self, issue: &Issue) {
        if issue.kind == IssueKind::Damaged {
            self.damaged.extend(issue.bytes.clone());
        }
        let words = issue.to_string();
        if issue.kind.is_missing_data() { self.found.missing.push(words) } else { self.finding(words) }
    }

    fn message(&mut self, message: &Message) -> Result<(), CaptureError> {
        match &message.record {
            Record::Logits(payload) => self.logits(payload, message),
            Record::Sketch(sketch) => {
                self.payload_time(Topic::Sketch, (sketch.step, sketch.request, sketch.choice), message)
            }
            Record::Mask(mask) => {
                self.mask(mask, message);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn mask(&mut self, mask: &MaskRecord, message: &Message) {
        let place = message.place;
        if *blake3::hash(&mask.bits).as_bytes() != mask.hash {
            self.finding(format!("`mask` message {place}: its bits have another hash than it says"));
        }
        let expected = (mask.tokens as usize).div_ceil(8);
        let spare = mask.bits.len() * 8 - (mask.tokens as usize).min(mask.bits.len() * 8);
        let has_spare_bits = mask.bits.last().is_some_and(|last| spare < 8 && last.leading_zeros() < spare as u32);
        if mask.bits.len() != expected || has_spare_bits {
            let (tokens, length) = (mask.tokens, mask.bits.len());
            self.finding(format!(
                "`mask` message {place}: {tokens} tokens take {expected} bytes with the spare bits 0, found {length} bytes"
            ));
        }
        self.masks.insert(mask.hash, mask.bits.iter().map(|byte| byte.count_ones()).sum());
    }

    /// A chunk or message that the pass could not read; opening has told of some already.
    fn unreadable(&mut self, error: &CaptureError) {
        let words = match error {
            CaptureError::Damaged { offset, what, .. } => {
                if self.damaged.iter().any(|bytes| bytes.contains(offset)) {
                    return;
                }
                format!("damaged: chunk at byte {offset}: {what}")
            }
            CaptureError::Message { topic, place, source, .. } => {
                format!("invalid: `{topic}` message {place}: {source}")
            }
            other => other.to_string(),
        };
        if !self.found.findings.contains(&words) {
            self.finding(words);
        }
    }

    fn channels(&mut self) -> Result<(), CaptureError> {
        self.found.channels = self.reader.totals()?;
        for (topic, totals) in self.found.channels.clone() {
            if topic.is_payload() && totals.missing > 0 {
                self.found.missing.push(format!("missing: {} `{topic}` messages are not here", totals.missing));
            }
        }
        Ok(())
    }

    fn section_crcs(&mut self) -> Result<(), CaptureError> {
        for crc in self.reader.section_crcs()? {
            self.found.sections.push(crc.section);
            if crc.expected != crc.found {
                self.finding(format!(
                    "damaged: {} section CRC mismatch: expected {:08x}, found {:08x}",
                    crc.section, crc.expected, crc.found
                ));
            }
        }
        Ok(())
    }
}
