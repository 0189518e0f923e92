//! Where everything stands in a file: one pass over the record prefixes, without reading what is in the chunks.
//!
//! The pass needs no index and trusts none. After bytes that are no record it looks for the next chunk.

use std::ops::Range;

use mcap::MAGIC;
use mcap::records::op;

use super::super::error::CaptureError;
use super::super::issue::{IssueKind, Issues};
use super::super::limits::{MAX_CHUNK_BYTES, MAX_MESSAGE_BYTES, MAX_OTHER_RECORD_BYTES, MAX_SEGMENTS};
use super::bytes::{CHUNK_START, ChunkHeader, MESSAGE_HEADER, PREFIX, prefix, read_u16, read_u32, read_u64};
use super::channels::Channels;
use super::source::Source;

/// A chunk, or a run of messages outside chunks.
#[derive(Debug)]
pub(super) struct Segment {
    /// The bytes in the file, the record's prefix included.
    pub(super) bytes: Range<u64>,
    /// `None` for a run of bare messages.
    pub(super) chunk: Option<ChunkHeader>,
    /// Messages per channel id, from the message indexes after the chunk; `None` when there are none.
    pub(super) counts: Option<Vec<(u16, u64)>>,
}

/// A file's layout.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) segments: Vec<Segment>,
    pub(super) channels: Channels,
    pub(super) issues: Issues,
    /// The data section's end and CRC (0: none), if the end is there.
    pub(super) data_end: Option<(u64, u32)>,
    /// Whether the file ends as a finished file does.
    pub(super) is_finished: bool,
    /// Messages per channel id, from the summary.
    pub(super) summary_counts: Option<Vec<(u16, u64)>>,
    /// Where a message index of the last chunk would stand.
    index_at: u64,
}

/// Bytes of bare messages that make up one segment.
const BARE_SEGMENT_BYTES: u64 = 1 << 20;
/// Bytes of one entry of a message index.
const MESSAGE_INDEX_ENTRY: u64 = 16;
/// How many channels there can be.
const CHANNEL_IDS: usize = 1 << 16;
/// Bytes looked through first for the next record, and at a time: the next one is often near, and may be far.
const SEARCH_WINDOWS: std::ops::RangeInclusive<usize> = 4 << 10..=1 << 20;

impl Layout {
    pub(super) fn read(source: &Source) -> Result<Self, CaptureError> {
        let path = || source.path().to_owned();
        if source.read_up_to(0, MAGIC.len())? != MAGIC {
            return Err(CaptureError::NotMcap { path: path() });
        }
        let mut layout = Self { is_finished: ends_with_footer(source)?, ..Self::default() };
        let mut offset = layout.read_header(source, MAGIC.len() as u64)?;
        while offset < source.length() {
            let start = source.read_up_to(offset, CHUNK_START)?;
            offset = match layout.read_record(source, offset, &start)? {
                Some(Next::At(next)) => next,
                Some(Next::End) => break,
                None => match layout.next_record(source, offset)? {
                    Some(next) => {
                        layout.issues.push(IssueKind::Damaged, offset..next, "not a record of an MCAP file");
                        next
                    }
                    None => {
                        layout.report_tail(offset..source.length());
                        break;
                    }
                },
            };
            if layout.segments.len() >= MAX_SEGMENTS {
                let what = format!("more than {MAX_SEGMENTS} chunks; the rest is not read");
                layout.issues.push(IssueKind::Limit, offset..source.length(), what);
                break;
            }
        }
        if !layout.is_finished {
            layout.doubt_indexes(source.length());
        }
        if !layout.is_finished && layout.issues.iter().all(|issue| issue.kind != IssueKind::Cut) {
            layout.issues.push(IssueKind::Cut, None, "the recording was not finished: the file has no end");
        }
        Ok(layout)
    }

