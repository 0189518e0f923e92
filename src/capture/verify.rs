//! Whether a file keeps the format's promises: CRCs, structure, every record decodable, and records that agree.
//!
//! What a recorded decision was *right* is replay's question; this one is whether the recording is whole. Recovery runs
//! the same checks, and leaves out what they find.

mod columns;
mod losses;
mod payloads;
mod remedies;
mod requests;
mod steps;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use self::columns::{Uncovered, may_lack};
use self::losses::Losses;
use self::payloads::Payloads;
pub(super) use self::remedies::Remedies;
use self::requests::check_requests;
use self::steps::check_steps;
use super::error::CaptureError;
use super::issue::Issue;
use super::limits::{MAX_ISSUES, indexed_messages, shortened};
use super::reader::{CaptureReader, ChannelTotals, Location, Message};
use super::records::MaskRecord;
use super::topic::{Record, Topic};

/// What verification found.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// What is wrong, in words; at most [`MAX_ISSUES`].
    pub findings: Vec<String>,
    /// How much more is wrong.
    pub more_findings: u64,
    /// What is missing and accounted for, in words; at most [`MAX_ISSUES`].
    pub missing: Vec<String>,
    /// How much more is missing.
    pub more_missing: u64,
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
    examine(reader).map(|(found, _)| found)
}

/// What verification finds, and what would have to be left out or accounted for so that it finds nothing.
pub(super) fn examine(reader: &CaptureReader) -> Result<(Verification, Remedies), CaptureError> {
    let mut check = Check::new(reader)?;
    for message in reader.messages() {
        match message {
            Ok(message) => check.message(&message)?,
            Err(error @ CaptureError::Io { .. }) => return Err(error),
            Err(error) => check.unreadable(&error),
        }
    }
    check.end_of_columns();
    check.channels()?;
    check.section_crcs()?;
    check_steps(&mut check)?;
    check.stray_payloads();
    check_requests(&mut check)?;
    Ok((check.found, check.remedies))
}

/// A verification in progress.
struct Check<'a> {
    reader: &'a CaptureReader,
    found: Verification,
    remedies: Remedies,
    losses: Losses,
    payloads: Payloads,
    /// Allowed tokens of each mask; `None` of one that is at fault itself.
    masks: HashMap<[u8; 32], Option<u32>>,
    /// Step records that columns have to repeat.
    uncovered: Uncovered,
    /// Whether step records may be missing before the place that the pass has reached.
    may_lack_steps: bool,
    /// Whether columns may be, for damage that is told of itself.
    may_lack_columns: bool,
    /// Places that opening found damaged already.
    damaged: Vec<Range<u64>>,
    /// What opening said already.
    said: HashSet<String>,
}

impl<'a> Check<'a> {
    fn new(reader: &'a CaptureReader) -> Result<Self, CaptureError> {
        let mut check = Self {
            reader,
            found: Verification { chunks: reader.chunks(), ..Verification::default() },
            remedies: Remedies::default(),
            losses: Losses::read(reader)?,
            payloads: Payloads::new(indexed_messages(reader.file_bytes())),
            masks: HashMap::new(),
            uncovered: Uncovered::of(reader),
            may_lack_steps: may_lack(reader, Topic::Step),
            may_lack_columns: may_lack(reader, Topic::Columns),
            damaged: Vec::new(),
            said: HashSet::new(),
        };
        for issue in reader.issues().iter() {
            check.issue(issue);
        }
        check.found.more_findings += reader.issues().untold();
        for loss in check.losses.in_words() {
            check.missing(loss);
        }
        Ok(check)
    }

    fn finding(&mut self, finding: impl Into<String>) {
        if self.found.findings.len() < MAX_ISSUES {
            self.found.findings.push(shortened(finding.into()));
        } else {
            self.found.more_findings += 1;
        }
    }

    /// A finding that must be told even when there are too many to tell.
    fn foremost_finding(&mut self, finding: String) {
        self.found.findings.insert(0, shortened(finding));
        if self.found.findings.len() > MAX_ISSUES {
            self.found.findings.pop();
            self.found.more_findings += 1;
        }
    }

