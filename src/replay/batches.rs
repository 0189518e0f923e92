//! Who ran together in which step.

use std::collections::{BTreeMap, HashMap};

use super::gaps::Told;
use super::recording::Recording;
use crate::capture::records::Timings;

/// A member of a step's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) request: u64,
    pub(super) choice: u32,
    /// Index in the batch; `None` if the recorder did not say.
    pub(super) slot: Option<u32>,
    /// When the step was committed; `None` if the recorder did not say.
    pub(super) time_ns: Option<u64>,
    /// Row of the recurrent state table.
    pub(super) state_slot: Option<u32>,
    /// Where the step's time went.
    pub(super) timings: Option<Timings>,
}

impl Member {
    /// Which sequence it is: request and choice.
    pub(super) fn sequence(&self) -> (u64, u32) {
        (self.request, self.choice)
    }
}

/// What the members of a step say that cannot all be true, each with two members that say it.
#[derive(Debug, Default, PartialEq)]
struct Conflicts {
    /// Places in the batch that more than one has.
    slots: BTreeMap<u32, [Member; 2]>,
    /// Rows of the recurrent state table that more than one has.
    state_slots: BTreeMap<u32, [Member; 2]>,
    /// Two that differ in when the step was committed.
    times: Option<[Member; 2]>,
    /// Two that differ in where its time went.
    timings: Option<[Member; 2]>,
}

/// One step's members.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In batch order.
    members: Vec<Member>,
    /// Indices of `members`, by sequence.
    by_sequence: Vec<u32>,
    /// `None` for a batch without any, as they all should be.
    conflicts: Option<Box<Conflicts>>,
}

impl Batch {
    /// Those who ran in the step, in batch order.
    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Where in the batch a sequence is, and how often.
    pub(super) fn find(&self, sequence: (u64, u32)) -> (Option<usize>, usize) {
        let of = |index: &u32| self.members.get(*index as usize).map(Member::sequence);
        let start = self.by_sequence.partition_point(|index| of(index) < Some(sequence));
        let end = self.by_sequence.partition_point(|index| of(index) <= Some(sequence));
        (self.by_sequence.get(start..end).and_then(|found| found.first()).map(|index| *index as usize), end - start)
    }

    /// Another member that has the same place in the batch.
    pub(super) fn same_slot(&self, sequence: (u64, u32), slot: u32) -> Option<&Member> {
        other(self.conflicts.as_ref()?.slots.get(&slot)?, sequence)
    }

    /// Another member that has the same row of the state table.
    pub(super) fn same_state_slot(&self, sequence: (u64, u32), slot: u32) -> Option<&Member> {
        other(self.conflicts.as_ref()?.state_slots.get(&slot)?, sequence)
    }

    /// Another member that has another time.
    pub(super) fn another_time(&self, time_ns: u64) -> Option<&Member> {
        self.conflicts.as_ref()?.times.as_ref()?.iter().find(|member| member.time_ns != Some(time_ns))
    }

    /// Another member that has other timings.
    pub(super) fn other_timings(&self, timings: Timings) -> Option<&Member> {
        self.conflicts.as_ref()?.timings.as_ref()?.iter().find(|member| member.timings != Some(timings))
    }

    /// Brings the members into order, and compares them once for all of them.
    fn settle(&mut self) {
        self.members.sort_by_key(|member| (member.slot, member.request, member.choice));
        self.members.shrink_to_fit();
        self.by_sequence = (0..self.members.len() as u32).collect();
        let members = &self.members;
        self.by_sequence.sort_by_key(|index| members.get(*index as usize).map(Member::sequence));
        let conflicts = Conflicts {
            slots: twice(members, |member| member.slot),
            state_slots: twice(members, |member| member.state_slot),
            times: differing(members, |member| member.time_ns),
            timings: differing(members, |member| member.timings),
        };
        self.conflicts = (conflicts != Conflicts::default()).then(|| Box::new(conflicts));
    }
}

/// The first of two that is not the sequence itself.
fn other(two: &[Member; 2], sequence: (u64, u32)) -> Option<&Member> {
    two.iter().find(|member| member.sequence() != sequence)
}

/// Values that more than one sequence has, with the first two of those.
fn twice(members: &[Member], value: impl Fn(&Member) -> Option<u32>) -> BTreeMap<u32, [Member; 2]> {
    let mut sorted: Vec<(u32, &Member)> = members.iter().filter_map(|member| Some((value(member)?, member))).collect();
    sorted.sort_by_key(|(value, _)| *value);
    let mut found = BTreeMap::new();
    for (first, second) in sorted.iter().zip(sorted.iter().skip(1)) {
        if first.0 == second.0 && first.1.sequence() != second.1.sequence() {
            found.entry(first.0).or_insert([*first.1, *second.1]);
        }
    }
    found
}

/// Two members with different known values.
fn differing<T: PartialEq>(members: &[Member], value: impl Fn(&Member) -> Option<T>) -> Option<[Member; 2]> {
    let mut known = members.iter().filter(|member| value(member).is_some());
    let first = known.next()?;
    known.find(|member| value(member) != value(first)).map(|second| [*first, *second])
}

/// The batches of a capture, by step. Takes some 100 bytes per step record.
#[derive(Debug)]
pub(super) struct Batches {
    steps: HashMap<u64, Batch>,
    nobody: Batch,
    /// Step records that cannot be read.
    pub(super) unreadable: Told,
}

impl Batches {
    /// Reads every step record once.
    pub(super) fn of(recording: &dyn Recording) -> Self {
        let mut steps: HashMap<u64, Batch> = HashMap::new();
        let mut unreadable = Told::new("step records that cannot be read");
        recording.visit_steps(&mut |step| match step {
            Ok(step) => steps.entry(step.step).or_default().members.push(Member {
                request: step.request,
                choice: step.choice,
                slot: step.batch.as_ref().map(|place| place.slot),
                time_ns: step.time_ns,
                state_slot: step.state.map(|state| state.slot),
                timings: step.timings,
            }),
            Err(words) => unreadable.tell(|| words),
        });
        steps.values_mut().for_each(Batch::settle);
        Self { steps, nobody: Batch::default(), unreadable }
    }

    /// When a step was committed; `None` if that is not recorded.
    pub(super) fn time_ns(&self, step: u64) -> Option<u64> {
        self.batch(step).members().iter().find_map(|member| member.time_ns)
    }

    /// The members of a step; none of a step that is not recorded.
    pub(super) fn batch(&self, step: u64) -> &Batch {
        self.steps.get(&step).unwrap_or(&self.nobody)
    }
}
