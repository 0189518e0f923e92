//! Where each record is, by what it is about.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::super::codec::{DecodeError, Encoding};
use super::super::limits::{MAX_NOTE_BYTES, NOTE_BYTES};
use super::super::records::RequestRecord;
use super::super::topic::Topic;
use super::super::upgrade::FormatVersion;
use super::super::wire;
use crate::types::{ChoiceIndex, RequestId, SequenceId};

/// A message: its segment, and where its content begins in the segment's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::capture) struct Location {
    pub(super) segment: u32,
    pub(super) offset: u32,
}

/// What a step record's first fields say; in bincode they can be read alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(super) struct StepKey {
    #[serde(with = "wire")]
    pub(super) step: u64,
    #[serde(with = "wire")]
    pub(super) request: u64,
    pub(super) choice: u32,
}

/// What a payload's first fields say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub(in crate::capture) struct PayloadKey {
    #[serde(with = "wire")]
    pub(in crate::capture) step: u64,
    #[serde(with = "wire")]
    pub(in crate::capture) request: u64,
    pub(in crate::capture) choice: u32,
    pub(in crate::capture) row: u32,
}

/// What a mask's first field says.
#[derive(Deserialize)]
struct MaskKey {
    #[serde(with = "wire")]
    hash: [u8; 32],
}

/// The records about one request.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestIndex {
    pub(super) admissions: Vec<Location>,
    pub(super) refusals: Vec<Location>,
    pub(super) completions: Vec<(u32, Location)>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) headers: Vec<Location>,
    pub(super) requests: BTreeMap<u64, RequestIndex>,
    /// (step, place) of each step record, by sequence.
    pub(super) steps: BTreeMap<SequenceId, Vec<(u64, Location)>>,
    pub(super) masks: HashMap<[u8; 32], Location>,
    pub(super) events: Vec<Location>,
    pub(super) losses: Vec<Location>,
    messages: u64,
    limit: u64,
    note_bytes: u64,
}

/// Why a message was not taken into the index.
pub(super) enum Rejected {
    Undecodable(DecodeError),
    /// As many as it may hold are in it already.
    Full,
    /// As many events and losses as it may hold are in it already.
    NotesFull,
}

impl From<DecodeError> for Rejected {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(error)
    }
}

impl Index {
    /// An empty index that takes up to `limit` messages.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Takes in a message; payloads have an index of their own, made when they are asked for.
    pub(super) fn add(
        &mut self,
        version: FormatVersion,
        topic: Topic,
        encoding: Encoding,
        message: &[u8],
        location: Location,
    ) -> Result<(), Rejected> {
        if topic.is_payload() {
            return Ok(());
        }
        if self.messages >= self.limit {
            return Err(Rejected::Full);
        }
        self.messages += 1;
        if matches!(topic, Topic::Event | Topic::Loss) {
            self.note_bytes += message.len() as u64 + NOTE_BYTES;
            if self.note_bytes > MAX_NOTE_BYTES {
                return Err(Rejected::NotesFull);
            }
        }
        match topic {
            Topic::Header => self.headers.push(location),
            Topic::Request => {
                let record: RequestRecord = version.decode(encoding, message)?;
                let request = self.requests.entry(record.request()).or_default();
                match record {
                    RequestRecord::Admitted(_) => request.admissions.push(location),
                    RequestRecord::Refused(_) => request.refusals.push(location),
                    RequestRecord::Finished(end) => request.completions.push((end.choice, location)),
                }
            }
            Topic::Step => {
                let key: StepKey = version.decode_key(encoding, message)?;
                self.steps.entry(key.sequence()).or_default().push((key.step, location));
            }
            Topic::Mask => {
                let key: MaskKey = version.decode_key(encoding, message)?;
                self.masks.entry(key.hash).or_insert(location);
            }
            Topic::Event => self.events.push(location),
            Topic::Loss => self.losses.push(location),
            Topic::Logits | Topic::Sketch | Topic::Columns => {}
        }
        Ok(())
    }

    /// Brings each sequence's steps into order and returns those that are there more than once.
    pub(super) fn sort(&mut self) -> Vec<(SequenceId, u64, Location, Location)> {
        let mut repeated = Vec::new();
        for (sequence, steps) in &mut self.steps {
            steps.sort_by_key(|(step, _)| *step);
            steps.dedup_by(|later, first| {
                let same = later.0 == first.0;
                if same {
                    repeated.push((*sequence, first.0, first.1, later.1));
                }
                same
            });
            steps.shrink_to_fit();
        }
        repeated
    }
}

impl StepKey {
    fn sequence(self) -> SequenceId {
        SequenceId { request: RequestId(self.request), choice: ChoiceIndex(self.choice) }
    }
}
