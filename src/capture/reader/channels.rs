//! Which channel id means what in one file.

use std::collections::BTreeMap;

use super::super::codec::Encoding;
use super::super::issue::{IssueKind, Issues};
use super::super::limits::short_name;
use super::super::topic::Topic;
use super::super::upgrade::FormatVersion;
use super::bytes::ChannelRecord;

/// A channel that a capture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) topic: Topic,
    pub(super) encoding: Encoding,
}

/// The channels of a file by id; `None` for one that no capture has, whose messages are skipped.
#[derive(Debug, Default)]
pub(super) struct Channels {
    by_id: BTreeMap<u16, Option<Channel>>,
    /// `None` until a header is found.
    version: Option<FormatVersion>,
}

impl Channels {
    /// Takes in a channel record that stands at `offset`.
    pub(super) fn add(&mut self, content: &[u8], offset: u64, issues: &mut Issues) {
        let end = offset.saturating_add(content.len() as u64);
        let Some(record) = ChannelRecord::parse(content) else {
            return issues.push(IssueKind::Invalid, offset..end, "a channel record that cannot be read");
        };
        let topic = Topic::from_name(record.topic).filter(|topic| self.has(*topic));
        let encoding = Encoding::from_name(record.message_encoding);
        let channel = topic.zip(encoding).map(|(topic, encoding)| Channel { topic, encoding });
        match self.by_id.get(&record.id) {
            Some(known) if *known == channel => return,
            Some(_) => {
                let message =
                    format!("channel {} is declared again, otherwise; the first declaration holds", record.id);
                return issues.push(IssueKind::Contradiction, offset..end, message);
            }
            None => {}
        }
        // Channels of other names are somebody else's business.
        if let (Some(topic), None) = (topic, encoding) {
            let message = format!(
                "channel `{topic}` has message encoding {:?}; bincode, msgpack and json can be read",
                short_name(record.message_encoding)
            );
            issues.push(IssueKind::Invalid, offset..end, message);
        }
        self.by_id.insert(record.id, channel);
    }

    /// Says which version the file has: topics that it lacks are somebody else's.
    pub(super) fn set_version(&mut self, version: FormatVersion) {
        self.version = Some(version);
        for channel in self.by_id.values_mut() {
            *channel = channel.filter(|channel| channel.topic.is_in(version));
        }
    }

    fn has(&self, topic: Topic) -> bool {
        self.version.is_none_or(|version| topic.is_in(version))
    }

    /// The channel of that id, if a capture has it; `Err` for an id that is not declared.
    pub(super) fn get(&self, id: u16) -> Result<Option<Channel>, UnknownChannel> {
        self.by_id.get(&id).copied().ok_or(UnknownChannel)
    }

    /// Whether every message of this id is a payload.
    pub(super) fn is_payload(&self, id: u16) -> bool {
        matches!(self.get(id), Ok(Some(channel)) if channel.topic.is_payload())
    }

    /// Whether every message of this id is the payload of a row.
    pub(super) fn is_of_rows(&self, id: u16) -> bool {
        matches!(self.get(id), Ok(Some(channel)) if channel.topic.is_of_rows())
    }

    /// Declares what Stepscope's own writer would, for ids whose records were lost.
    pub(super) fn assume(&mut self, id: u16) -> Option<Channel> {
        let topic = Topic::ALL.into_iter().find(|topic| topic.channel_id() == id && self.has(*topic))?;
        let encoding = self.by_id.values().flatten().next().map_or(Encoding::Bincode, |channel| channel.encoding);
        let channel = Channel { topic, encoding };
        self.by_id.insert(id, Some(channel));
        Some(channel)
    }
}

/// The id is not declared.
pub(super) struct UnknownChannel;
