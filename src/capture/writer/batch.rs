//! Encoded messages that will form one chunk.

use std::ops::Range;
use std::time::Instant;

use mcap::records::MessageHeader;

#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    messages: Vec<(MessageHeader, Range<usize>)>,
    /// When the first message came.
    since: Option<Instant>,
    /// Size in bytes at which it is full.
    target: usize,
}

impl Batch {
    pub(super) fn new(target: usize) -> Self {
        Self { bytes: Vec::new(), messages: Vec::new(), since: None, target }
    }

    pub(super) fn push(&mut self, header: MessageHeader, message: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.messages.push((header, start..self.bytes.len()));
        self.since.get_or_insert_with(Instant::now);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= self.target
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// When its oldest message came.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = (&MessageHeader, &[u8])> {
        self.messages.iter().map(|(header, range)| (header, &self.bytes[range.clone()]))
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.messages.clear();
        self.since = None;
    }
}
