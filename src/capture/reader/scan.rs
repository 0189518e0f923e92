//! Passes over a whole file, payloads included, one segment in memory at a time.

use std::collections::BTreeMap;
use std::fmt;

use super::super::error::{CaptureError, Place};
use super::super::issue::{IssueKind, Issues};
use super::super::records::{ColumnsRecord, RequestRecord};
use super::super::topic::{Record, Topic};
use super::CaptureReader;
use super::block::{Block, Slot};
use super::channels::Channel;
use super::index::Location;
use super::layout::Segment;
use super::open::Seen;
use crate::types::{ChoiceIndex, RequestId, SequenceId};

/// One message of a file, decoded.
#[derive(Debug)]
pub struct Message {
    /// Where it stands.
    pub place: Place,
    /// Its time in the file: nanoseconds since the Unix epoch, as far as the recorder knew.
    pub log_time: u64,
    /// Its number on its channel, from 1; 0 if the recorder did not count.
    pub sequence: u32,
    /// Its encoded length in bytes.
    pub bytes: usize,
    /// What it says.
    pub record: Record,
    pub(in crate::capture) location: Location,
}

/// What a file holds on one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelTotals {
    /// Messages.
    pub messages: u64,
    /// Their bytes before compression.
    pub bytes: u64,
    /// Messages that are gone, judged by the numbers of those that are here and by the file's summary.
    pub missing: u64,
}

/// What a pass over a file finds without decoding its messages.
#[derive(Clone, Debug)]
pub struct Survey {
    /// What is on each channel.
    pub channels: BTreeMap<Topic, ChannelTotals>,
    /// Damage that opening did not see, because it skips payloads and compares no section CRC.
    pub damage: Issues,
}

/// Which of several records about the same thing holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Holds {
    /// This one.
    This,
    /// An earlier one, at that place.
    Earlier(Location),
    /// None is indexed: a limit was reached.
    Nothing,
}

/// A CRC of a section of the file, as stored and as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc {
    /// `data` or `summary`.
    pub section: &'static str,
    /// The stored one.
    pub expected: u32,
    /// The one of the bytes.
    pub found: u32,
}

impl Crc {
    /// Whether the bytes are what they were.
    pub fn is_intact(&self) -> bool {
        self.expected == self.found
    }
}

impl fmt::Display for Crc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { section, expected, found } = self;
        write!(formatter, "{section} section CRC mismatch: expected {expected:08x}, found {found:08x}")
    }
}

impl CaptureReader {
    /// Every message in file order; damaged chunks and undecodable messages are errors in between.
    pub fn messages(&self) -> impl Iterator<Item = Result<Message, CaptureError>> {
        self.messages_of(None)
    }

