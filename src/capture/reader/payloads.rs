//! Finding payloads of rows by time: such a message has its step's time, and a chunk's header says which times it holds.

use super::super::topic::Topic;
use super::super::upgrade::FormatVersion;
use super::block::{Block, Slot};
use super::channels::Channels;
use super::index::PayloadKey;
use super::layout::Segment;

/// The segments that may hold payloads of rows, ordered by the first time they hold.
#[derive(Debug, Default)]
pub(super) struct PayloadSegments {
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    segment: u32,
    first: u64,
    last: u64,
    /// Greatest `last` of this entry and all before it.
    last_so_far: u64,
}

impl PayloadSegments {
    pub(super) fn new(segments: &[Segment], channels: &Channels) -> Self {
        let may_hold_some = |segment: &Segment| match &segment.counts {
            Some(counts) => counts.iter().any(|(channel, _)| channels.is_of_rows(*channel)),
            None => true,
        };
        let mut entries: Vec<Entry> = (0_u32..)
            .zip(segments)
            .filter(|(_, segment)| may_hold_some(segment))
            .map(|(index, segment)| {
                let (first, last) = segment.chunk.map_or((0, u64::MAX), |chunk| chunk.log_times);
                Entry { segment: index, first, last, last_so_far: 0 }
            })
            .collect();
        entries.sort_by_key(|entry| entry.first);
        let mut last_so_far = 0;
        for entry in &mut entries {
            last_so_far = entry.last.max(last_so_far);
            entry.last_so_far = last_so_far;
        }
        Self { entries }
    }

    /// The segments that hold messages of that time.
    pub(super) fn at(&self, log_time: u64) -> impl Iterator<Item = u32> {
        let end = self.entries.partition_point(|entry| entry.first <= log_time);
        let candidates = self.entries.get(..end).unwrap_or_default().iter().rev();
        candidates
            .take_while(move |entry| entry.last_so_far >= log_time)
            .filter(move |entry| entry.last >= log_time)
            .map(|entry| entry.segment)
    }
}

/// The payloads of rows of one block, sorted by key; of sketches there are several to a key.
#[derive(Debug, Default)]
pub(super) struct PayloadKeys(Vec<((Topic, PayloadKey), Slot)>);

impl PayloadKeys {
    pub(super) fn new(block: &Block, channels: &Channels, version: FormatVersion) -> Self {
        let mut keys = Vec::new();
        for slot in &block.slots {
            let Ok(Some(channel)) = channels.get(slot.header.channel) else { continue };
            if !channel.topic.is_of_rows() {
                continue;
            }
            // What cannot be decoded is not found; `verify` names it.
            if let Ok(key) = version.decode_key::<PayloadKey>(channel.encoding, block.message(slot)) {
                keys.push(((channel.topic, key), *slot));
            }
        }
        // Stable, so that messages of one key stay in file order.
        keys.sort_by_key(|(key, _)| *key);
        Self(keys)
    }

    pub(super) fn get(&self, topic: Topic, key: PayloadKey) -> impl ExactSizeIterator<Item = &Slot> {
        let wanted = (topic, key);
        let start = self.0.partition_point(|(key, _)| *key < wanted);
        let end = self.0.partition_point(|(key, _)| *key <= wanted);
        self.0.get(start..end).unwrap_or_default().iter().map(|(_, slot)| slot)
    }
}