    /// The MCAP header record, which says whose file this is.
    fn read_header(&mut self, source: &Source, offset: u64) -> Result<u64, CaptureError> {
        let start = source.read_up_to(offset, PREFIX + 4 + 64)?;
        let profile = match prefix(&start) {
            Some((op::HEADER, _)) => {
                read_u32(&start, PREFIX).and_then(|length| start.get(PREFIX + 4..)?.get(..length as usize))
            }
            _ => None,
        };
        match profile {
            Some(profile) if profile == super::super::writer::PROFILE.as_bytes() => {}
            Some(profile) => {
                let profile = String::from_utf8_lossy(profile).into_owned();
                return Err(CaptureError::OtherProfile { path: source.path().to_owned(), profile });
            }
            None => {
                self.issues.push(IssueKind::Damaged, offset..offset, "the MCAP header is not readable");
                return Ok(offset);
            }
        }
        let length = prefix(&start).map_or(0, |(_, length)| length);
        let end = length.checked_add(offset + PREFIX as u64).filter(|end| *end <= source.length());
        Ok(end.unwrap_or(offset))
    }

    /// Takes in the record at `offset`; `None` when there is none.
    fn read_record(&mut self, source: &Source, offset: u64, start: &[u8]) -> Result<Option<Next>, CaptureError> {
        let Some((opcode, length)) = prefix(start) else { return Ok(None) };
        let content = offset + PREFIX as u64;
        let Some(end) = content.checked_add(length).filter(|end| *end <= source.length()) else { return Ok(None) };
        let limit = match opcode {
            op::CHUNK => MAX_CHUNK_BYTES + CHUNK_START as u64,
            op::MESSAGE => (MAX_MESSAGE_BYTES + MESSAGE_HEADER) as u64,
            op::ATTACHMENT | 0x80.. => u64::MAX,
            _ => MAX_OTHER_RECORD_BYTES,
        };
        if length > limit {
            return Ok(None);
        }
        match opcode {
            op::CHUNK => {
                let Some(chunk) = ChunkHeader::parse(start, length) else { return Ok(None) };
                self.segments.push(Segment { bytes: offset..end, chunk: Some(chunk), counts: None });
                self.index_at = end;
            }
            op::MESSAGE_INDEX => {
                let Some(channel) = read_u16(start, PREFIX) else { return Ok(None) };
                let bytes = read_u32(start, PREFIX + 2).filter(|bytes| length == 2 + 4 + u64::from(*bytes));
                let Some(bytes) = bytes else { return Ok(None) };
                self.add_message_index(offset..end, channel, u64::from(bytes) / MESSAGE_INDEX_ENTRY);
            }
            op::MESSAGE => self.add_bare_message(offset..end),
            op::CHANNEL => {
                let bytes = source.read(content, length as usize)?;
                self.channels.add(&bytes, offset, &mut self.issues);
            }
            op::STATISTICS => {
                let bytes = source.read(content, length as usize)?;
                self.summary_counts = statistics_counts(&bytes);
            }
            op::DATA_END => {
                let crc = read_u32(start, PREFIX).unwrap_or(0);
                self.data_end.get_or_insert((offset, crc));
            }
            // A footer elsewhere is a damaged opcode, and must not end the reading.
            op::FOOTER if self.is_finished && end + MAGIC.len() as u64 == source.length() => {
                return Ok(Some(Next::End));
            }
            op::HEADER
            | op::SCHEMA
            | op::CHUNK_INDEX
            | op::ATTACHMENT..=op::ATTACHMENT_INDEX
            | op::METADATA..=op::SUMMARY_OFFSET
            | 0x80.. => {}
            _ => return Ok(None),
        }
        Ok(Some(Next::At(end)))
    }

    /// Where reading goes on after bytes at `offset` that are no record.
    fn next_record(&mut self, source: &Source, offset: u64) -> Result<Option<u64>, CaptureError> {
        self.doubt_indexes(offset);
        find_record(source, offset + 1)
    }

    /// Forgets the message indexes that end at `offset`: where the file is damaged or ends there, further ones of the same
    /// chunk may be missing.
    fn doubt_indexes(&mut self, offset: u64) {
        if let Some(segment) = self.segments.last_mut().filter(|_| self.index_at == offset) {
            segment.counts = None;
        }
    }

