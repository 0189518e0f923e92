//! What is known to be absent from a capture: such a gap says nothing about the engine.

use super::batches::Batches;
use super::recording::Recording;
use crate::capture::records::LossRecord;

/// Losses and unreadable records that are told one by one; more are counted.
pub(super) const TOLD: usize = 100;

/// Which records may be absent, and what says so.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Request or step records.
    pub(crate) records: bool,
    /// Events.
    pub(crate) events: bool,
    /// Everything that is missing or damaged.
    pub(crate) in_words: Vec<String>,
}

impl Gaps {
    /// Of a recording whose step records nobody else goes through.
    pub(crate) fn alone(recording: &dyn Recording) -> Self {
        Self::of(recording, &Batches::of(recording).unreadable)
    }

    /// Reads damage and losses; `unreadable` are the step records that cannot be read.
    pub(super) fn of(recording: &dyn Recording, unreadable: &Told) -> Self {
        let losses = recording.losses();
        let lost = |channels: &[&str]| losses.iter().any(|loss| channels.contains(&loss.channel.as_str()));
        let mut in_words = recording.damage();
        let is_damaged = !in_words.is_empty() || unreadable.total > 0;
        in_words.extend(unreadable.in_words());
        let mut told = Told::new("losses");
        losses.iter().for_each(|loss| told.tell(|| loss_in_words(loss)));
        in_words.extend(told.in_words());
        let records = is_damaged || lost(&["*", "step", "request"]);
        Self { records, events: records || lost(&["event"]), in_words }
    }
}

/// Things told in words, up to [`TOLD`] of them.
#[derive(Debug)]
pub(super) struct Told {
    what: &'static str,
    words: Vec<String>,
    total: u64,
}

impl Told {
    /// None yet of the things that are called `what` in the plural.
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, words: Vec::new(), total: 0 }
    }

    pub(super) fn tell(&mut self, words: impl FnOnce() -> String) {
        self.total += 1;
        if self.words.len() < TOLD {
            self.words.push(words());
        }
    }

    /// How many, told or not.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    fn in_words(&self) -> impl Iterator<Item = String> {
        let more = self.total - self.words.len() as u64;
        let more = (more > 0).then(|| format!("{more} more {}", self.what));
        self.words.iter().cloned().chain(more)
    }
}

fn loss_in_words(loss: &LossRecord) -> String {
    let messages = loss.messages.map_or("an unknown number of".to_owned(), |messages| messages.to_string());
    let channel = if loss.channel == "*" { "any channel".to_owned() } else { format!("`{}`", loss.channel) };
    let steps = loss.steps.map_or(String::new(), |(first, last)| format!(", steps {first} to {last}"));
    format!("lost: {messages} messages of {channel}{steps}: {}", loss.reason)
}
