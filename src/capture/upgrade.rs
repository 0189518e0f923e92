//! Older formats: every version a capture may have, and how its messages become today's records.
//!
//! There is one version so far. A later one adds a variant here, which the compiler then asks for everywhere: the old
//! records move to a module of their own, and the old variant's arm decodes those and converts them.

use serde::de::DeserializeOwned;

use super::codec::{self, DecodeError, Encoding};
use super::records::FORMAT_VERSION;
use super::topic::{Record, Topic};

/// A format version that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FormatVersion {
    V1,
}

/// A format version that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownVersion {
    /// Made by a later Stepscope.
    Newer(u32),
    /// No version that ever was.
    Never(u32),
}

impl FormatVersion {
    pub(super) fn new(version: u32) -> Result<Self, UnknownVersion> {
        match version {
            1 => Ok(Self::V1),
            newer if newer > FORMAT_VERSION => Err(UnknownVersion::Newer(newer)),
            other => Err(UnknownVersion::Never(other)),
        }
    }

    /// Decodes a message of this version into today's record.
    pub(super) fn decode<T: DeserializeOwned>(self, encoding: Encoding, bytes: &[u8]) -> Result<T, DecodeError> {
        match self {
            Self::V1 => codec::decode(encoding, bytes),
        }
    }

    /// Decodes a message of this version on the channel of `topic`.
    pub(super) fn decode_record(self, topic: Topic, encoding: Encoding, bytes: &[u8]) -> Result<Record, DecodeError> {
        match self {
            Self::V1 => Record::decode(topic, encoding, bytes),
        }
    }

    /// Decodes the first fields of a message, which no version so far has moved.
    pub(super) fn decode_key<T: DeserializeOwned>(self, encoding: Encoding, bytes: &[u8]) -> Result<T, DecodeError> {
        match self {
            Self::V1 => codec::decode_prefix(encoding, bytes).map(|(key, _)| key),
        }
    }
}
