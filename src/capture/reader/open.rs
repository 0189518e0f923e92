//! Opening: from the layout of a file to an index of its records, and to what is wrong with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::super::codec::DecodeError;
use super::super::error::CaptureError;
use super::super::issue::{Issue, IssueKind};
use super::super::limits::{MAX_NOTE_BYTES, NOTE_BYTES, indexed_messages};
use super::super::records::Header;
use super::super::topic::Topic;
use super::super::upgrade::{FormatVersion, UnknownVersion};
use super::block::{Block, Slot};
use super::cache::Cache;
use super::channels::Channel;
use super::index::{Index, Location, Rejected};
use super::layout::{Layout, Segment};
use super::source::Source;

/// What is believed of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Message indexes: a chunk that is said to hold payloads alone is not read on opening.
    Indexes,
    /// Every chunk is read on opening.
    Nothing,
}

/// A segment's block, from the cache or the file.
pub(super) fn load(source: &Source, layout: &Layout, cache: &Cache, segment: u32) -> Result<Arc<Block>, CaptureError> {
    cache.get(segment, || match layout.segments.get(segment as usize) {
        Some(found) => Block::load(source, found),
        None => Err(source.damaged(0, "the file changed while it was read")),
    })
}

/// The first field of a header, which every version has.
#[derive(Deserialize)]
struct VersionKey {
    format_version: u32,
}

/// The first header that can be read.
pub(super) fn find_header(
    source: &Source,
    layout: &mut Layout,
    cache: &Cache,
    trust: Trust,
) -> Result<(FormatVersion, Header), CaptureError> {
    let path = || source.path().to_owned();
    let mut why = "there is none".to_owned();
    for segment in 0..layout.segments.len() as u32 {
        if trust == Trust::Indexes && holds_only_payloads(layout, segment) {
            continue;
        }
        let block = match load(source, layout, cache, segment) {
            Ok(block) => block,
            Err(CaptureError::Damaged { offset, what, .. }) => {
                why = format!("the chunk at byte {offset} is damaged: {what}");
                continue;
            }
            Err(error) => return Err(error),
        };
        register_channels(layout, &block, segment);
        for slot in &block.slots {
            let Some(Channel { topic: Topic::Header, encoding }) = channel_of(layout, slot) else { continue };
            let message = block.message(slot);
            let key = super::decode_prefix::<VersionKey>(encoding, message);
            let version = match key.map(|(key, _)| FormatVersion::new(key.format_version)) {
                Ok(Ok(version)) => version,
                Ok(Err(UnknownVersion::Newer(found))) => return Err(CaptureError::NewerFormat { path: path(), found }),
                Ok(Err(UnknownVersion::Never(found))) => {
                    why = format!("{}: there is no capture format {found}", block.place(slot));
                    continue;
                }
                Err(error) => {
                    why = format!("{}: {error}", block.place(slot));
                    continue;
                }
            };
            match version.decode(encoding, message) {
                Ok(header) => {
                    layout.channels.set_version(version);
                    return Ok((version, header));
                }
                Err(error) => why = format!("{}: {error}", block.place(slot)),
            }
        }
    }
    Err(CaptureError::NoHeader { path: path(), why })
}

