//! What the grammar allowed in every row follows from the tokens alone: fill, rollback and commit.

use crate::capture::records::{StepRecord, StopReason};
use crate::replay::constraint::{Allowed, Position, StepTrace};
use crate::replay::context::Sequence;
use crate::replay::report::Report;
use crate::replay::verdict::{CheckName, Skip, Verdict};

/// Checks every step of a choice whose output is constrained.
pub(in crate::replay) fn check(sequence: &Sequence<'_>, report: &mut Report) {
    let Some(grammar) = &sequence.grammar else { return };
    for (index, step) in sequence.recorded.steps.iter().enumerate() {
        let verdict = match grammar {
            _ if index >= sequence.joined => Verdict::skipped(Sequence::not_joined()),
            Err(skip) => Verdict::skipped(skip.clone()),
            Ok(trace) => match trace.steps.get(index) {
                Some(expected) => judge(sequence, step, expected),
                None => Verdict::skipped(trace.lost()),
            },
        };
        report.enter(CheckName::Masks, sequence.place(Some(step.step), None), verdict);
    }
}

fn judge(sequence: &Sequence<'_>, step: &StepRecord, expected: &StepTrace) -> Verdict {
    let mut verdict = Verdict::new();
    let is_own = sequence.context.is_own();
    // What failed was not committed.
    let is_committed = !matches!(step.stop, Some(StopReason::Failed(_)));
    match &step.grammar {
        Some(found) => {
            let Position { consumed, terminated, .. } = if is_committed { expected.after } else { expected.before };
            verdict.equal("grammar before", expected.before.consumed, found.before);
            verdict.equal("grammar after", consumed, found.after);
            verdict.equal("grammar terminated", terminated, found.terminated);
            verdict.equal("grammar reasoning", expected.before.reasoning, found.reasoning);
        }
        None if is_own => verdict.mismatch("grammar", "recorded".to_owned(), "absent".to_owned()),
        None => verdict.skip(Skip::not_recorded("where the grammar stood is not recorded")),
    }
    for (index, (row, expected)) in step.rows.iter().zip(&expected.rows).enumerate() {
        if row.scheduler_mask.is_some() || is_own {
            let hash = expected.as_ref().map(|allowed| hex(&allowed.hash));
            verdict.equal(format!("scheduler_mask of row {index}"), hash, row.scheduler_mask.as_ref().map(hex));
        } else {
            verdict.skip(Skip::not_recorded("masks are not recorded"));
        }
        if row.forced.is_some() || is_own {
            let only = expected.as_ref().and_then(|Allowed { only, .. }| *only);
            verdict.equal(format!("forced token of row {index}"), only, row.forced.map(|forced| forced.token));
        }
    }
    if has_failed(sequence, step) && expected.refused.is_none() {
        verdict.mismatch("stop", "a grammar that goes on with these tokens".to_owned(), format!("{:?}", step.stop));
    }
    if let Some(token) = expected.refused.and_then(|index| step.emitted.get(index)) {
        verdict.mismatch("emitted", "tokens that the grammar allows".to_owned(), format!("{token}"));
    }
    verdict
}

/// Whether the engine's grammar failed in the step.
fn has_failed(sequence: &Sequence<'_>, step: &StepRecord) -> bool {
    let place = (sequence.admission.request, sequence.recorded.choice, step.step);
    sequence.context.grammar_failures.contains(&place)
}

fn hex(hash: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}
