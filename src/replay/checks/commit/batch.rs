//! A step among the others of its batch, of the capture's time, and of its events.

use crate::capture::records::{StepRecord, StopReason, Timings};
use crate::replay::context::Sequence;
use crate::replay::verdict::{Skip, Verdict};

/// The batch as this step saw it is the batch as the others saw it.
pub(super) fn batch(verdict: &mut Verdict, sequence: &Sequence<'_>, step: &StepRecord) {
    let members = sequence.context.batches.members(step.step);
    let myself = (sequence.admission.request, sequence.recorded.choice);
    let index = members.iter().position(|member| (member.request, member.choice) == myself);
    let once = members.iter().filter(|member| (member.request, member.choice) == myself).count();
    verdict.equal("records of this step", 1, once);
    if let Some(place) = &step.batch {
        let others: Vec<(u64, u32)> =
            members.iter().map(|member| (member.request, member.choice)).filter(|&member| member != myself).collect();
        if sequence.context.has_gaps() {
            verdict.skip(Skip::missing("the damaged capture may lack records of neighbours"));
        } else {
            verdict.equal("slot in the batch", index, Some(place.slot as usize));
            verdict.equal("neighbours", &others, &place.neighbours);
        }
    } else if sequence.context.is_own() {
        verdict.mismatch("batch", "recorded".to_owned(), "absent".to_owned());
    }
    for other in members.iter().filter(|member| (member.request, member.choice) != myself) {
        if let (Some(place), Some(others)) = (&step.batch, other.slot) {
            let expected = format!("not {others}, where {}.{} is", other.request, other.choice);
            verdict.holds(place.slot != others, "slot in the batch", expected, place.slot);
        }
        if let (Some(slot), Some(others)) = (step.state.map(|state| state.slot), other.state_slot) {
            let expected = format!("not {others}, which {}.{} has", other.request, other.choice);
            verdict.holds(slot != others, "slot of state", expected, slot);
        }
        if let (Some(time), Some(others)) = (step.time_ns, other.time_ns) {
            verdict.holds(
                time == others,
                "time_ns",
                format!("{others}, as {}.{} has", other.request, other.choice),
                time,
            );
        }
        if let (Some(timings), Some(others)) = (step.timings, other.timings) {
            verdict.equal("timings", others, timings);
        }
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
    if !sequence.context.is_own() || sequence.context.has_gaps() {
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