    /// Message indexes follow their chunk directly; one that does not betrays a chunk that was not recognized.
    fn add_message_index(&mut self, bytes: Range<u64>, channel: u16, count: u64) {
        match self.segments.last_mut() {
            Some(segment) if self.index_at == bytes.start && segment.chunk.is_some() => {
                let counts = segment.counts.get_or_insert_default();
                if counts.len() < CHANNEL_IDS {
                    counts.push((channel, count));
                }
                self.index_at = bytes.end;
            }
            _ => self.issues.push(IssueKind::Damaged, bytes, "a message index without its chunk"),
        }
    }

    fn add_bare_message(&mut self, bytes: Range<u64>) {
        match self.segments.last_mut() {
            Some(segment)
                if segment.chunk.is_none()
                    && segment.bytes.end == bytes.start
                    && bytes.end - segment.bytes.start <= BARE_SEGMENT_BYTES =>
            {
                segment.bytes.end = bytes.end;
            }
            _ => self.segments.push(Segment { bytes, chunk: None, counts: None }),
        }
    }

    /// What remains and holds no further record: the cut last record of an unfinished file, or damage.
    fn report_tail(&mut self, bytes: Range<u64>) {
        if self.is_finished {
            self.issues.push(IssueKind::Damaged, bytes, "no records up to the end of the file");
        } else {
            let message = "the recording was not finished: the file ends within a record";
            self.issues.push(IssueKind::Cut, bytes, message);
        }
    }
}

/// Where reading goes on.
enum Next {
    At(u64),
    /// Nothing follows.
    End,
}

/// Whether the file ends with a footer and the magic bytes.
fn ends_with_footer(source: &Source) -> Result<bool, CaptureError> {
    const FOOTER: usize = PREFIX + 8 + 8 + 4;
    let Some(offset) = source.length().checked_sub((FOOTER + MAGIC.len()) as u64) else { return Ok(false) };
    let end = source.read(offset, FOOTER + MAGIC.len())?;
    Ok(end.ends_with(MAGIC) && prefix(&end) == Some((op::FOOTER, (FOOTER - PREFIX) as u64)))
}

/// The offset of the next chunk, or of the end of the data section, at or after `from`.
fn find_record(source: &Source, from: u64) -> Result<Option<u64>, CaptureError> {
    const DATA_END: [u8; PREFIX] = [op::DATA_END, 4, 0, 0, 0, 0, 0, 0, 0];
    let (mut base, mut size) = (from, *SEARCH_WINDOWS.start());
    while base < source.length() {
        // Windows overlap by the longest thing looked for.
        let window = source.read_up_to(base, size + CHUNK_START)?;
        for at in 0..window.len().min(size) {
            let candidate = window.get(at..).unwrap_or_default();
            let offset = base + at as u64;
            let is_record = match prefix(candidate) {
                Some((op::CHUNK, length)) => {
                    let end = offset.checked_add(PREFIX as u64).and_then(|content| content.checked_add(length));
                    end.is_some_and(|end| end <= source.length())
                        && length <= MAX_CHUNK_BYTES + CHUNK_START as u64
                        && ChunkHeader::parse(candidate, length).is_some()
                }
                Some((op::DATA_END, _)) => candidate.starts_with(&DATA_END),
                _ => false,
            };
            if is_record {
                return Ok(Some(offset));
            }
        }
        base += size as u64;
        size = (size * 4).min(*SEARCH_WINDOWS.end());
    }
    Ok(None)
}

/// Messages per channel of a statistics record.
fn statistics_counts(content: &[u8]) -> Option<Vec<(u16, u64)>> {
    const ENTRY: usize = 2 + 8;
    const COUNTS: usize = 8 + 2 + 4 + 4 + 4 + 4 + 8 + 8;
    let length = read_u32(content, COUNTS)? as usize;
    let entries = content.get(COUNTS + 4..)?.get(..length)?;
    if entries.len() > CHANNEL_IDS * ENTRY {
        return None;
    }
    entries.chunks_exact(ENTRY).map(|entry| Some((read_u16(entry, 0)?, read_u64(entry, 2)?))).collect()
}
