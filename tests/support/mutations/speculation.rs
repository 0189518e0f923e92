//! Mutations of steps that verify drafts, some of them tested by chance.

use stepscope::capture::Record;
use stepscope::capture::records::{DraftVerdict, SchedulerMode, StepRecord, VerdictReason, WithheldReason};
use stepscope::replay::CheckName::{Accept, Commit, Drafts, Sampler};

use super::Expected::{self, Finding};
use super::{Mutation, Place, mutation};

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

/// Changes the first step that is one of `picks`.
fn of(field: &'static str, picks: Picks, expected: Expected, change: impl Fn(&mut StepRecord) + 'static) -> Mutation {
    mutation(field, expected, move |records| {
        let step = records.iter_mut().find_map(|record| match record {
            Record::Step(step) if picks(step) => Some(step.as_mut()),
            _ => None,
        });
        let step = step.unwrap_or_else(|| panic!("the capture has no step to change {field} of"));
        change(step);
        Place { request: Some(step.request), step: Some(step.step) }
    })
}

fn first_verdict(step: &mut StepRecord) -> &mut DraftVerdict {
    &mut step.verdicts.as_mut().expect("verdicts are recorded")[0]
}

fn other_float(value: &mut Option<f64>) {
    *value = value.map(|value| f64::from_bits(value.to_bits() ^ 1));
}

pub fn table() -> Vec<Mutation> {
    vec![
        of("drafts", TESTED, Finding(Drafts), |step| step.drafts[0] += 1),
        of("drafts_raw", TESTED, Finding(Drafts), |step| step.drafts_raw.as_mut().unwrap()[0] += 1),
        of("drafts_raw (one more)", PADDED, Finding(Drafts), |step| step.drafts_raw.as_mut().unwrap().push(1)),
        of("withheld.reason", PADDED, Finding(Drafts), |step| {
            step.withheld.as_mut().unwrap()[0].reason = WithheldReason::Grammar;
        }),
        of("withheld.index", PADDED, Finding(Drafts), |step| step.withheld.as_mut().unwrap()[0].index += 1),
        of("withheld (absent)", PADDED, Finding(Commit), |step| step.withheld = None),
        of("input_tokens", PADDED, Finding(Drafts), |step| {
            *step.input_tokens.as_mut().unwrap().last_mut().unwrap() += 1
        }),
        of("scheduler", VERIFY, Finding(Commit), |step| step.scheduler = Some(SchedulerMode::Sync)),
        of("verdict.accepted", TESTED, Finding(Accept), |step| first_verdict(step).accepted = true),
        of("verdict.reason", TESTED, Finding(Accept), |step| first_verdict(step).reason = VerdictReason::Mismatch),
        of("verdict.reason (padded)", PADDED, Finding(Accept), |step| {
            step.verdicts.as_mut().unwrap().last_mut().unwrap().reason = VerdictReason::Match;
        }),
        of("verdict.p", TESTED, Finding(Accept), |step| other_float(&mut first_verdict(step).p)),
        of("verdict.q", TESTED, Finding(Accept), |step| other_float(&mut first_verdict(step).q)),
        of("verdict.u", TESTED, Finding(Accept), |step| other_float(&mut first_verdict(step).u)),
        of("verdicts (one less)", VERIFY, Finding(Commit), |step| {
            step.verdicts.as_mut().unwrap().pop();
        }),
        of("bonus", VERIFY, Finding(Commit), |step| step.bonus = step.bonus.map(|bonus| !bonus)),
        of("q_len", VERIFY, Finding(Commit), |step| step.q_len = step.q_len.map(|length| length + 1)),
        of("prev_accepted", VERIFY, Finding(Commit), |step| step.prev_accepted = step.prev_accepted.map(|n| n + 1)),
        of("emitted (the residual's draw)", TESTED, Finding(Sampler), |step| step.emitted[0] ^= 1),
    ]
}
