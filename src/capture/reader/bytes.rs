//! The MCAP record prefix and the two headers that every byte of a capture stands behind.

/// Opcode and length.
pub(super) const PREFIX: usize = 1 + 8;
/// A chunk's header without its compression string.
const CHUNK_HEADER: usize = 8 + 8 + 8 + 4 + 4 + 8;
/// Channel, sequence, log time, publish time.
pub(super) const MESSAGE_HEADER: usize = 2 + 4 + 8 + 8;

/// An unsigned little-endian integer at `offset`.
macro_rules! read_integer {
    ($name:ident, $integer:ty) => {
        pub(super) fn $name(bytes: &[u8], offset: usize) -> Option<$integer> {
            let bytes = bytes.get(offset..)?.first_chunk()?;
            Some(<$integer>::from_le_bytes(*bytes))
        }
    };
}

read_integer!(read_u16, u16);
read_integer!(read_u32, u32);
read_integer!(read_u64, u64);

/// Opcode and content length of the record that `bytes` begins with.
pub(super) fn prefix(bytes: &[u8]) -> Option<(u8, u64)> {
    Some((*bytes.first()?, read_u64(bytes, 1)?))
}

/// How a chunk's records are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Zstd,
    /// Known to MCAP, but not allowed in a capture.
    Lz4,
}

/// The header of a chunk record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    pub(super) log_times: (u64, u64),
    pub(super) uncompressed_size: u64,
    /// Of the uncompressed records; 0 when the recorder made none.
    pub(super) crc: u32,
    pub(super) compression: Compression,
    /// Offset of the records from the chunk record's prefix.
    pub(super) data: u64,
    pub(super) compressed_size: u64,
}

/// Longest prefix and header of a chunk.
pub(super) const CHUNK_START: usize = PREFIX + CHUNK_HEADER + 4;

impl ChunkHeader {
    /// Reads the header of a chunk record of `length` content bytes; `bytes` begins with the record's prefix.
    ///
    /// `None` when its sizes disagree: a wrong length would swallow the chunks after it.
    pub(super) fn parse(bytes: &[u8], length: u64) -> Option<Self> {
        let content = bytes.get(PREFIX..)?;
        let name_length = read_u32(content, 28)? as usize;
        if name_length > 4 {
            return None;
        }
        let compression = match content.get(32..32 + name_length)? {
            b"" => Compression::None,
            b"zstd" => Compression::Zstd,
            b"lz4" => Compression::Lz4,
            _ => return None,
        };
        let header_length = (CHUNK_HEADER + name_length) as u64;
        let compressed_size = read_u64(content, 32 + name_length)?;
        if compressed_size.checked_add(header_length)? != length {
            return None;
        }
        Some(Self {
            log_times: (read_u64(content, 0)?, read_u64(content, 8)?),
            uncompressed_size: read_u64(content, 16)?,
            crc: read_u32(content, 24)?,
            compression,
            data: PREFIX as u64 + header_length,
            compressed_size,
        })
    }
}

/// The header of a message record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageHeader {
    pub(super) channel: u16,
    pub(super) sequence: u32,
    pub(super) log_time: u64,
}

impl MessageHeader {
    /// Reads a message record's content.
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        if content.len() < MESSAGE_HEADER {
            return None;
        }
        Some(Self { channel: read_u16(content, 0)?, sequence: read_u32(content, 2)?, log_time: read_u64(content, 6)? })
    }
}

/// What a capture needs of a channel record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelRecord<'a> {
    pub(super) id: u16,
    pub(super) topic: &'a str,
    pub(super) message_encoding: &'a str,
}

impl<'a> ChannelRecord<'a> {
    /// Reads a channel record's content.
    pub(super) fn parse(content: &'a [u8]) -> Option<Self> {
        let (topic, end) = read_string(content, 2 + 2)?;
        let (message_encoding, _) = read_string(content, end)?;
        Some(Self { id: read_u16(content, 0)?, topic, message_encoding })
    }
}

/// A string behind its length, and where it ends.
fn read_string(bytes: &[u8], offset: usize) -> Option<(&str, usize)> {
    let length = read_u32(bytes, offset)? as usize;
    let start = offset + 4;
    let text = bytes.get(start..)?.get(..length)?;
    Some((std::str::from_utf8(text).ok()?, start + length))
}