/// Reads every segment that holds more than payloads.
pub(super) fn build_index(
    source: &Source,
    layout: &mut Layout,
    cache: &Cache,
    version: FormatVersion,
    header: &Header,
    trust: Trust,
) -> Result<Index, CaptureError> {
    let limit = indexed_messages(source.length());
    let mut index = Index::new(limit);
    let mut seen: BTreeMap<u16, Seen> = BTreeMap::new();
    let mut notes_left_out = 0_u64;
    for segment in 0..layout.segments.len() as u32 {
        if trust == Trust::Indexes && holds_only_payloads(layout, segment) {
            continue;
        }
        let block = match load(source, layout, cache, segment) {
            Ok(block) => block,
            Err(CaptureError::Damaged { what, .. }) => {
                report_damage(layout, segment, &what);
                continue;
            }
            Err(error) => return Err(error),
        };
        register_channels(layout, &block, segment);
        if let Some((at, what)) = &block.broken {
            let message = format!("byte {at} of its records: {what}; what follows in it is not read");
            layout.issues.push(IssueKind::Invalid, bytes_of(layout, segment), message);
        }
        if let Some(what) = wrong_index(layout, segment, &block) {
            layout.issues.push(IssueKind::Invalid, bytes_of(layout, segment), what);
        }
        for slot in &block.slots {
            let Some(Channel { topic, encoding }) = channel_of(layout, slot) else { continue };
            seen.entry(slot.header.channel).or_default().add(slot.header.sequence);
            let location = Location { segment, offset: slot.offset };
            match index.add(version, topic, encoding, block.message(slot), location) {
                Ok(()) => {}
                Err(Rejected::Undecodable(error)) => report_undecodable(layout, &block, slot, topic, &error),
                Err(Rejected::Full) => {
                    let message = format!("more than {limit} messages; the rest is not read");
                    layout.issues.push(IssueKind::Limit, bytes_of(layout, segment), message);
                    return Ok(index);
                }
                Err(Rejected::NotesFull) => notes_left_out += 1,
            }
            if topic == Topic::Header
                && !matches!(version.decode(encoding, block.message(slot)), Ok(same) if header == &same)
            {
                let message = format!("`header` message {}: it differs from the first, which holds", block.place(slot));
                layout.issues.push(IssueKind::Contradiction, None, message);
            }
        }
    }
    if notes_left_out > 0 {
        let message = format!(
            "more than {MAX_NOTE_BYTES} bytes of events and losses ({NOTE_BYTES} added for each); {notes_left_out} are not read"
        );
        layout.issues.push(IssueKind::Limit, None, message);
    }
    report_missing(layout, &seen);
    Ok(index)
}

/// A sequence's steps that stand in the file more than once: the first holds.
pub(super) fn report_repeated(source: &Source, layout: &mut Layout, cache: &Cache, index: &mut Index) {
    for (sequence, step, first, later) in index.sort() {
        let bytes = |location: Location| {
            let block = load(source, layout, cache, location.segment).ok()?;
            let slot = block.slot_at(location.offset)?;
            Some(block.message(slot).to_vec())
        };
        let kind = if bytes(first) == bytes(later) { IssueKind::Duplicate } else { IssueKind::Contradiction };
        let message = format!("step {step} of request {sequence} is recorded more than once; the first record holds");
        layout.issues.push(kind, None, message);
    }
    for (request, records) in &index.requests {
        let mut choices: Vec<u32> = records.completions.iter().map(|(choice, _)| *choice).collect();
        choices.sort_unstable();
        let repeated_end = choices.windows(2).any(|pair| pair[0] == pair[1]);
        let starts = records.admissions.len() + records.refusals.len();
        if starts > 1 || repeated_end {
            let what = if starts > 1 { "begins" } else { "ends" };
            let message = format!("request {request} {what} more than once; the first record holds");
            layout.issues.push(IssueKind::Contradiction, None, message);
        }
    }
}

/// Whether a segment can be skipped: its index names payload channels alone.
fn holds_only_payloads(layout: &Layout, segment: u32) -> bool {
    let counts = layout.segments.get(segment as usize).and_then(|segment| segment.counts.as_ref());
    counts.is_some_and(|counts| counts.iter().all(|(channel, _)| layout.channels.is_payload(*channel)))
}

/// How a chunk's header and its message indexes, if it has any, disagree with the messages it holds.
pub(super) fn wrong_index<'a>(layout: &Layout, segment: u32, block: &'a Block) -> Option<&'a str> {
    block.wrong_index(|| {
        let segment = layout.segments.get(segment as usize).filter(|_| block.broken.is_none())?;
        compare_times(segment, block).or_else(|| compare_counts(layout, segment, block))
    })
}

fn compare_times(segment: &Segment, block: &Block) -> Option<String> {
    let (first, last) = segment.chunk.as_ref()?.log_times;
    let mut times = block.slots.iter().map(|slot| slot.header.log_time);
    let outside = times.find(|time| !(first..=last).contains(time))?;
    Some(format!("the chunk's header says that its messages are of times {first} to {last}, one is of {outside}"))
}

