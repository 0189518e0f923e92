//! Mutations of steps that verify drafts, some of them tested by chance.

use stepscope::capture::records::{DraftVerdict, SchedulerMode, StepRecord, VerdictReason, WithheldReason};
use stepscope::replay::CheckName::{Accept, Commit, Drafts, Sampler};

use super::Expected::Finding;
use super::{Mutation, of_first};

type Picks = fn(&StepRecord) -> bool;

/// A step whose first draft was tested by chance, and rejected.
const TESTED: Picks = |step| step.verdicts.iter().flatten().next().is_some_and(is_rejected_by_chance);
/// A step with a place that verifies nothing.
const PADDED: Picks = |step| step.drafts.contains(&-1);
/// A step after which the sequence goes on.
const VERIFY: Picks = |step| !step.drafts.is_empty() && step.stop.is_none();

fn is_rejected_by_chance(verdict: &DraftVerdict) -> bool {
    verdict.reason == VerdictReason::Ratio && !verdict.accepted
}

fn first_verdict(step: &mut StepRecord) -> &mut DraftVerdict {
    &mut step.verdicts.as_mut().expect("verdicts are recorded")[0]
}

fn other_float(value: &mut Option<f64>) {
    *value = value.map(|value| f64::from_bits(value.to_bits() ^ 1));
}

pub fn table() -> Vec<Mutation> {
    vec![
        of_first("drafts", TESTED, Finding(Drafts), |step| step.drafts[0] += 1),
        of_first("drafts_raw", TESTED, Finding(Drafts), |step| step.drafts_raw.as_mut().unwrap()[0] += 1),
        of_first("drafts_raw (one more)", PADDED, Finding(Drafts), |step| step.drafts_raw.as_mut().unwrap().push(1)),
        of_first("withheld.reason", PADDED, Finding(Drafts), |step| {
            step.withheld.as_mut().unwrap()[0].reason = WithheldReason::Grammar;
        }),
        of_first("withheld.index", PADDED, Finding(Drafts), |step| step.withheld.as_mut().unwrap()[0].index += 1),
        of_first("withheld (absent)", PADDED, Finding(Commit), |step| step.withheld = None),
        of_first("input_tokens", PADDED, Finding(Drafts), |step| {
            *step.input_tokens.as_mut().unwrap().last_mut().unwrap() += 1
        }),
        of_first("scheduler", VERIFY, Finding(Commit), |step| step.scheduler = Some(SchedulerMode::Sync)),
        of_first("verdict.accepted", TESTED, Finding(Accept), |step| first_verdict(step).accepted = true),
        of_first("verdict.reason", TESTED, Finding(Accept), |step| {
            first_verdict(step).reason = VerdictReason::Mismatch
        }),
        of_first("verdict.reason (padded)", PADDED, Finding(Accept), |step| {
            step.verdicts.as_mut().unwrap().last_mut().unwrap().reason = VerdictReason::Match;
        }),
        of_first("verdict.p", TESTED, Finding(Accept), |step| other_float(&mut first_verdict(step).p)),
        of_first("verdict.q", TESTED, Finding(Accept), |step| other_float(&mut first_verdict(step).q)),
        of_first("verdict.u", TESTED, Finding(Accept), |step| other_float(&mut first_verdict(step).u)),
        of_first("verdicts (one less)", VERIFY, Finding(Commit), |step| {
            step.verdicts.as_mut().unwrap().pop();
        }),
        of_first("bonus", VERIFY, Finding(Commit), |step| step.bonus = step.bonus.map(|bonus| !bonus)),
        of_first("q_len", VERIFY, Finding(Commit), |step| step.q_len = step.q_len.map(|length| length + 1)),
        of_first("prev_accepted", VERIFY, Finding(Commit), |step| {
            step.prev_accepted = step.prev_accepted.map(|n| n + 1)
        }),
        of_first("emitted (the residual's draw)", TESTED, Finding(Sampler), |step| step.emitted[0] ^= 1),
    ]
}
