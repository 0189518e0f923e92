//! Older formats: every version a capture may have, and how its messages become today's records.
//!
//! A later version adds a variant here, which the compiler then asks for everywhere: where its records are others, the old
//! ones move to a module of their own, and the old variant's arm decodes those and converts them.
//!
//! Version 2 added what the output had to look like, tool calls, forced tokens and a reason of verdicts, and lets `withheld`
//! name the drafts that were trimmed. Version 3 added the `columns` channel, and left every record as it was.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec::{self, DecodeError, EncodeError, Encoding};
use super::records::{
    ColumnsRecord, EventRecord, FORMAT_VERSION, Header, LogitsRecord, LossRecord, MaskRecord, RequestRecord,
    SketchRecord, StepRecord, v1,
};
use super::topic::{Record, Topic};

/// A format version that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FormatVersion {
    V1,
    V2,
    V3,
}

/// A format version that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownVersion {
    /// Made by a later Stepscope.
    Newer(u32),
    /// No version that ever was.
    Never(u32),
}

/// A record, with what older versions had in its place.
pub(super) trait Versioned: Serialize + DeserializeOwned {
    /// The record of version 1. What is read as one can be written as one again, with nothing lost.
    type V1: Serialize + DeserializeOwned + Into<Self> + From<Self>;
}

/// Records that are what they were.
macro_rules! unchanged {
    ($($record:ty),*) => {$(
        impl Versioned for $record {
            type V1 = Self;
        }
    )*};
}

unchanged!(Header, MaskRecord, LogitsRecord, SketchRecord, EventRecord, LossRecord, ColumnsRecord);

impl Versioned for RequestRecord {
    type V1 = v1::RequestRecord;
}

impl Versioned for StepRecord {
    type V1 = v1::StepRecord;
}

impl FormatVersion {
    pub(super) const NEWEST: Self = Self::V3;

    pub(super) fn new(version: u32) -> Result<Self, UnknownVersion> {
        match version {
            1 => Ok(Self::V1),
            2 => Ok(Self::V2),
            3 => Ok(Self::V3),
            newer if newer > FORMAT_VERSION => Err(UnknownVersion::Newer(newer)),
            other => Err(UnknownVersion::Never(other)),
        }
    }

    /// The version as headers give it.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// Whether captures of this version have the `columns` channel.
    pub(super) fn has_columns(self) -> bool {
        self >= Self::V3
    }

    /// Decodes a message of this version into today's record.
    pub(super) fn decode<T: Versioned>(self, encoding: Encoding, bytes: &[u8]) -> Result<T, DecodeError> {
        match self {
            Self::V1 => codec::decode::<T::V1>(encoding, bytes).map(Into::into),
            Self::V2 | Self::V3 => codec::decode(encoding, bytes),
        }
    }

    /// Encodes a record as a message of this version.
    pub(super) fn encode(self, encoding: Encoding, record: &Record) -> Result<Vec<u8>, EncodeError> {
        match record {
            Record::Header(record) => self.encode_one(encoding, record.as_ref()),
            Record::Request(record) => self.encode_one(encoding, record.as_ref()),
            Record::Step(record) => self.encode_one(encoding, record.as_ref()),
            Record::Mask(record) => self.encode_one(encoding, record),
            Record::Logits(record) => self.encode_one(encoding, record),
            Record::Sketch(record) => self.encode_one(encoding, record),
            Record::Event(record) => self.encode_one(encoding, record),
            Record::Loss(record) => self.encode_one(encoding, record),
            Record::Columns(record) => self.encode_one(encoding, record),
        }
    }

    fn encode_one<T: Versioned + Clone>(self, encoding: Encoding, record: &T) -> Result<Vec<u8>, EncodeError> {
        match self {
            Self::V1 => codec::encode(encoding, &T::V1::from(record.clone())),
            Self::V2 | Self::V3 => codec::encode(encoding, record),
        }
    }

    /// Decodes a message of this version on the channel of `topic`.
    pub(super) fn decode_record(self, topic: Topic, encoding: Encoding, bytes: &[u8]) -> Result<Record, DecodeError> {
        Ok(match topic {
            Topic::Header => self.decode::<Header>(encoding, bytes)?.into(),
            Topic::Request => self.decode::<RequestRecord>(encoding, bytes)?.into(),
            Topic::Step => self.decode::<StepRecord>(encoding, bytes)?.into(),
            Topic::Mask => self.decode::<MaskRecord>(encoding, bytes)?.into(),
            Topic::Logits => self.decode::<LogitsRecord>(encoding, bytes)?.into(),
            Topic::Sketch => self.decode::<SketchRecord>(encoding, bytes)?.into(),
            Topic::Event => self.decode::<EventRecord>(encoding, bytes)?.into(),
            Topic::Loss => self.decode::<LossRecord>(encoding, bytes)?.into(),
            Topic::Columns => self.decode::<ColumnsRecord>(encoding, bytes)?.into(),
        })
    }

    /// Decodes the first fields of a message, which no version so far has moved.
    pub(super) fn decode_key<T: DeserializeOwned>(self, encoding: Encoding, bytes: &[u8]) -> Result<T, DecodeError> {
        match self {
            Self::V1 | Self::V2 | Self::V3 => codec::decode_prefix(encoding, bytes).map(|(key, _)| key),
        }
    }
}
