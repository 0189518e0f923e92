//! What the loss records of a capture account for.

use std::collections::BTreeMap;

use super::super::error::CaptureError;
use super::super::limits::{MAX_ISSUES, shortened};
use super::super::reader::CaptureReader;
use super::super::records::LossRecord;
use super::super::topic::Topic;

/// The loss records: which steps they cover, and the first of them in words.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Steps by channel; `None` is any channel.
    channels: BTreeMap<Option<Topic>, Covered>,
    words: Vec<String>,
    more: u64,
}

/// The steps of one channel that losses may be about.
#[derive(Debug, Default)]
struct Covered {
    /// A record that names no steps may be about any.
    all: bool,
    /// First and last, disjoint and in order once they are merged.
    ranges: Vec<(u64, u64)>,
}

impl Losses {
    pub(super) fn read(reader: &CaptureReader) -> Result<Self, CaptureError> {
        let mut losses = Self::default();
        for loss in reader.losses() {
            match loss {
                Ok(loss) => losses.add(&loss),
                Err(error @ CaptureError::Io { .. }) => return Err(error),
                // The pass over all messages tells of it.
                Err(_) => {}
            }
        }
        losses.channels.values_mut().for_each(Covered::merge);
        Ok(losses)
    }

    fn add(&mut self, loss: &LossRecord) {
        if self.words.len() < MAX_ISSUES {
            self.words.push(in_words(loss));
        } else {
            self.more += 1;
        }
        let topic = Topic::from_name(&loss.channel);
        // A loss of a channel that captures do not have covers nothing.
        if topic.is_none() && loss.channel != "*" {
            return;
        }
        let covered = self.channels.entry(topic).or_default();
        match loss.steps {
            Some(range) => covered.ranges.push(range),
            None => covered.all = true,
        }
    }

    /// Whether a loss record may be about a message of that channel (and step, if it is about one).
    pub(super) fn cover(&self, topic: Topic, step: Option<u64>) -> bool {
        [None, Some(topic)].iter().filter_map(|channel| self.channels.get(channel)).any(|covered| covered.covers(step))
    }

    /// One line per loss record, as far as they are told one by one.
    pub(super) fn in_words(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("lost: {} more loss records, not told one by one", self.more));
        self.words.iter().cloned().chain(more).collect()
    }
}

impl Covered {
    fn merge(&mut self) {
        self.ranges.retain(|(first, last)| first <= last);
        self.ranges.sort_unstable();
        self.ranges.dedup_by(|next, merged| {
            let meets = next.0 <= merged.1;
            if meets {
                merged.1 = merged.1.max(next.1);
            }
            meets
        });
    }

    fn covers(&self, step: Option<u64>) -> bool {
        let Some(step) = step else { return self.all || !self.ranges.is_empty() };
        let behind = self.ranges.partition_point(|(first, _)| *first <= step);
        let last = behind.checked_sub(1).and_then(|index| self.ranges.get(index));
        self.all || last.is_some_and(|(_, last)| step <= *last)
    }
}

/// A loss record as one line.
fn in_words(loss: &LossRecord) -> String {
    let messages = loss.messages.map_or("an unknown number of".to_owned(), |messages| messages.to_string());
    let bytes = loss.bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
    let steps = loss.steps.map_or(String::new(), |(first, last)| format!(", steps {first} to {last}"));
    let channel = if loss.channel == "*" { "any channel".to_owned() } else { format!("`{}`", loss.channel) };
    shortened(format!("lost: {messages} messages of {channel}{bytes}{steps}: {}", loss.reason))
}
