//! The drafts of a step as they are recorded: proposals, places, reasons, verdicts.

use crate::capture::records::{DraftVerdict, SchedulerMode, VerdictReason, WithheldDraft, WithheldReason};
use crate::engine::StepReport;
use crate::engine::sampler::{Draft, Odds};
use crate::engine::speculation::{self, Scheduling};
use crate::types::TokenId;

/// What each place verified; -1 where a draft was withheld.
pub(super) fn places(report: &StepReport<'_>) -> Vec<i64> {
    let token = |draft: &Option<Draft>| draft.as_ref().map_or(-1, |draft| i64::from(draft.token.0));
    report.drafts.places.iter().map(token).collect()
}

/// What the drafter proposed.
pub(super) fn proposed(report: &StepReport<'_>) -> Vec<u32> {
    report.drafts.proposed.iter().map(|draft| draft.token.0).collect()
}

/// The drafts that were not verified, with why.
pub(super) fn withheld(report: &StepReport<'_>) -> Vec<WithheldDraft> {
    let record = |withheld: &speculation::Withheld| WithheldDraft {
        index: withheld.index as u32,
        reason: match withheld.reason {
            speculation::WithheldReason::Grammar => WithheldReason::Grammar,
            speculation::WithheldReason::Missing => WithheldReason::Missing,
            speculation::WithheldReason::Limit => WithheldReason::Limit,
        },
    };
    report.drafts.withheld.iter().map(record).collect()
}

/// When the query's length was decided.
pub(super) fn scheduler(report: &StepReport<'_>) -> SchedulerMode {
    match report.scheduling {
        Scheduling::Sync => SchedulerMode::Sync,
        Scheduling::Async => SchedulerMode::Async,
    }
}

/// What became of each place.
pub(super) fn verdicts(report: &StepReport<'_>) -> Vec<DraftVerdict> {
    (0..report.drafts.places.len()).map(|place| verdict(report, place)).collect()
}

fn verdict(report: &StepReport<'_>, place: usize) -> DraftVerdict {
    let draft = report.drafts.places[place].as_ref().map(|draft| draft.token);
    let odds = report.odds.get(place).copied().flatten();
    let (accepted, reason) = match (report.emitted.get(place), draft) {
        (None, _) if report.stop.is_some() => (false, VerdictReason::AfterEnd),
        (None, _) => (false, VerdictReason::AfterRejection),
        (Some(_), None) => (false, reason(report, place)),
        (Some(&token), Some(draft)) => (token == draft, judged(token, draft, odds)),
    };
    DraftVerdict {
        p: odds.map(|odds| odds.p),
        q: odds.map(|odds| odds.q),
        u: odds.map(|odds| odds.u),
        accepted,
        reason,
    }
}

fn judged(token: TokenId, draft: TokenId, odds: Option<Odds>) -> VerdictReason {
    match (odds, token == draft) {
        (Some(_), _) => VerdictReason::Ratio,
        (None, true) => VerdictReason::Match,
        (None, false) => VerdictReason::Mismatch,
    }
}

/// Why a place had nothing to verify. A limit shortens a query and leaves no such place.
fn reason(report: &StepReport<'_>, place: usize) -> VerdictReason {
    match report.drafts.reason(place) {
        Some(speculation::WithheldReason::Grammar) => VerdictReason::Grammar,
        _ => VerdictReason::Missing,
    }
}