fn compare_counts(layout: &Layout, segment: &Segment, block: &Block) -> Option<String> {
    let indexed = segment.counts.as_ref()?;
    let mut counts: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (channel, count) in indexed {
        let said = &mut counts.entry(*channel).or_default().0;
        *said = said.saturating_add(*count);
    }
    for slot in &block.slots {
        counts.entry(slot.header.channel).or_default().1 += 1;
    }
    let (channel, (said, held)) = counts.into_iter().find(|(_, (said, held))| said != held)?;
    let name = match layout.channels.get(channel) {
        Ok(Some(channel)) => format!("`{}`", channel.topic),
        _ => format!("channel {channel}"),
    };
    Some(format!("the chunk's message indexes list {said} messages of {name}, it holds {held}"))
}

fn register_channels(layout: &mut Layout, block: &Block, segment: u32) {
    let offset = layout.segments.get(segment as usize).map_or(0, |segment| segment.bytes.start);
    for range in &block.channels {
        layout.channels.add(block.channel(range), offset, &mut layout.issues);
    }
}

/// A message's channel. One that is not declared (its record was lost) is taken for what Stepscope's writer means.
fn channel_of(layout: &mut Layout, slot: &Slot) -> Option<Channel> {
    let id = slot.header.channel;
    if let Ok(channel) = layout.channels.get(id) {
        return channel;
    }
    let assumed = layout.channels.assume(id);
    let message = match assumed {
        Some(Channel { topic, encoding }) => {
            let encoding = encoding.name();
            format!("channel {id} is not declared; taken for `{topic}` in {encoding}, as Stepscope numbers them")
        }
        None => format!("channel {id} is not declared; its messages are not read"),
    };
    layout.issues.push(IssueKind::Missing, None, message);
    assumed
}

fn bytes_of(layout: &Layout, segment: u32) -> Option<std::ops::Range<u64>> {
    layout.segments.get(segment as usize).map(|segment| segment.bytes.clone())
}

fn report_damage(layout: &mut Layout, segment: u32, what: &str) {
    let Some(Segment { bytes, counts, .. }) = layout.segments.get(segment as usize) else { return };
    let held = counts.iter().flatten().filter_map(|(id, count)| {
        let channel = layout.channels.get(*id).ok()??;
        Some(format!("{count} {}", channel.topic))
    });
    let held: Vec<String> = held.collect();
    let held = if held.is_empty() { "messages unknown".to_owned() } else { held.join(", ") };
    layout.issues.push(IssueKind::Damaged, bytes.clone(), format!("{what}; the chunk is skipped (it held: {held})"));
}

fn report_undecodable(layout: &mut Layout, block: &Block, slot: &Slot, topic: Topic, error: &DecodeError) {
    let message = format!("`{topic}` message {}: {error}", block.place(slot));
    layout.issues.push(IssueKind::Invalid, None, message);
}

/// Messages of one channel as they come by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    messages: u64,
    counted: u64,
    highest: u32,
}

impl Seen {
    pub(super) fn add(&mut self, sequence: u32) {
        self.messages += 1;
        if sequence != 0 {
            self.counted += 1;
            self.highest = self.highest.max(sequence);
        }
    }

    /// How many are gone, judged by the numbers of those that are here, or by the file's own total.
    pub(super) fn missing(&self, total: Option<u64>) -> u64 {
        let by_number = u64::from(self.highest).saturating_sub(self.counted);
        by_number.max(total.unwrap_or(0).saturating_sub(self.messages))
    }
}

/// Compares what was read with the messages' own numbers and with the summary.
fn report_missing(layout: &mut Layout, seen: &BTreeMap<u16, Seen>) {
    let totals: BTreeMap<u16, u64> = layout.summary_counts.iter().flatten().copied().collect();
    for id in 0..=u16::MAX {
        if layout.channels.is_payload(id) {
            continue;
        }
        let Ok(Some(Channel { topic, .. })) = layout.channels.get(id) else { continue };
        let missing = seen.get(&id).copied().unwrap_or_default().missing(totals.get(&id).copied());
        if missing > 0 {
            layout.issues.push_issue(Issue {
                kind: IssueKind::Missing,
                bytes: None,
                lost: vec![(topic, missing)],
                message: format!("{missing} `{topic}` messages are not here"),
            });
        }
    }
}
