//! Speculation: how proposals become the query that a step verifies.
//!
//! A drafter proposes up to `drafts` tokens. The grammar may refuse them from some index on, and a limit may leave no
//! room for all. What happens to the rest is the scheduling's choice:
//!
//! - [`Scheduling::Sync`] **trims**: the step knows all of this before it starts, and its query shrinks.
//! - [`Scheduling::Async`] **pads**: the step was given its length before the proposals were known. The model reads what
//!   was proposed, and each place that must not be verified is withheld, a -1 with its reason. Only a limit, which is
//!   known in time, makes such a query shorter.

use crate::engine::sampler::{Draft, VerifyRule};
use crate::types::TokenId;

/// How sequences speculate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speculation {
    /// Most drafts per step and sequence.
    pub drafts: usize,
    /// When a query's length is decided.
    pub scheduling: Scheduling,
    /// How sampled rows are verified.
    pub rule: VerifyRule,
}

/// When the length of a step's queries is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Once the proposals and what the grammar says of them are known.
    #[default]
    Sync,
    /// As if before they were: every query has room for the full count.
    Async,
}

/// The part of a query after the last committed token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftQuery {
    /// What the drafter proposed.
    pub proposed: Vec<Draft>,
    /// What each place verifies; `None` is a place whose draft is withheld.
    pub places: Vec<Option<Draft>>,
    /// What the model reads in each place.
    pub read: Vec<TokenId>,
    /// For every proposal that is not verified and every place that verifies none: why.
    pub withheld: Vec<Withheld>,
}

/// A draft that is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// Its index among the proposals, which is also its place in the query if it has one.
    pub index: usize,
    /// Why.
    pub reason: WithheldReason,
}

/// Why a draft is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithheldReason {
    /// The grammar refuses it, or one before it.
    Grammar,
    /// The drafter proposed nothing there.
    Missing,
    /// The request ends before it could count.
    Limit,
}

impl DraftQuery {
    /// Schedules a proposal, of which the grammar accepts the first `legal` drafts, and of which no more than `limit` can
    /// count before the request ends. `last` is the last committed token, which fills the places of missing drafts.
    pub fn new(proposed: Vec<Draft>, legal: usize, limit: usize, last: TokenId, speculation: &Speculation) -> Self {
        let length = match speculation.scheduling {
            Scheduling::Sync => proposed.len().min(legal),
            Scheduling::Async => speculation.drafts,
        };
        let length = length.min(limit).min(speculation.drafts);
        let reason = |index: usize| match () {
            () if index >= length && index < legal => Some(WithheldReason::Limit),
            () if index >= proposed.len() => Some(WithheldReason::Missing),
            () if index >= legal => Some(WithheldReason::Grammar),
            () => None,
        };
        let withheld = (0..length.max(proposed.len()))
            .filter_map(|index| Some(Withheld { index, reason: reason(index)? }))
            .collect();
        let places = (0..length).map(|index| proposed.get(index).filter(|_| index < legal).cloned()).collect();
        let read = (0..length).map(|index| proposed.get(index).map_or(last, |draft| draft.token)).collect();
        Self { proposed, places, read, withheld }
    }

    /// Why a place verifies nothing; `None` for one that does.
    pub fn reason(&self, place: usize) -> Option<WithheldReason> {
        self.withheld.iter().find(|withheld| withheld.index == place).map(|withheld| withheld.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(proposed: u32, legal: usize, limit: usize, scheduling: Scheduling) -> DraftQuery {
        let proposed = (10..10 + proposed).map(|id| Draft::certain(TokenId(id))).collect();
        DraftQuery::new(
            proposed,
            legal,
            limit,
            TokenId(1),
            &Speculation { drafts: 4, scheduling, rule: VerifyRule::Coupled },
        )
    }

    fn places(query: &DraftQuery) -> Vec<i64> {
        query.places.iter().map(|place| place.as_ref().map_or(-1, |draft| i64::from(draft.token.0))).collect()
    }

    fn reasons(query: &DraftQuery) -> Vec<(usize, WithheldReason)> {
        query.withheld.iter().map(|withheld| (withheld.index, withheld.reason)).collect()
    }

    #[test]
    fn sync_trims() {
        use WithheldReason::{Grammar, Limit};
        let trimmed = query(4, 2, 9, Scheduling::Sync);
        assert_eq!((places(&trimmed), reasons(&trimmed)), (vec![10, 11], vec![(2, Grammar), (3, Grammar)]));
        let clamped = query(4, 4, 1, Scheduling::Sync);
        assert_eq!((places(&clamped), reasons(&clamped)), (vec![10], vec![(1, Limit), (2, Limit), (3, Limit)]));
        let both = query(4, 3, 2, Scheduling::Sync);
        assert_eq!((places(&both), reasons(&both)), (vec![10, 11], vec![(2, Limit), (3, Grammar)]));
        let few = query(2, 2, 9, Scheduling::Sync);
        assert_eq!((places(&few), reasons(&few)), (vec![10, 11], vec![]));
    }

    #[test]
    fn async_pads_and_the_model_reads_what_was_proposed() {
        use WithheldReason::{Grammar, Limit, Missing};
        let refused = query(4, 2, 9, Scheduling::Async);
        assert_eq!((places(&refused), reasons(&refused)), (vec![10, 11, -1, -1], vec![(2, Grammar), (3, Grammar)]));
        assert_eq!(refused.read, [10, 11, 12, 13].map(TokenId));
        let missing = query(1, 1, 9, Scheduling::Async);
        assert_eq!(
            (places(&missing), reasons(&missing)),
            (vec![10, -1, -1, -1], vec![(1, Missing), (2, Missing), (3, Missing)])
        );
        assert_eq!(missing.read, [10, 1, 1, 1].map(TokenId));
        let clamped = query(3, 3, 2, Scheduling::Async);
        assert_eq!((places(&clamped), reasons(&clamped)), (vec![10, 11], vec![(2, Limit)]));
    }
}
