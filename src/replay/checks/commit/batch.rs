//! A step among the others of its batch, of the capture's time, and of its events.

use crate::capture::records::{StepRecord, StopReason, Timings};
use crate::replay::batches::Member;
use crate::replay::context::Sequence;
use crate::replay::verdict::{Skip, Verdict};

/// The batch as this step saw it is the batch as the others saw it. What all members must agree on was compared when the
/// batch was read, so that a batch of many members costs no more than each of them.
pub(super) fn batch(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord) {
    let batch = sequence.context.batches.batch(step.step);
    let myself = (sequence.admission.request, sequence.recorded.choice);
    let (index, once) = batch.find(myself);
    verdict.equal("records of this step", 1, once);
    if let Some(place) = &step.batch {
        if sequence.context.gaps.records {
            verdict.skip(Skip::missing("the records of neighbours may be missing"));
        } else {
            verdict.equal("slot in the batch", index, Some(place.slot as usize));
            neighbours(verdict, batch.members(), myself, &place.neighbours);
        }
        let other = batch.same_slot(myself, place.slot);
        apart(verdict, "slot in the batch", other, place.slot);
    } else if sequence.context.is_own() {
        verdict.mismatch("batch", "recorded".to_owned(), "absent".to_owned());
    }
    if let Some(state) = step.state {
        apart(verdict, "slot of state", batch.same_state_slot(myself, state.slot), state.slot);
    }
    if let Some(time) = step.time_ns {
        match batch.another_time(time) {
            Some(other) => {
                let expected =
                    format!("{}, as {}.{} has", other.time_ns.unwrap_or_default(), other.request, other.choice);
                verdict.mismatch("time_ns", expected, time.to_string());
            }
            None => verdict.agrees(),
        }
    }
    if let Some(timings) = step.timings {
        match batch.other_timings(timings) {
            Some(other) => verdict.equal("timings", other.timings, Some(timings)),
            None => verdict.agrees(),
        }
    }
}

/// The others in the batch, in order.
fn neighbours(verdict: &mut Verdict, members: &[Member], myself: (u64, u32), found: &[(u64, u32)]) {
    // Counted first: a step can have many more members than this record names.
    let others = members.len().saturating_sub(1);
    if others != found.len() {
        verdict.mismatch("neighbours", format!("{others} of them"), format!("{}", found.len()));
        return;
    }
    let expected = members.iter().map(Member::sequence).filter(|&member| member != myself);
    let differs = expected.zip(found).find(|(expected, found)| expected != *found);
    match differs {
        Some((expected, found)) => verdict.mismatch("neighbours", format!("{expected:?}"), format!("{found:?}")),
        None => verdict.agrees(),
    }
}

/// Nobody else has the place.
fn apart(verdict: &mut Verdict, fact: &'static str, other: Option<&Member>, found: u32) {
    match other {
        Some(other) => {
            verdict.mismatch(
                fact,
                format!("not {found}, which {}.{} has", other.request, other.choice),
                found.to_string(),
            );
        }
        None => verdict.agrees(),
    }
}

/// The step's work fits between the end of the step before it, whoever was in that, and its own.
pub(super) fn time(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord) {
    let before = step.step.checked_sub(1).and_then(|before| sequence.context.batches.time_ns(before));
    let (Some(timings), Some(time), Some(before)) = (step.timings, step.time_ns, before) else { return };
    let Timings { schedule_ns, forward_ns, sample_ns } = timings;
    let work = [schedule_ns, forward_ns, sample_ns].into_iter().fold(0, u64::saturating_add);
    let most = time.saturating_sub(before);
    verdict.holds(work <= most, "timings", format!("{most} ns at most: the step before ended at {before} ns"), work);
}

/// A failure is an event, in the same words, and such an event is a failure.
pub(super) fn failure(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord) {
    if !sequence.context.is_own() || sequence.context.gaps.events {
        return;
    }
    let place = (sequence.admission.request, sequence.recorded.choice, step.step);
    let events = sequence.context.failures.get(&place).map_or(&[][..], Vec::as_slice);
    let failures: Vec<&str> = match &step.stop {
        Some(StopReason::Failed(message)) => vec![message],
        _ => Vec::new(),
    };
    verdict.equal("events of a failure", failures, events.iter().map(|(_, message)| message.as_str()).collect());
    for (time, _) in events {
        verdict.equal("time_ns of the event", step.time_ns, Some(*time));
    }
}
