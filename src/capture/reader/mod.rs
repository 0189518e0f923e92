//! Reading a capture of any recorder, as untrusted input.
//!
//! Opening reads the record prefixes of the whole file and the chunks that hold more than payloads; payloads are read
//! when they are asked for. What is damaged or missing is an [`Issue`](super::Issue), and the rest is read. Memory is
//! bounded by the cache, one chunk in work, and the index (docs/capture-format.md, section 9).

mod block;
mod bytes;
mod cache;
mod channels;
mod index;
mod layout;
mod open;
mod payloads;
mod scan;
mod source;

use std::path::Path;
use std::sync::Arc;

use self::block::{Block, Slot};
use self::cache::Cache;
use self::channels::Channel;
use self::index::Index;
pub(in crate::capture) use self::index::{Location, PayloadKey};
use self::layout::Layout;
use self::open::Trust;
use self::payloads::PayloadSegments;
pub(in crate::capture) use self::scan::Holds;
pub use self::scan::{ChannelTotals, Crc, Message, Survey};
use self::source::Source;
use super::codec::decode_prefix;
use super::error::CaptureError;
use super::issue::Issues;
use super::limits::{self, CHUNK_CACHE_BYTES};
use super::records::{
    Admission, Completion, EventRecord, Header, LogitsPayload, LogitsRecord, LossRecord, MaskRecord, Refusal,
    RequestRecord, SketchRecord, StepRecord,
};
use super::topic::Topic;
use super::upgrade::{FormatVersion, Versioned};
use crate::types::{RequestId, SequenceId, StepId};

/// An open capture. Methods take `&self` and may be called from several threads.
#[derive(Debug)]
pub struct CaptureReader {
    source: Source,
    layout: Layout,
    version: FormatVersion,
    header: Header,
    index: Index,
    payloads: PayloadSegments,
    cache: Cache,
}

/// Everything recorded about one request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecords {
    /// How it was admitted; `None` if it was refused, or if that record is missing.
    pub admission: Option<Admission>,
    /// How it was refused.
    pub refusal: Option<Refusal>,
    /// How each choice ended, by choice; choices that did not end are absent.
    pub completions: Vec<Completion>,
}

