//! Chaos: as many tokens as chance says, of which some are likely and most are not.

use super::{DraftContext, Drafter};
use crate::arith::scalar;
use crate::backend::BackendError;
use crate::engine::sampler::Draft;
use crate::types::TokenId;

/// Key of the draws; the request's own seed would tie its drafts to its noise.
const KEY: u64 = 0x5eed_0fc4_a05e_5eed;

/// Proposes random counts of random tokens, to reach what no sensible drafter does: queries of every length after
/// accepted lengths of every size, drafts that the grammar refuses, drafts past the end.
///
/// Half of its proposals copy a random stretch of the sequence, which a model that repeats itself may accept; the rest are
/// any tokens. The draws depend on the position and the choice alone.
#[derive(Clone, Copy, Debug)]
pub struct RandomDrafter {
    count: usize,
    vocabulary: u32,
}

impl RandomDrafter {
    /// A drafter that proposes up to `count` of the `vocabulary` tokens.
    pub fn new(count: usize, vocabulary: usize) -> Self {
        Self { count, vocabulary: vocabulary as u32 }
    }

    fn draw(&self, context: &DraftContext<'_>) -> Vec<Draft> {
        let position = context.tokens.len() as u32;
        let word = |index: u32| {
            let words = scalar::philox(KEY, [position, index / 4, context.sequence.choice.0, scalar::PURPOSE_DRAFT]);
            words[(index % 4) as usize]
        };
        let below = |index, bound: usize| ((u64::from(word(index)) * bound as u64) >> 32) as usize;
        let count = below(0, self.count + 1);
        let token = |index: usize| match word(1) % 2 {
            0 => context.tokens[(below(2, context.tokens.len()) + index) % context.tokens.len()],
            _ => TokenId(below(3 + index as u32, self.vocabulary as usize) as u32),
        };
        (0..count).map(|index| Draft::certain(token(index))).collect()
    }
}

impl Drafter for RandomDrafter {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        Ok(sequences.iter().map(|context| self.draw(context)).collect())
    }
}
