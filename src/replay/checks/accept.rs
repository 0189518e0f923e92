//! Each place of a query was judged as its row has it: accepted when the draft is the row's token, or by chance with the
//! recorded odds.

use crate::capture::records::{DraftVerdict, StepRecord, VerdictReason, WithheldReason};
use crate::replay::context::Row;
use crate::replay::recover::Recovered;
use crate::replay::rejection::{self, Decision};
use crate::replay::verdict::{Skip, Verdict};

/// Checks the place that `row` judges; `None` for the row after the last place.
pub(in crate::replay) fn check(row: &Row<'_>, recovered: &Recovered) -> Option<Verdict> {
    let place = row.index as usize;
    let &draft = row.step.drafts.get(place)?;
    let Some(verdicts) = &row.step.verdicts else {
        return Some(Verdict::skipped(Skip::not_recorded("verdicts on drafts are not recorded")));
    };
    let mut verdict = Verdict::new();
    let Some(found) = verdicts.get(place) else {
        verdict.mismatch(
            "verdicts",
            format!("one for each of {} places", row.step.drafts.len()),
            verdicts.len().to_string(),
        );
        return Some(verdict);
    };
    let emitted = row.emitted();
    let is_tested = row.tested_draft().is_some() && emitted.is_some();
    verdict.equal("accepted", emitted.is_some_and(|token| i64::from(token) == draft), found.accepted);
    if !row.sequence.context.is_own() {
        verdict.skip(Skip::not_recorded("by which rule the engine verifies is not known here"));
        return Some(verdict);
    }
    verdict.equal("reason", reason(row.step, place, is_tested), found.reason);
    if is_tested {
        tested(&mut verdict, row, recovered, draft as u32, found);
    } else {
        verdict.equal("p", None, found.p);
        verdict.equal("q", None, found.q);
        verdict.equal("u", None, found.u);
    }
    Some(verdict)
}

/// Why the place has its verdict, by what was emitted.
fn reason(step: &StepRecord, place: usize, is_tested: bool) -> VerdictReason {
    match (step.emitted.get(place), step.drafts[place]) {
        (None, _) if step.stop.is_some() => VerdictReason::AfterEnd,
        (None, _) => VerdictReason::AfterRejection,
        (Some(_), -1) => {
            let withheld = step.withheld.iter().flatten().find(|withheld| withheld.index as usize == place);
            match withheld.map(|withheld| withheld.reason) {
                Some(WithheldReason::Grammar) => VerdictReason::Grammar,
                _ => VerdictReason::Missing,
            }
        }
        (Some(_), _) if is_tested => VerdictReason::Ratio,
        (Some(&token), draft) if i64::from(token) == draft => VerdictReason::Match,
        _ => VerdictReason::Mismatch,
    }
}

/// The odds of a test by chance: u follows from the seed and the place, p from the row, q from the drafter, and the verdict
/// from all three.
fn tested(verdict: &mut Verdict, row: &Row<'_>, recovered: &Recovered, draft: u32, found: &DraftVerdict) {
    let situation = match row.situation() {
        Ok(situation) => situation,
        Err(skip) => return verdict.skip(skip),
    };
    verdict.equal("u", rejection::uniform(&situation).ok(), found.u);
    match (found.p, found.q, found.u) {
        (Some(p), Some(q), Some(u)) => verdict.equal("accepted", u * q < p, found.accepted),
        _ => verdict.mismatch("p, q and u", "recorded for a draft that chance tests".to_owned(), "absent".to_owned()),
    }
    match (row.proposal(), recovered) {
        (Ok(proposal), Recovered::Whole(whole)) => {
            match rejection::decide(&whole.values, &situation, draft, &proposal) {
                Ok(Decision { p, q, .. }) => {
                    verdict.equal("p", Some(p), found.p);
                    verdict.equal("q", Some(q), found.q);
                }
                Err(error) => verdict.mismatch("p", format!("none: {error}"), format!("{:?}", found.p)),
            }
        }
        (Ok(proposal), _) => {
            verdict.equal("q", Some(proposal.probability(draft, draft)), found.q);
            verdict.skip(Skip::not_recorded("the row is not recorded: p is not checked"));
        }
        (Err(skip), _) => verdict.skip(skip),
    }
}
