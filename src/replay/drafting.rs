//! The drafters that propose from the tokens alone, straight from their definitions, and what scheduling makes of a
//! proposal.

use crate::arith::scalar;
use crate::capture::records::{SchedulerMode, WithheldDraft, WithheldReason};

/// What prompt lookup proposes after `tokens`: the tokens that follow the last earlier occurrence of the longest n-gram
/// of 4 to 2 tokens that ends them.
pub fn ngram(tokens: &[u32], count: usize) -> Vec<u32> {
    for length in [4, 3, 2] {
        if tokens.len() <= length {
            continue;
        }
        let end = &tokens[tokens.len() - length..];
        for start in (0..tokens.len() - length).rev() {
            if &tokens[start..start + length] == end {
                return tokens[start + length..].iter().take(count).copied().collect();
            }
        }
    }
    Vec::new()
}

/// Key of the chaos drafter's draws.
const CHAOS_KEY: u64 = 0x5eed_0fc4_a05e_5eed;

/// What the chaos drafter proposes: word 0 decides how many tokens, word 1 of which kind, word 2 where a copied stretch
/// begins, and word 3 + i the i-th of the random tokens.
pub fn chaos(tokens: &[u32], choice: u32, count: usize, vocabulary: u32) -> Vec<u32> {
    if tokens.is_empty() || vocabulary == 0 {
        return Vec::new();
    }
    let position = tokens.len() as u32;
    let word = |index: u32| {
        u64::from(scalar::philox(CHAOS_KEY, [position, index / 4, choice, scalar::PURPOSE_DRAFT])[(index % 4) as usize])
    };
    let scaled = |index: u32, bound: u64| (word(index) * bound) >> 32;
    let length = scaled(0, count as u64 + 1);
    let copies = word(1) % 2 == 0;
    let start = scaled(2, tokens.len() as u64);
    (0..length)
        .map(|index| match copies {
            true => tokens[((start + index) % tokens.len() as u64) as usize],
            false => scaled(3 + index as u32, u64::from(vocabulary)) as u32,
        })
        .collect()
}

/// What a step verifies of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The places of the query; -1 where nothing is verified.
    pub drafts: Vec<i64>,
    /// What the model reads there.
    pub read: Vec<u32>,
    /// Every place and proposal that is not verified, with why.
    pub withheld: Vec<WithheldDraft>,
}

/// Schedules `proposed`: the grammar accepts the first `legal` of them, `limit` can count before the end, and a step has
/// room for `most`. `last` is the last committed token.
pub fn schedule(
    proposed: &[u32],
    legal: usize,
    limit: usize,
    most: usize,
    mode: SchedulerMode,
    last: u32,
) -> Scheduled {
    let wanted = match mode {
        SchedulerMode::Sync => proposed.len().min(legal),
        SchedulerMode::Async => most,
    };
    let length = wanted.min(limit).min(most);
    let mut scheduled = Scheduled { drafts: Vec::new(), read: Vec::new(), withheld: Vec::new() };
    for place in 0..length.max(proposed.len()) {
        let reason = if place >= length && place < legal {
            Some(WithheldReason::Limit)
        } else if place >= proposed.len() {
            Some(WithheldReason::Missing)
        } else if place >= legal {
            Some(WithheldReason::Grammar)
        } else {
            None
        };
        scheduled.withheld.extend(reason.map(|reason| WithheldDraft { index: place as u32, reason }));
        if place < length {
            scheduled.read.push(proposed.get(place).copied().unwrap_or(last));
            scheduled.drafts.push(if reason.is_some() { -1 } else { i64::from(proposed[place]) });
        }
    }
    scheduled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_takes_the_longest_ngram_and_its_last_occurrence() {
        assert_eq!(ngram(&[1, 2, 3, 4, 9, 3, 4, 8, 1, 2, 3, 4], 2), [9, 3]);
        assert_eq!(ngram(&[3, 4, 9, 3, 4, 8, 7, 3, 4], 2), [8, 7]);
        assert_eq!(ngram(&[7, 7, 7], 4), [7]);
        assert!(ngram(&[1, 2, 3, 2], 4).is_empty());
    }

    #[test]
    fn sync_trims_and_async_pads() {
        let trimmed = schedule(&[10, 11, 12], 1, 9, 4, SchedulerMode::Sync, 1);
        assert_eq!((trimmed.drafts, trimmed.withheld.len()), (vec![10], 2));
        let padded = schedule(&[10, 11, 12], 1, 9, 4, SchedulerMode::Async, 1);
        assert_eq!((padded.drafts, padded.read), (vec![10, -1, -1, -1], vec![10, 11, 12, 1]));
        let clamped = schedule(&[10, 11, 12], 3, 1, 4, SchedulerMode::Async, 1);
        assert_eq!((clamped.drafts, clamped.withheld[0].reason), (vec![10], WithheldReason::Limit));
    }
}
