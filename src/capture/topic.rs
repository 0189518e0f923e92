//! The channels of a capture and the message type of each.

use std::fmt;

use super::codec::{DecodeError, EncodeError, Encoding};
use super::records::{
    ColumnsRecord, EventRecord, Header, LogitsRecord, LossRecord, MaskRecord, RequestRecord, SketchRecord, StepRecord,
};
use super::upgrade::FormatVersion;

/// A channel of a capture, by the topic name it has in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// What made the capture.
    Header,
    /// Requests admitted, refused and finished.
    Request,
    /// What a step did for one sequence.
    Step,
    /// Mask rows, stored once per content.
    Mask,
    /// Payloads of logits rows.
    Logits,
    /// Projections of intermediate results.
    Sketch,
    /// Things worth a person's attention.
    Event,
    /// What should be here and is not.
    Loss,
    /// The scalar conditions of many steps at once.
    Columns,
}

impl Topic {
    /// Every topic, in the order of the channel ids that Stepscope's own writer gives them, from 1.
    pub const ALL: [Self; 9] = [
        Self::Header,
        Self::Request,
        Self::Step,
        Self::Mask,
        Self::Logits,
        Self::Sketch,
        Self::Event,
        Self::Loss,
        Self::Columns,
    ];

    /// The topic's name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Request => "request",
            Self::Step => "step",
            Self::Mask => "mask",
            Self::Logits => "logits",
            Self::Sketch => "sketch",
            Self::Event => "event",
            Self::Loss => "loss",
            Self::Columns => "columns",
        }
    }

    /// The name of its message type, which is the name of the channel's schema.
    pub fn schema_name(self) -> &'static str {
        match self {
            Self::Header => "stepscope.Header",
            Self::Request => "stepscope.RequestRecord",
            Self::Step => "stepscope.StepRecord",
            Self::Mask => "stepscope.MaskRecord",
            Self::Logits => "stepscope.LogitsRecord",
            Self::Sketch => "stepscope.SketchRecord",
            Self::Event => "stepscope.EventRecord",
            Self::Loss => "stepscope.LossRecord",
            Self::Columns => "stepscope.ColumnsRecord",
        }
    }

    /// The topic of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    /// The channel id that Stepscope's own writer uses.
    pub(super) fn channel_id(self) -> u16 {
        self as u16 + 1
    }

    /// Whether its messages are bulky and so stand in chunks of their own, which opening a file passes over.
    pub fn is_payload(self) -> bool {
        self.is_of_rows() || self == Self::Columns
    }

    /// Whether its messages are about a row of a step, have the step's time and are found by it.
    pub(super) fn is_of_rows(self) -> bool {
        matches!(self, Self::Logits | Self::Sketch)
    }

    /// Whether captures of that version have the channel; in others one of its name is somebody else's.
    pub(super) fn is_in(self, version: FormatVersion) -> bool {
        self != Self::Columns || version.has_columns()
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One message of a capture.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Of the `header` channel.
    Header(Box<Header>),
    /// Of the `request` channel.
    Request(Box<RequestRecord>),
    /// Of the `step` channel.
    Step(Box<StepRecord>),
    /// Of the `mask` channel.
    Mask(MaskRecord),
    /// Of the `logits` channel.
    Logits(LogitsRecord),
    /// Of the `sketch` channel.
    Sketch(SketchRecord),
    /// Of the `event` channel.
    Event(EventRecord),
    /// Of the `loss` channel.
    Loss(LossRecord),
    /// Of the `columns` channel.
    Columns(ColumnsRecord),
}

impl Record {
    /// The channel it belongs to.
    pub fn topic(&self) -> Topic {
        match self {
            Self::Header(_) => Topic::Header,
            Self::Request(_) => Topic::Request,
            Self::Step(_) => Topic::Step,
            Self::Mask(_) => Topic::Mask,
            Self::Logits(_) => Topic::Logits,
            Self::Sketch(_) => Topic::Sketch,
            Self::Event(_) => Topic::Event,
            Self::Loss(_) => Topic::Loss,
            Self::Columns(_) => Topic::Columns,
        }
    }

    /// The message's bytes, in the newest version of the format.
    pub fn encode(&self, encoding: Encoding) -> Result<Vec<u8>, EncodeError> {
        FormatVersion::NEWEST.encode(encoding, self)
    }

    /// Reads a message of `topic`, in the newest version of the format; every byte must belong to it.
    pub fn decode(topic: Topic, encoding: Encoding, bytes: &[u8]) -> Result<Self, DecodeError> {
        FormatVersion::NEWEST.decode_record(topic, encoding, bytes)
    }

    /// Monotonic time of the record itself; `None` where it has none or does not know it.
    pub fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Request(record) => Some(record.time_ns()),
            Self::Step(record) => record.time_ns,
            Self::Event(record) => Some(record.time_ns),
            Self::Loss(record) => Some(record.time_ns),
            Self::Header(_) | Self::Mask(_) | Self::Logits(_) | Self::Sketch(_) | Self::Columns(_) => None,
        }
    }
}

/// `From` for each message type.
macro_rules! record_from {
    ($($variant:ident($record:ty)),*) => {$(
        impl From<$record> for Record {
            fn from(record: $record) -> Self {
                Self::$variant(record.into())
            }
        }
    )*};
}

record_from!(
    Header(Header),
    Request(RequestRecord),
    Step(StepRecord),
    Mask(MaskRecord),
    Logits(LogitsRecord),
    Sketch(SketchRecord),
    Event(EventRecord),
    Loss(LossRecord),
    Columns(ColumnsRecord)
);
