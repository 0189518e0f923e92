//! Who ran together in which step.

use std::collections::HashMap;

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

/// The batches of a capture, by step. Takes some 90 bytes per step record.
#[derive(Debug, Default)]
pub(super) struct Batches {
    steps: HashMap<u64, Vec<Member>>,
}

impl Batches {
    /// Reads every step record once.
    pub(super) fn of(recording: &dyn Recording) -> Result<Self, String> {
        let mut steps: HashMap<u64, Vec<Member>> = HashMap::new();
        recording.visit_steps(&mut |step| {
            steps.entry(step.step).or_default().push(Member {
                request: step.request,
                choice: step.choice,
                slot: step.batch.as_ref().map(|place| place.slot),
                time_ns: step.time_ns,
                state_slot: step.state.map(|state| state.slot),
                timings: step.timings,
            });
        })?;
        for members in steps.values_mut() {
            members.sort_by_key(|member| (member.slot, member.request, member.choice));
        }
        Ok(Self { steps })
    }

    /// When a step was committed; `None` if that is not recorded.
    pub(super) fn time_ns(&self, step: u64) -> Option<u64> {
        self.members(step).iter().find_map(|member| member.time_ns)
    }

    /// The members of a step, in batch order.
    pub(super) fn members(&self, step: u64) -> &[Member] {
        self.steps.get(&step).map_or(&[], Vec::as_slice)
    }
}
