//! What the loss records of a capture account for.

use super::super::error::CaptureError;
use super::super::reader::CaptureReader;
use super::super::records::LossRecord;
use super::super::topic::Topic;

#[derive(Debug, Default)]
pub(super) struct Losses {
    records: Vec<LossRecord>,
}

impl Losses {
    pub(super) fn read(reader: &CaptureReader) -> Result<Self, CaptureError> {
        let mut records = Vec::new();
        for loss in reader.losses() {
            match loss {
                Ok(loss) => records.push(loss),
                Err(error @ CaptureError::Io { .. }) => return Err(error),
                // The pass over all messages tells of it.
                Err(_) => {}
            }
        }
        Ok(Self { records })
    }

    /// Whether a loss record may be about a message of that channel (and step, if it is about one).
    pub(super) fn cover(&self, topic: Topic, step: Option<u64>) -> bool {
        self.records.iter().any(|loss| {
            let same_channel = loss.channel == topic.name() || loss.channel == "*";
            let same_step = match (loss.steps, step) {
                (Some((first, last)), Some(step)) => (first..=last).contains(&step),
                _ => true,
            };
            same_channel && same_step
        })
    }

    pub(super) fn in_words(&self) -> Vec<String> {
        self.records.iter().map(in_words).collect()
    }
}

/// A loss record as one line.
fn in_words(loss: &LossRecord) -> String {
    let messages = loss.messages.map_or("an unknown number of".to_owned(), |messages| messages.to_string());
    let bytes = loss.bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
    let steps = loss.steps.map_or(String::new(), |(first, last)| format!(", steps {first} to {last}"));
    let channel = if loss.channel == "*" { "any channel".to_owned() } else { format!("`{}`", loss.channel) };
    format!("lost: {messages} messages of {channel}{bytes}{steps}: {}", loss.reason)
}