impl CaptureReader {
    /// Opens a capture, finished or not.
    ///
    /// # Errors
    /// When the file cannot be read at all, is no capture, is of a newer format, or has no intact header. Everything
    /// else that is wrong is in [`issues`](Self::issues).
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        Self::open_trusting(path, Trust::Indexes)
    }

    /// Opens a capture and reads every chunk for it: no message index is believed.
    pub(in crate::capture) fn open_whole(path: &Path) -> Result<Self, CaptureError> {
        Self::open_trusting(path, Trust::Nothing)
    }

    fn open_trusting(path: &Path, trust: Trust) -> Result<Self, CaptureError> {
        let source = Source::open(path)?;
        let mut layout = Layout::read(&source)?;
        let cache = Cache::new(CHUNK_CACHE_BYTES);
        let (version, header) = open::find_header(&source, &mut layout, &cache, trust)?;
        let mut index = open::build_index(&source, &mut layout, &cache, version, &header, trust)?;
        open::report_repeated(&source, &mut layout, &cache, &mut index);
        let payloads = PayloadSegments::new(&layout.segments, &layout.channels);
        Ok(Self { source, layout, version, header, index, payloads, cache })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// What made the capture.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What was found wrong on opening.
    pub fn issues(&self) -> &Issues {
        &self.layout.issues
    }

    /// Whether the recording was finished; if not, its end is missing.
    pub fn is_finished(&self) -> bool {
        self.layout.is_finished
    }

    /// The requests, by number.
    pub fn requests(&self) -> impl Iterator<Item = RequestId> {
        self.index.requests.keys().map(|request| RequestId(*request))
    }

    /// What is recorded about one request; all empty for an unknown one.
    pub fn request(&self, request: RequestId) -> Result<RequestRecords, CaptureError> {
        let mut records = RequestRecords { admission: None, refusal: None, completions: Vec::new() };
        for location in self.request_locations(request) {
            match self.read(location)? {
                RequestRecord::Admitted(admission) => records.admission = Some(admission),
                RequestRecord::Refused(refusal) => records.refusal = Some(refusal),
                RequestRecord::Finished(completion) => records.completions.push(completion),
            }
        }
        Ok(records)
    }

    /// The records that hold of one request: its admission, its refusal, and its ends by choice.
    pub(in crate::capture) fn request_locations(&self, request: RequestId) -> Vec<Location> {
        let Some(index) = self.index.requests.get(&request.0) else { return Vec::new() };
        let mut completions = index.completions.clone();
        completions.sort_by_key(|(choice, _)| *choice);
        completions.dedup_by_key(|(choice, _)| *choice);
        let starts = index.admissions.first().into_iter().chain(index.refusals.first());
        starts.copied().chain(completions.into_iter().map(|(_, location)| location)).collect()
    }

    /// The sequences that have step records, in order.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.index.steps.keys().copied()
    }

    /// The step records of one sequence, in order of their steps.
    pub fn steps(&self, sequence: SequenceId) -> impl Iterator<Item = Result<StepRecord, CaptureError>> {
        self.step_locations(sequence).iter().map(|(_, location)| self.read(*location))
    }

    /// The first and the last step of a sequence; `None` when it has none.
    pub fn step_bounds(&self, sequence: SequenceId) -> Option<(u64, u64)> {
        let steps = self.step_locations(sequence);
        Some((steps.first()?.0, steps.last()?.0))
    }

    /// How many step records a sequence has.
    pub fn step_count(&self, sequence: SequenceId) -> usize {
        self.step_locations(sequence).len()
    }

    /// The payload of one logits row; `None` when there is none.
    pub fn logits(&self, step: StepId, sequence: SequenceId, row: u32) -> Result<Option<LogitsPayload>, CaptureError> {
        let found = self.payload_messages((Topic::Logits, 1), step, sequence, row, |block, slot, channel| {
            self.decode_slot::<LogitsRecord>(block, slot, channel)
        })?;
        Ok(found.into_iter().next().map(|record| record.payload))
    }

    /// The sketches of one row of a step, in file order, as many as [`limits::SKETCHES_OF_A_ROW`].
    pub fn sketches(&self, step: StepId, sequence: SequenceId, row: u32) -> Result<Vec<SketchRecord>, CaptureError> {
        self.payload_messages(
            (Topic::Sketch, limits::SKETCHES_OF_A_ROW),
            step,
            sequence,
            row,
            |block, slot, channel| self.decode_slot(block, slot, channel),
        )
    }

    /// The mask row with that hash; `None` when there is none.
    pub fn mask(&self, hash: &[u8; 32]) -> Result<Option<MaskRecord>, CaptureError> {
        self.index.masks.get(hash).map(|location| self.read(*location)).transpose()
    }

    /// The events, in file order.
    pub fn events(&self) -> impl Iterator<Item = Result<EventRecord, CaptureError>> {
        self.index.events.iter().map(|location| self.read(*location))
    }

    /// What the recorder, or recovery, says is missing.
    pub fn losses(&self) -> impl Iterator<Item = Result<LossRecord, CaptureError>> {
        self.index.losses.iter().map(|location| self.read(*location))
    }

    pub(in crate::capture) fn step_locations(&self, sequence: SequenceId) -> &[(u64, Location)] {
        self.index.steps.get(&sequence).map(Vec::as_slice).unwrap_or_default()
    }

    fn payload_messages<T>(
        &self,
        (topic, most): (Topic, usize),
        step: StepId,
        sequence: SequenceId,
        row: u32,
        decode: impl Fn(&Block, &Slot, Channel) -> Result<T, CaptureError>,
    ) -> Result<Vec<T>, CaptureError> {
        let steps = self.step_locations(sequence);
        let Ok(index) = steps.binary_search_by_key(&step.0, |(step, _)| *step) else { return Ok(Vec::new()) };
        let Some((_, location)) = steps.get(index) else { return Ok(Vec::new()) };
        let log_time = match self.block(location.segment)?.slot_at(location.offset) {
            Some(slot) => slot.header.log_time,
            None => return Ok(Vec::new()),
        };
        let key = PayloadKey { step: step.0, request: sequence.request.0, choice: sequence.choice.0, row };
        let mut found = Vec::new();
        // A chunk may end in the middle of them.
        for segment in self.payloads.at(log_time) {
            if found.len() == most {
                break;
            }
            let block = self.payload_block(segment)?;
            let slots = block.payloads(&self.layout.channels, self.version, topic, key);
            let known = slots.filter_map(|slot| Some((slot, self.layout.channels.get(slot.header.channel).ok()??)));
            for (slot, channel) in known.take(most - found.len()) {
                found.push((segment, decode(&block, slot, channel)?));
            }
        }
        // The latest chunk was asked first.
        found.sort_by_key(|(segment, _)| *segment);
        Ok(found.into_iter().map(|(_, message)| message).collect())
    }

    pub(in crate::capture) fn read<T: Versioned>(&self, location: Location) -> Result<T, CaptureError> {
        let block = self.block(location.segment)?;
        let slot = block.slot_at(location.offset).copied();
        let channel = slot.and_then(|slot| self.layout.channels.get(slot.header.channel).ok()?);
        match (slot, channel) {
            (Some(slot), Some(channel)) => self.decode_slot(&block, &slot, channel),
            // The file changed since it was indexed.
            _ => Err(self.source.damaged(0, "the file changed while it was read")),
        }
    }

    fn decode_slot<T: Versioned>(&self, block: &Block, slot: &Slot, channel: Channel) -> Result<T, CaptureError> {
        self.version.decode(channel.encoding, block.message(slot)).map_err(|source| CaptureError::Message {
            path: self.path().to_owned(),
            topic: channel.topic,
            place: block.place(slot),
            source,
        })
    }

    /// A block that opening may have skipped for what its message indexes say, which is checked now.
    fn payload_block(&self, segment: u32) -> Result<Arc<Block>, CaptureError> {
        let block = self.block(segment)?;
        match self.wrong_index(segment, &block) {
            Some(error) => Err(error),
            None => Ok(block),
        }
    }

    fn block(&self, segment: u32) -> Result<Arc<Block>, CaptureError> {
        open::load(&self.source, &self.layout, &self.cache, segment)
    }
}
