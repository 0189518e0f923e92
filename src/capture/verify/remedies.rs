//! What would have to be left out, and what accounted for, so that verification finds nothing.

use std::collections::{BTreeMap, HashSet};

use super::super::reader::Location;
use super::super::topic::Topic;

/// Remedies for what was found, as recovery applies them.
#[derive(Debug, Default)]
pub(in crate::capture) struct Remedies {
    /// Records that contradict others or themselves.
    left_out: HashSet<Location>,
    /// Channels that lack something which no loss record accounts for, with the steps concerned where that is known.
    unaccounted: BTreeMap<Topic, Option<(u64, u64)>>,
}

impl Remedies {
    pub(super) fn leave_out(&mut self, location: Location) {
        self.left_out.insert(location);
    }

    pub(super) fn account_for(&mut self, topic: Topic, step: Option<u64>) {
        let range = step.map(|step| (step, step));
        let known = self.unaccounted.entry(topic).or_insert(range);
        *known = known.zip(range).map(|(known, range)| (known.0.min(range.0), known.1.max(range.1)));
    }

    /// Whether the record at `location` is at fault.
    pub(in crate::capture) fn leaves_out(&self, location: Location) -> bool {
        self.left_out.contains(&location)
    }

    /// The channels that need a loss record, each with its steps where they are known.
    pub(in crate::capture) fn unaccounted(&self) -> impl Iterator<Item = (Topic, Option<(u64, u64)>)> {
        self.unaccounted.iter().map(|(topic, steps)| (*topic, *steps))
    }
}
