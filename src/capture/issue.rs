//! What a reader finds wrong with a file and reads on past.

use std::fmt;
use std::ops::Range;

use super::limits::{MAX_ISSUES, shortened};
use super::topic::Topic;

/// Something wrong with a capture that does not keep the rest from being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// What sort of thing.
    pub kind: IssueKind,
    /// The bytes of the file concerned, if it is about bytes.
    pub bytes: Option<Range<u64>>,
    /// Messages that are gone because of it, per channel, where that is known.
    pub lost: Vec<(Topic, u64)>,
    /// In words.
    pub message: String,
}

/// Sorts of [`Issue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IssueKind {
    /// The file has no end: the recording was cut off, or is still running.
    Cut,
    /// Bytes are not what they were.
    Damaged,
    /// Something that was recorded is not here.
    Missing,
    /// The same thing is recorded twice.
    Duplicate,
    /// Two records cannot both be true.
    Contradiction,
    /// A record that breaks the rules of the format.
    Invalid,
    /// A bound on what is read was reached.
    Limit,
}

impl IssueKind {
    /// Whether it says that data is missing, rather than that data is wrong.
    pub fn is_missing_data(self) -> bool {
        matches!(self, Self::Cut | Self::Missing)
    }

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Damaged => "damaged",
            Self::Missing => "missing",
            Self::Duplicate => "duplicate",
            Self::Contradiction => "contradiction",
            Self::Invalid => "invalid",
            Self::Limit => "limit",
        }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.kind.name())?;
        if let Some(Range { start, end }) = &self.bytes {
            write!(formatter, "bytes {start} to {end}: ")?;
        }
        formatter.write_str(&self.message)?;
        if !self.lost.is_empty() {
            let lost: Vec<String> = self.lost.iter().map(|(topic, count)| format!("{count} {topic}")).collect();
            write!(formatter, " (messages gone: {})", lost.join(", "))?;
        }
        Ok(())
    }
}

/// Issues in the order they were found; the first [`MAX_ISSUES`] in words, all of them counted.
#[derive(Clone, Debug, Default)]
pub struct Issues {
    kept: Vec<Issue>,
    total: u64,
}

impl Issues {
    pub(super) fn push(&mut self, kind: IssueKind, bytes: impl Into<Option<Range<u64>>>, message: impl Into<String>) {
        self.push_issue(Issue { kind, bytes: bytes.into(), lost: Vec::new(), message: message.into() });
    }

    pub(super) fn push_issue(&mut self, issue: Issue) {
        self.total += 1;
        if self.kept.len() < MAX_ISSUES {
            self.kept.push(Issue { message: shortened(issue.message), ..issue });
        }
    }

    /// Those kept in words.
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.kept.iter()
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many are not kept in words.
    pub fn untold(&self) -> u64 {
        self.total.saturating_sub(self.kept.len() as u64)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}
