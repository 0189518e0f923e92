//! What a step's own scalars say of it: signs that are faults wherever they stand.

use crate::capture::records::StepRecord;
use crate::forensics::signs::{SamplingRules, Seen, Sign};
use crate::replay::context::Sequence;
use crate::replay::recording::RowId;
use crate::replay::report::Report;
use crate::replay::verdict::{CheckName, Skip, Verdict};

/// Looks at every step of a choice.
pub(in crate::replay) fn check(sequence: &Sequence<'_>, report: &mut Report) {
    let rules = SamplingRules::of(sequence.admission);
    let mut previous = None;
    let mut tokens = sequence.admission.prompt_tokens.clone();
    for step in &sequence.recorded.steps {
        tokens.extend(&step.emitted);
        let verdict = judge(sequence, step, previous, rules, &tokens);
        report.enter(CheckName::Signs, sequence.place(Some(step.step), None), verdict);
        previous = Some(step);
    }
}

fn judge(
    sequence: &Sequence<'_>,
    step: &StepRecord,
    previous: Option<&StepRecord>,
    rules: Option<SamplingRules>,
    tokens: &[u32],
) -> Verdict {
    let context = sequence.context;
    let mask = |hash: &[u8; 32]| context.recording.mask(hash).ok().flatten();
    let sketches = |row: u32| {
        let (request, choice) = (sequence.admission.request, sequence.recorded.choice);
        context.recording.sketches(RowId { step: step.step, request, choice, row }).ok()
    };
    let vocabulary = context.vocabulary_size();
    let seen = Seen { step, previous, rules, vocabulary, mask: &mask, sketches: &sketches, tokens };
    let mut verdict = Verdict::new();
    for sign in Sign::ALL.into_iter().filter(|sign| sign.is_finding()) {
        // What is not recorded is told by the checks that need it.
        if let Some(shows) = sign.shows(&seen) {
            verdict.holds(!shows, sign.name(), "no such sign", "the sign");
        }
    }
    if !verdict.is_checked() {
        verdict.skip(Skip::not_recorded("none of the scalars that signs look at is recorded"));
    }
    verdict
}