    /// The conditions of the steps, batch by batch in file order, without reading step records; none if the recorder kept none.
    /// Damage to chunks that may hold some is an error in between.
    pub fn columns(&self) -> impl Iterator<Item = Result<ColumnsRecord, CaptureError>> {
        self.messages_of(Some(Topic::Columns)).filter_map(|message| match message {
            Ok(Message { record: Record::Columns(record), .. }) => Some(Ok(record)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// The messages of one topic, or of all, in file order. Chunks that hold others alone, by their indexes, are not read.
    fn messages_of(&self, topic: Option<Topic>) -> impl Iterator<Item = Result<Message, CaptureError>> {
        let segments = (0_u32..).zip(&self.layout.segments);
        let segments = segments.filter(move |(_, segment)| topic.is_none_or(|topic| self.may_hold(segment, topic)));
        segments.flat_map(move |(index, segment)| {
            let (block, error) = match Block::load(&self.source, segment) {
                Ok(block) => (Some(block), None),
                Err(error) => (None, Some(error)),
            };
            let broken = block.as_ref().and_then(|block| self.broken(index, block));
            let wrong_index = block.as_ref().and_then(|block| self.wrong_index(index, block));
            let slots = block.as_ref().map(|block| block.slots.clone()).unwrap_or_default();
            let slots =
                slots.into_iter().filter(move |slot| topic.is_none_or(|topic| self.is_of(slot.header.channel, topic)));
            let messages = slots.filter_map(move |slot| self.message(index, block.as_ref()?, &slot));
            let errors = [error, wrong_index].into_iter().flatten().map(Err);
            errors.chain(messages).chain(broken.map(Err))
        })
    }

    /// Whether a segment's indexes list messages of the topic, or it has none.
    fn may_hold(&self, segment: &Segment, topic: Topic) -> bool {
        segment.counts.as_ref().is_none_or(|counts| counts.iter().any(|(channel, _)| self.is_of(*channel, topic)))
    }

    fn is_of(&self, channel: u16, topic: Topic) -> bool {
        matches!(self.layout.channels.get(channel), Ok(Some(channel)) if channel.topic == topic)
    }

    /// Whether messages of the topic may stand in the chunk at that offset, or in what may be no chunk.
    pub(in crate::capture) fn may_hold_at(&self, offset: u64, topic: Topic) -> bool {
        let segments = &self.layout.segments;
        let behind = segments.partition_point(|segment| segment.bytes.start <= offset);
        let segment = behind.checked_sub(1).and_then(|index| segments.get(index));
        let segment = segment.filter(|segment| segment.bytes.contains(&offset));
        segment.is_none_or(|segment| self.may_hold(segment, topic))
    }

    /// What is on each channel, without decoding it. Chunks that cannot be read count as missing.
    pub fn totals(&self) -> Result<BTreeMap<Topic, ChannelTotals>, CaptureError> {
        self.survey().map(|survey| survey.channels)
    }

    /// What is on each channel and which bytes are damaged, without decoding a message.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn survey(&self) -> Result<Survey, CaptureError> {
        let mut damage = Issues::default();
        let mut totals: BTreeMap<Topic, ChannelTotals> = BTreeMap::new();
        let mut seen: BTreeMap<u16, Seen> = BTreeMap::new();
        for (segment, block) in self.blocks() {
            let block = match block {
                Ok(block) => block,
                Err(error @ CaptureError::Damaged { .. }) => {
                    self.add_damage(&mut damage, &error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for error in self.broken(segment, &block).into_iter().chain(self.wrong_index(segment, &block)) {
                self.add_damage(&mut damage, &error);
            }
            for slot in &block.slots {
                let Ok(Some(channel)) = self.layout.channels.get(slot.header.channel) else { continue };
                seen.entry(slot.header.channel).or_default().add(slot.header.sequence);
                let total = totals.entry(channel.topic).or_default();
                total.messages += 1;
                total.bytes += block.message(slot).len() as u64;
            }
        }
        let summary: BTreeMap<u16, u64> = self.layout.summary_counts.iter().flatten().copied().collect();
        for id in seen.keys().chain(summary.keys()) {
            let Ok(Some(channel)) = self.layout.channels.get(*id) else { continue };
            let missing = seen.get(id).copied().unwrap_or_default().missing(summary.get(id).copied());
            // An id is in both maps as a rule; the count is the same both times.
            totals.entry(channel.topic).or_default().missing = missing;
        }
        for crc in self.section_crcs()?.iter().filter(|crc| !crc.is_intact()) {
            damage.push(IssueKind::Damaged, None, crc.to_string());
        }
        Ok(Survey { channels: totals, damage })
    }

    /// Takes in what is wrong with a chunk, unless opening has told of it.
    fn add_damage(&self, damage: &mut Issues, error: &CaptureError) {
        let (CaptureError::Damaged { offset, what, .. } | CaptureError::WrongIndex { offset, what, .. }) = error else {
            return;
        };
        let is_told = self.layout.issues.iter().any(|issue| {
            !issue.kind.is_missing_data() && issue.bytes.as_ref().is_some_and(|bytes| bytes.contains(offset))
        });
        if !is_told {
            damage.push(IssueKind::Damaged, None, format!("chunk at byte {offset}: {what}"));
        }
    }

    /// How many chunks the file has, and how many of them carry a CRC.
    pub fn chunks(&self) -> (usize, usize) {
        let chunks = || self.layout.segments.iter().filter_map(|segment| segment.chunk);
        (chunks().count(), chunks().filter(|chunk| chunk.crc != 0).count())
    }

    /// The CRCs of whole sections that the file has. The data section's covers every byte before it.
    pub fn section_crcs(&self) -> Result<Vec<Crc>, CaptureError> {
        const DATA_END: u64 = 1 + 8 + 4;
        const FOOTER_TAIL: u64 = 4 + mcap::MAGIC.len() as u64;
        let Some((data_end, expected)) = self.layout.data_end else { return Ok(Vec::new()) };
        let mut crcs = Vec::new();
        if expected != 0 {
            crcs.push(Crc { section: "data", expected, found: self.crc(0, data_end)? });
        }
        if self.layout.is_finished {
            let end = self.source.length() - FOOTER_TAIL;
            let stored = self.source.read(end, 4)?;
            let expected = super::bytes::read_u32(&stored, 0).unwrap_or(0);
            let start = data_end.saturating_add(DATA_END);
            if expected != 0 && start <= end {
                crcs.push(Crc { section: "summary", expected, found: self.crc(start, end)? });
            }
        }
        Ok(crcs)
    }

    /// Whether this is the record that holds, where there are several about the same thing.
    pub(in crate::capture) fn is_first(&self, message: &Message) -> bool {
        self.holds(message) == Holds::This
    }

    /// Which record holds of those about the same thing as `message`; of payloads every one does.
    pub(in crate::capture) fn holds(&self, message: &Message) -> Holds {
        let location = message.location;
        let itself = |found: bool| found.then_some(location);
        let holding = match &message.record {
            // It is repeated on purpose.
            Record::Header(header) if **header == self.header => Some(location),
            Record::Header(_) => self.index.headers.first().copied(),
            Record::Mask(mask) => self.index.masks.get(&mask.hash).copied(),
            Record::Step(step) => self.step_location(step.step, step.request, step.choice),
            Record::Request(record) => {
                self.index.requests.get(&record.request()).and_then(|index| match record.as_ref() {
                    RequestRecord::Admitted(_) => index.admissions.first().copied(),
                    RequestRecord::Refused(_) => index.refusals.first().copied(),
                    RequestRecord::Finished(end) => {
                        let first = index.completions.iter().find(|(choice, _)| *choice == end.choice);
                        first.map(|(_, location)| *location)
                    }
                })
            }
            // In file order, as they were indexed.
            Record::Event(_) => itself(self.index.events.binary_search(&location).is_ok()),
            Record::Loss(_) => itself(self.index.losses.binary_search(&location).is_ok()),
            Record::Logits(_) | Record::Sketch(_) | Record::Columns(_) => Some(location),
        };
        match holding {
            Some(holding) if holding == location => Holds::This,
            Some(earlier) => Holds::Earlier(earlier),
            None => Holds::Nothing,
        }
    }

    /// The bytes of the message at `location`; `None` when there is none.
    pub(in crate::capture) fn message_bytes(&self, location: Location) -> Result<Option<Vec<u8>>, CaptureError> {
        let block = self.block(location.segment)?;
        Ok(block.slot_at(location.offset).map(|slot| block.message(slot).to_vec()))
    }

    /// Whether there is such a step record.
    pub(in crate::capture) fn has_step(&self, step: u64, request: u64, choice: u32) -> bool {
        self.step_location(step, request, choice).is_some()
    }

    /// Length of the file.
    pub(in crate::capture) fn file_bytes(&self) -> u64 {
        self.source.length()
    }

    /// The time in the file of a step record.
    pub(in crate::capture) fn step_log_time(
        &self,
        step: u64,
        request: u64,
        choice: u32,
    ) -> Result<Option<u64>, CaptureError> {
        let Some(location) = self.step_location(step, request, choice) else { return Ok(None) };
        let block = self.block(location.segment)?;
        Ok(block.slot_at(location.offset).map(|slot| slot.header.log_time))
    }

    fn step_location(&self, step: u64, request: u64, choice: u32) -> Option<Location> {
        let sequence = SequenceId { request: RequestId(request), choice: ChoiceIndex(choice) };
        let steps = self.step_locations(sequence);
        let index = steps.binary_search_by_key(&step, |(step, _)| *step).ok()?;
        steps.get(index).map(|(_, location)| *location)
    }

    fn blocks(&self) -> impl Iterator<Item = (u32, Result<Block, CaptureError>)> {
        (0_u32..).zip(&self.layout.segments).map(|(index, segment)| (index, Block::load(&self.source, segment)))
    }

    pub(super) fn wrong_index(&self, segment: u32, block: &Block) -> Option<CaptureError> {
        let what = super::open::wrong_index(&self.layout, segment, block)?.to_owned();
        let offset = self.layout.segments.get(segment as usize)?.bytes.start;
        Some(CaptureError::WrongIndex { path: self.path().to_owned(), offset, what })
    }

    fn broken(&self, segment: u32, block: &Block) -> Option<CaptureError> {
        let (at, what) = block.broken.as_ref()?;
        let offset = self.layout.segments.get(segment as usize)?.bytes.start;
        Some(self.source.damaged(offset, format!("byte {at} of its records: {what}; what follows in it is not read")))
    }

    fn message(&self, segment: u32, block: &Block, slot: &Slot) -> Option<Result<Message, CaptureError>> {
        let Ok(Some(Channel { topic, encoding })) = self.layout.channels.get(slot.header.channel) else { return None };
        let bytes = block.message(slot);
        let place = block.place(slot);
        let record = self.version.decode_record(topic, encoding, bytes).map_err(|source| CaptureError::Message {
            path: self.path().to_owned(),
            topic,
            place,
            source,
        });
        Some(record.map(|record| Message {
            place,
            log_time: slot.header.log_time,
            sequence: slot.header.sequence,
            bytes: bytes.len(),
            record,
            location: Location { segment, offset: slot.offset },
        }))
    }

    fn crc(&self, start: u64, end: u64) -> Result<u32, CaptureError> {
        const WINDOW: u64 = 1 << 20;
        let mut hasher = crc32fast::Hasher::new();
        let mut at = start;
        while at < end {
            let length = WINDOW.min(end - at);
            hasher.update(&self.source.read(at, length as usize)?);
            at += length;
        }
        Ok(hasher.finalize())
    }
}