    /// A finding that would not be there without the record at `location`.
    fn finding_about(&mut self, location: Location, finding: impl Into<String>) {
        self.remedies.leave_out(location);
        self.finding(finding);
    }

    /// A finding, unless a loss record accounts for it.
    fn finding_unless_lost(&mut self, topic: Topic, step: Option<u64>, finding: impl Into<String>) {
        if self.losses.cover(topic, step) {
            return;
        }
        self.remedies.account_for(topic, step);
        if self.reader.is_finished() {
            self.finding(finding);
        }
    }

    fn missing(&mut self, missing: impl Into<String>) {
        if self.found.missing.len() < MAX_ISSUES {
            self.found.missing.push(shortened(missing.into()));
        } else {
            self.found.more_missing += 1;
        }
    }

    fn issue(&mut self, issue: &Issue) {
        if !issue.kind.is_missing_data() {
            self.damaged.extend(issue.bytes.clone());
        }
        let words = issue.to_string();
        if issue.kind.is_missing_data() {
            self.missing(words.strip_prefix("missing: ").unwrap_or(&words));
        } else {
            self.said.insert(words.clone());
            self.finding(words);
        }
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
            Record::Step(step) => {
                self.step_of_columns(step);
                Ok(())
            }
            Record::Columns(record) => {
                self.columns(record, message);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn mask(&mut self, mask: &MaskRecord, message: &Message) {
        let place = message.place;
        if !self.reader.is_first(message) {
            // Opening has told of one that cannot be indexed; of several with one hash the first holds.
            return;
        }
        self.masks.insert(mask.hash, None);
        if *blake3::hash(&mask.bits).as_bytes() != mask.hash {
            let finding = format!("`mask` message {place}: its bits have another hash than it says");
            return self.finding_about(message.location, finding);
        }
        let expected = (mask.tokens as usize).div_ceil(8);
        let spare = mask.bits.len() * 8 - (mask.tokens as usize).min(mask.bits.len() * 8);
        let has_spare_bits = mask.bits.last().is_some_and(|last| spare < 8 && last.leading_zeros() < spare as u32);
        if mask.bits.len() != expected || has_spare_bits {
            let (tokens, length) = (mask.tokens, mask.bits.len());
            let finding = format!(
                "`mask` message {place}: {tokens} tokens take {expected} bytes with the spare bits 0, found {length} bytes"
            );
            return self.finding_about(message.location, finding);
        }
        self.masks.insert(mask.hash, Some(mask.bits.iter().map(|byte| byte.count_ones()).sum()));
    }

    /// A chunk or message that the pass could not read; opening has told of some already.
    fn unreadable(&mut self, error: &CaptureError) {
        let lacks = |topic: Topic| match error {
            CaptureError::Damaged { offset, .. } => self.reader.may_hold_at(*offset, topic),
            CaptureError::Message { topic: unread, .. } => *unread == topic,
            // Its chunk is read all the same.
            CaptureError::WrongIndex { .. } => false,
            _ => true,
        };
        let (steps, columns) = (lacks(Topic::Step), lacks(Topic::Columns));
        self.may_lack_steps |= steps;
        self.may_lack_columns |= columns;
        let words = match error {
            CaptureError::Damaged { offset, what, .. } | CaptureError::WrongIndex { offset, what, .. } => {
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
        if !self.said.contains(&words) {
            self.finding(words);
        }
    }

    fn channels(&mut self) -> Result<(), CaptureError> {
        self.found.channels = self.reader.totals()?;
        for (topic, totals) in self.found.channels.clone() {
            if topic.is_payload() && totals.missing > 0 {
                self.missing(format!("{} `{topic}` messages are not here", totals.missing));
            }
        }
        Ok(())
    }

    fn section_crcs(&mut self) -> Result<(), CaptureError> {
        for crc in self.reader.section_crcs()? {
            self.found.sections.push(crc.section);
            if !crc.is_intact() {
                self.finding(format!("damaged: {crc}"));
            }
        }
        Ok(())
    }
}
