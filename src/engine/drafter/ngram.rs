//! Prompt lookup: what came after the same few tokens the last time.

use super::{DraftContext, Drafter};
use crate::backend::BackendError;
use crate::engine::sampler::Draft;
use crate::types::TokenId;

/// Longest n-gram that is looked up first.
const LONGEST: usize = 4;
/// Shortest that is looked up at all.
const SHORTEST: usize = 2;

/// Looks the last tokens of the sequence up in the sequence itself (Saxena, "Prompt lookup decoding", 2023).
///
/// Of the n-grams with 4 to 2 tokens that end the sequence, the longest that stands earlier in it is taken, at its last
/// occurrence; what follows it there is proposed, however little that is.
#[derive(Clone, Copy, Debug)]
pub struct NgramDrafter {
    count: usize,
}

impl NgramDrafter {
    /// A drafter that proposes up to `count` tokens.
    pub fn new(count: usize) -> Self {
        Self { count }
    }

    fn look_up<'a>(&self, tokens: &'a [TokenId]) -> &'a [TokenId] {
        for length in (SHORTEST..=LONGEST).rev() {
            let Some((_, before)) = tokens.split_last() else { return &[] };
            let Some(start) = tokens.len().checked_sub(length) else { continue };
            let ngram = &tokens[start..];
            // The last occurrence that ends before the sequence does.
            if let Some(found) = before.windows(length).rposition(|window| window == ngram) {
                let following = &tokens[found + length..];
                return &following[..following.len().min(self.count)];
            }
        }
        &[]
    }
}

impl Drafter for NgramDrafter {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        let drafts = |tokens: &[TokenId]| tokens.iter().map(|&token| Draft::certain(token)).collect();
        Ok(sequences.iter().map(|sequence| drafts(self.look_up(sequence.tokens))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(tokens: &[u32], count: usize) -> Vec<u32> {
        let tokens: Vec<TokenId> = tokens.iter().copied().map(TokenId).collect();
        NgramDrafter::new(count).look_up(&tokens).iter().map(|token| token.0).collect()
    }

    #[test]
    fn the_longest_ngram_goes_first_and_then_its_last_occurrence() {
        assert_eq!(proposal(&[1, 2, 3, 4, 9, 3, 4, 8, 1, 2, 3, 4], 2), [9, 3], "4 tokens before 2");
        assert_eq!(proposal(&[3, 4, 9, 3, 4, 8, 7, 3, 4], 2), [8, 7], "the last of two");
        assert_eq!(proposal(&[5, 1, 2, 6, 1, 2], 9), [6, 1, 2], "what there is");
    }

    #[test]
    fn an_occurrence_may_overlap_the_end() {
        assert_eq!(proposal(&[7, 7, 7], 4), [7]);
        assert_eq!(proposal(&[7, 8, 7, 8, 7, 8], 2), [7, 8]);
    }

    #[test]
    fn nothing_is_proposed_where_nothing_repeats() {
        for tokens in [&[][..], &[1], &[1, 2], &[1, 2, 3, 2]] {
            assert!(proposal(tokens, 4).is_empty());
        }
    }
}
