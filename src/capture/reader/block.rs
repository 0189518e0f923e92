//! One segment in memory: decompressed, checked against its CRC, and split into messages.

use std::ops::Range;
use std::sync::OnceLock;

use mcap::records::op;

use super::super::error::{CaptureError, Place};
use super::super::limits::{MAX_CHUNK_BYTES, MAX_MESSAGE_BYTES};
use super::super::topic::Topic;
use super::super::upgrade::FormatVersion;
use super::bytes::{Compression, MESSAGE_HEADER, MessageHeader, PREFIX, prefix};
use super::channels::Channels;
use super::index::PayloadKey;
use super::layout::Segment;
use super::payloads::PayloadKeys;
use super::source::Source;

/// A message within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) header: MessageHeader,
    /// Where its content record begins in the block, after the record prefix.
    pub(super) offset: u32,
    length: u32,
}

/// A segment's records.
#[derive(Debug)]
pub(super) struct Block {
    data: Vec<u8>,
    /// Offset of the segment in the file.
    file_offset: u64,
    is_chunk: bool,
    pub(super) slots: Vec<Slot>,
    /// Channel records among the messages: their content.
    pub(super) channels: Vec<Range<usize>>,
    /// What is wrong inside, with the offset in the records; what stands before it is good.
    pub(super) broken: Option<(usize, String)>,
    payload_keys: OnceLock<PayloadKeys>,
    wrong_index: OnceLock<Option<String>>,
}

impl Block {
    /// Reads a segment. An error means that nothing of it can be used.
    pub(super) fn load(source: &Source, segment: &Segment) -> Result<Self, CaptureError> {
        let offset = segment.bytes.start;
        let data = match &segment.chunk {
            None => source.read(offset, (segment.bytes.end - offset) as usize)?,
            Some(chunk) => {
                if chunk.uncompressed_size > MAX_CHUNK_BYTES {
                    let what = format!(
                        "a chunk of {} bytes uncompressed; at most {MAX_CHUNK_BYTES} are accepted",
                        chunk.uncompressed_size
                    );
                    return Err(source.damaged(offset, what));
                }
                let stored = source.read(offset + chunk.data, chunk.compressed_size as usize)?;
                let data = decompress(stored, chunk.compression, chunk.uncompressed_size as usize);
                let data = data.map_err(|what| source.damaged(offset, what))?;
                let found = crc32fast::hash(&data);
                if chunk.crc != 0 && chunk.crc != found {
                    let what = format!("chunk CRC mismatch: expected {:08x}, found {found:08x}", chunk.crc);
                    return Err(source.damaged(offset, what));
                }
                data
            }
        };
        Ok(Self::split(data, offset, segment.chunk.is_some()))
    }

    fn split(data: Vec<u8>, file_offset: u64, is_chunk: bool) -> Self {
        let mut block = Self {
            data,
            file_offset,
            is_chunk,
            slots: Vec::new(),
            channels: Vec::new(),
            broken: None,
            payload_keys: OnceLock::new(),
            wrong_index: OnceLock::new(),
        };
        let mut at = 0;
        while at < block.data.len() {
            match block.record_at(at) {
                Ok(end) => at = end,
                Err(what) => {
                    block.broken = Some((at, what));
                    break;
                }
            }
        }
        block
    }

    /// Takes in the record at `at` and returns its end.
    fn record_at(&mut self, at: usize) -> Result<usize, String> {
        let rest = self.data.get(at..).unwrap_or_default();
        let (opcode, length) = prefix(rest).ok_or("the chunk ends within a record")?;
        let content = usize::try_from(length).ok().and_then(|length| rest.get(PREFIX..)?.get(..length));
        let content = content.ok_or_else(|| format!("a record of {length} bytes reaches past the chunk's end"))?;
        let start = at + PREFIX;
        match opcode {
            op::MESSAGE => {
                let header = MessageHeader::parse(content).ok_or("a message record that is too short")?;
                if content.len() > MAX_MESSAGE_BYTES + MESSAGE_HEADER {
                    return Err(format!("a message of {length} bytes; at most {MAX_MESSAGE_BYTES} are accepted"));
                }
                self.slots.push(Slot { header, offset: start as u32, length: content.len() as u32 });
            }
            op::CHANNEL => self.channels.push(start..start + content.len()),
            // Schemas, and record types of later MCAP versions.
            _ => {}
        }
        Ok(start + content.len())
    }

    /// A message's bytes.
    pub(super) fn message(&self, slot: &Slot) -> &[u8] {
        let start = slot.offset as usize + MESSAGE_HEADER;
        let end = slot.offset as usize + slot.length as usize;
        self.data.get(start..end).unwrap_or_default()
    }

    /// The content of a channel record.
    pub(super) fn channel(&self, range: &Range<usize>) -> &[u8] {
        self.data.get(range.clone()).unwrap_or_default()
    }

    /// The message whose content begins at `offset`.
    pub(super) fn slot_at(&self, offset: u32) -> Option<&Slot> {
        let index = self.slots.binary_search_by_key(&offset, |slot| slot.offset).ok()?;
        self.slots.get(index)
    }

    /// The payloads with that key, found through an index that is made when it is first asked.
    pub(super) fn payloads(
        &self,
        channels: &Channels,
        version: FormatVersion,
        topic: Topic,
        key: PayloadKey,
    ) -> impl ExactSizeIterator<Item = &Slot> {
        self.payload_keys.get_or_init(|| PayloadKeys::new(self, channels, version)).get(topic, key)
    }

    /// How its header or its message indexes disagree with it, by `compare`, which runs once.
    pub(super) fn wrong_index(&self, compare: impl FnOnce() -> Option<String>) -> Option<&str> {
        self.wrong_index.get_or_init(compare).as_deref()
    }

    /// Where a message stands, for people.
    pub(super) fn place(&self, slot: &Slot) -> Place {
        let offset = u64::from(slot.offset) + MESSAGE_HEADER as u64;
        if self.is_chunk {
            Place::Chunk { chunk: self.file_offset, offset }
        } else {
            Place::Bare { offset: self.file_offset + offset }
        }
    }

    /// Bytes it takes in memory.
    pub(super) fn memory(&self) -> usize {
        // Each slot may get an entry in the index of payloads.
        let entry = size_of::<((Topic, PayloadKey), Slot)>();
        size_of::<Self>() + self.data.len() + self.slots.len() * (size_of::<Slot>() + entry)
    }
}

/// Exactly `size` bytes, or what is wrong.
fn decompress(stored: Vec<u8>, compression: Compression, size: usize) -> Result<Vec<u8>, String> {
    let data = match compression {
        Compression::None => stored,
        Compression::Zstd => {
            // Never more than the bounded size is allocated, whatever the frame claims.
            zstd::bulk::decompress(&stored, size).map_err(|error| format!("the chunk does not decompress: {error}"))?
        }
        Compression::Lz4 => {
            return Err(
                "the chunk is compressed with lz4; a capture may use zstd only (`mcap compress` converts)".into()
            );
        }
    };
    if data.len() != size {
        return Err(format!("the chunk has {} bytes uncompressed, its header says {size}", data.len()));
    }
    Ok(data)
}
