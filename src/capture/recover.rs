//! Recovery: what is intact in a damaged or unfinished capture, as a fresh whole one that says what is gone.
//!
//! Whatever verification would find is left out, or accounted for where something is missing; the new file is verified
//! when it is written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::codec::Encoding;
use super::columns::{self, BatchColumn};
use super::conditions::CONDITIONS;
use super::error::CaptureError;
use super::issue::{IssueKind, Issues};
use super::limits::{indexed_messages, short_name};
use super::reader::{CaptureReader, Holds, Message, PayloadKey};
use super::records::{ColumnsRecord, LossRecord};
use super::topic::{Record, Topic};
use super::verify::{Remedies, Verification, examine, verify};
use super::writer::{CopyWriter, WriteSummary, WriterOptions};

/// What recovery did.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The new capture.
    pub written: WriteSummary,
    /// The loss records it got, beside those it had.
    pub losses: Vec<LossRecord>,
    /// Records left out because they only repeat an earlier one.
    pub repeated: u64,
    /// What was found wrong on opening the old capture.
    pub issues: Issues,
    /// What verification says of the new capture.
    pub verification: Verification,
}

/// Writes every intact record of the capture that `reader` reads to `out`, which must not exist.
///
/// Records keep their times, and what was foreign in encoding is written in Stepscope's own. Of several records about the
/// same thing the first is kept. A record that contradicts itself or others is left out, with a loss record that says
/// so: [`verify`] finds nothing wrong with what is written.
///
/// # Errors
/// When the old file cannot be read at all, or the new one not written.
pub fn recover(reader: &CaptureReader, out: &Path) -> Result<Recovery, CaptureError> {
    // Whoever opened the reader may have skipped chunks for what their indexes say.
    let reader = CaptureReader::open_whole(reader.path())?;
    let (_, remedies) = examine(&reader)?;
    let header = reader.header().clone();
    let mut copy = Copy {
        writer: CopyWriter::create(out, header, &WriterOptions::default())?,
        payload_limit: indexed_messages(reader.file_bytes()),
        latest: reader.header().epoch_ns,
        reader: &reader,
        remedies,
        payloads: HashMap::new(),
        others: HashSet::new(),
        gone: Gone::default(),
        foreign_columns: ForeignColumns::default(),
        repeated: 0,
    };
    for message in reader.messages() {
        match message {
            Ok(message) => copy.message(message)?,
            Err(CaptureError::Message { topic, .. }) => copy.gone.count(Why::Unreadable, topic),
            Err(CaptureError::Damaged { .. }) => copy.gone.chunks += 1,
            // Its chunk is read all the same.
            Err(CaptureError::WrongIndex { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let losses = copy.losses()?;
    for loss in &losses {
        copy.writer.write(Record::Loss(loss.clone()), copy.latest)?;
    }
    let (written, repeated) = (copy.writer.finish()?, copy.repeated);
    let verification = verify(&CaptureReader::open(&written.path)?)?;
    Ok(Recovery { written, losses, repeated, issues: reader.issues().clone(), verification })
}

/// What becomes of a record.
enum Fate {
    Kept,
    /// An earlier one says the same.
    Repeated,
    Gone(Why),
}

/// Why a record is not in the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    Unreadable,
    Contradicting,
    BeyondLimit,
}

/// What is not in the new file.
#[derive(Debug, Default)]
struct Gone {
    messages: BTreeMap<(Topic, Why), u64>,
    chunks: u64,
}

/// Names of columns that the new file's do not have, the first few of them.
#[derive(Debug, Default)]
pub(super) struct ForeignColumns(BTreeSet<String>);

/// A hash of a record, long enough never to be another's.
type Digest = [u8; 16];

/// A copy in progress.
struct Copy<'a> {
    reader: &'a CaptureReader,
    writer: CopyWriter,
    remedies: Remedies,
    /// The first payload of each row.
    payloads: HashMap<PayloadKey, Digest>,
    /// Sketches, events and losses, which have no key.
    others: HashSet<Digest>,
    payload_limit: u64,
    /// Time of the latest message.
    latest: u64,
    gone: Gone,
    foreign_columns: ForeignColumns,
    repeated: u64,
}

impl Copy<'_> {
    fn message(&mut self, message: Message) -> Result<(), CaptureError> {
        self.latest = self.latest.max(message.log_time);
        match self.fate(&message)? {
            Fate::Kept => self.write(message),
            Fate::Repeated => {
                self.repeated += 1;
                Ok(())
            }
            Fate::Gone(why) => {
                self.gone.count(why, message.record.topic());
                Ok(())
            }
        }
    }

    fn fate(&mut self, message: &Message) -> Result<Fate, CaptureError> {
        let unless_same = |is_same| if is_same { Fate::Repeated } else { Fate::Gone(Why::Contradicting) };
        match self.reader.holds(message) {
            Holds::This => {}
            Holds::Earlier(earlier) => {
                let bytes = |location| self.reader.message_bytes(location);
                return Ok(unless_same(bytes(earlier)? == bytes(message.location)?));
            }
            Holds::Nothing => return Ok(Fate::Gone(Why::BeyondLimit)),
        }
        let is_at_fault = self.remedies.leaves_out(message.location);
        let is_full = (self.payloads.len() + self.others.len()) as u64 >= self.payload_limit;
        Ok(match &message.record {
            Record::Logits(payload) => {
                let (step, request, choice, row) = (payload.step, payload.request, payload.choice, payload.row);
                let key = PayloadKey { step, request, choice, row };
                let digest = digest(&message.record)?;
                match self.payloads.get(&key) {
                    Some(first) => unless_same(*first == digest),
                    None if is_at_fault => Fate::Gone(Why::Contradicting),
                    None if is_full => Fate::Gone(Why::BeyondLimit),
                    None => {
                        self.payloads.insert(key, digest);
                        Fate::Kept
                    }
                }
            }
            Record::Sketch(_) | Record::Event(_) | Record::Loss(_) => {
                let digest = digest(&message.record)?;
                if self.others.contains(&digest) {
                    Fate::Repeated
                } else if is_full && matches!(message.record, Record::Sketch(_)) {
                    Fate::Gone(Why::BeyondLimit)
                } else {
                    self.others.insert(digest);
                    Fate::Kept
                }
            }
            _ if is_at_fault => Fate::Gone(Why::Contradicting),
            _ => Fate::Kept,
        })
    }

    /// A payload gets its step's time, in case its recorder did not know that rule.
    fn write(&mut self, message: Message) -> Result<(), CaptureError> {
        let step = match &message.record {
            // The writer writes the one first and last, and makes the other of the steps that are kept.
            Record::Header(_) => return Ok(()),
            Record::Columns(record) => {
                self.foreign_columns.add(record);
                return Ok(());
            }
            Record::Logits(payload) => Some((payload.step, payload.request, payload.choice)),
            Record::Sketch(payload) => Some((payload.step, payload.request, payload.choice)),
            _ => None,
        };
        let log_time = match step {
            Some((step, request, choice)) => self.reader.step_log_time(step, request, choice)?,
            None => None,
        };
        self.writer.write(message.record, log_time.unwrap_or(message.log_time))
    }

    /// Loss records for what is gone: with the number of messages where that is known.
    fn losses(&self) -> Result<Vec<LossRecord>, CaptureError> {
        let time_ns = self.latest.saturating_sub(self.reader.header().epoch_ns);
        let loss = |channel: &str, messages, steps, reason: String| {
            let channel = channel.to_owned();
            LossRecord { time_ns, channel, messages, bytes: None, steps, reason: format!("recover: {reason}") }
        };
        let mut gone = self.gone.messages.clone();
        for (topic, totals) in self.reader.totals()? {
            *gone.entry((topic, Why::Unreadable)).or_default() += totals.missing;
        }
        // The header is repeated and columns are made anew: such a message that is gone is no loss.
        gone.retain(|(topic, why), messages| {
            *messages > 0 && *topic != Topic::Columns && (*topic, *why) != (Topic::Header, Why::Unreadable)
        });
        let counted = gone
            .iter()
            .map(|((topic, why), messages)| loss(topic.name(), Some(*messages), None, why.in_words().to_owned()));
        let mut losses: Vec<LossRecord> = counted.collect();
        losses.extend(self.uncounted()?.map(|reason| loss("*", None, None, reason)));
        losses.extend(self.foreign_columns.reason().map(|reason| loss(Topic::Columns.name(), None, None, reason)));
        // Columns are made anew, so that none are missing.
        for (topic, steps) in self.remedies.unaccounted().filter(|(topic, _)| *topic != Topic::Columns) {
            let is_covered = losses.iter().any(|loss| loss.channel == topic.name() || loss.channel == "*");
            if !is_covered {
                let reason = "other records need it, and it is not in the file it was recovered from".to_owned();
                losses.push(loss(topic.name(), None, steps, reason));
            }
        }
        Ok(losses)
    }

    /// Why messages may be gone that cannot be counted.
    fn uncounted(&self) -> Result<Option<String>, CaptureError> {
        if !self.reader.is_finished() {
            return Ok(Some("the recording was not finished".to_owned()));
        }
        let is_damage = |kind| matches!(kind, IssueKind::Damaged | IssueKind::Limit);
        let places = self.reader.issues().iter().filter(|issue| is_damage(issue.kind)).count() as u64;
        let places = places.max(self.gone.chunks);
        if places > 0 {
            return Ok(Some(format!("{places} damaged places in the file it was recovered from")));
        }
        // A chunk may be gone without a trace.
        let data = self.reader.section_crcs()?.into_iter().find(|crc| crc.section == "data" && !crc.is_intact());
        Ok(data.map(|crc| crc.to_string()))
    }
}

impl Gone {
    fn count(&mut self, why: Why, topic: Topic) {
        *self.messages.entry((topic, why)).or_default() += 1;
    }
}

impl ForeignColumns {
    const MOST: usize = 16;

    pub(super) fn add(&mut self, record: &ColumnsRecord) {
        let Ok(batch) = columns::decode(record) else { return };
        let names = batch.columns().iter().map(BatchColumn::name);
        let foreign = names.filter(|name| CONDITIONS.iter().all(|condition| condition.name != *name));
        self.0.extend(foreign.take(Self::MOST - self.0.len()).map(short_name));
    }

    pub(super) fn reason(&self) -> Option<String> {
        let names: Vec<&str> = self.0.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| format!("columns of other names are not made anew: {}", names.join(", ")))
    }
}

impl Why {
    fn in_words(self) -> &'static str {
        match self {
            Self::Unreadable => "damaged in the file it was recovered from",
            Self::Contradicting => "it contradicts itself or another record",
            Self::BeyondLimit => "more messages than are read of a file of that length",
        }
    }
}

fn digest(record: &Record) -> Result<Digest, CaptureError> {
    let bytes = record.encode(Encoding::Bincode);
    let bytes = bytes.map_err(|source| CaptureError::Encode { topic: record.topic(), source })?;
    let mut digest = Digest::default();
    blake3::Hasher::new().update(&bytes).finalize_xof().fill(&mut digest);
    Ok(digest)
}
