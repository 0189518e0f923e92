//! Step 7 of the definition: the kept token with the greatest sum of value and noise.

use super::select::Ranked;
use super::truncate::Kept;
use crate::arith::scalar;
use crate::types::{ChoiceIndex, Position, TokenId};

/// Where a draw falls: together with a token's id it decides the token's noise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    /// The request's seed.
    pub seed: u64,
    /// The position that the token will take.
    pub position: Position,
    /// The choice.
    pub choice: ChoiceIndex,
}

/// Just above the greatest possible noise, which is that of `uniform(0)`: -log(-log(1 - 2^-33)) = 22.87.
const GREATEST_NOISE: f64 = 22.9;

/// The best token so far.
struct Best {
    id: u32,
    score: f64,
}

impl Best {
    fn consider(&mut self, id: u32, score: f64) {
        if score > self.score || (score == self.score && id < self.id) {
            *self = Self { id, score };
        }
    }
}

impl Draw {
    /// Draws from the kept tokens of a row. `best` is a token with the greatest value: the sooner a high score is known,
    /// the more is ruled out by it.
    pub fn token(&self, row: &[f32], best: TokenId, kept: Kept<'_>) -> TokenId {
        match kept {
            Kept::Row => self.best_of_row(row, best),
            Kept::Tokens(tokens) => self.best_of_tokens(row, tokens),
        }
    }

    fn score(&self, id: u32, value: f32) -> f64 {
        f64::from(value) + scalar::gumbel(self.seed, self.position.0, self.choice.0, id)
    }

    fn best_of_tokens(&self, row: &[f32], tokens: &[Ranked]) -> TokenId {
        let mut best = Best { id: u32::MAX, score: f64::NEG_INFINITY };
        for token in tokens {
            let value = row[token.index()];
            if f64::from(value) + GREATEST_NOISE >= best.score {
                best.consider(token.id(), self.score(token.id(), value));
            }
        }
        TokenId(best.id)
    }

    /// Rules out most tokens by an upper bound of their noise that takes no logarithm.
    fn best_of_row(&self, row: &[f32], best: TokenId) -> TokenId {
        let mut best = Best { id: best.0, score: self.score(best.0, row[best.index()]) };
        let mut bits = [0; BLOCK];
        for (values, first) in row.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
            if f64::from(super::select::maximum(values)) + GREATEST_NOISE < best.score {
                continue;
            }
            for (words, group) in bits.chunks_exact_mut(WORDS).zip(first / WORDS as u32..) {
                let counter = [self.position.0, group, self.choice.0, scalar::PURPOSE_TOKEN];
                words.copy_from_slice(&scalar::philox(self.seed, counter));
            }
            let least = least_bound(best.score);
            for ((&value, &bits), id) in values.iter().zip(&bits).zip(first..) {
                if value + noise_bound(bits) >= least {
                    best.consider(id, self.score(id, value));
                }
            }
        }
        TokenId(best.id)
    }
}

/// Tokens whose noise is made together; a multiple of [`WORDS`].
const BLOCK: usize = 64;
/// Tokens that share one Philox counter.
const WORDS: usize = 4;

/// What the sum of a value and [`noise_bound`] must reach to be worth the exact noise; leaves room for the rounding of
/// that sum.
fn least_bound(score: f64) -> f32 {
    (score - 0.01 - 1e-6 * score.abs()) as f32
}

/// An upper bound of the noise made of `bits`, loose by at most 0.09 where the noise is great.
///
/// The noise is -log(-log(1 - u)) <= -log(u), as -log(1 - u) >= u; and log2(x) is at least what a float's bits give
/// when they are read as a fixed-point number, as log2(1 + m) >= m.
fn noise_bound(bits: u32) -> f32 {
    // The leading 24 bits, which a float holds exactly: u >= leading * 2^-24. Zero gives a bound above all noise.
    let leading = (bits >> 8) as i32 as f32;
    let log2 = leading.to_bits() as i32 as f32 * (1.0 / (1 << 23) as f32) - 127.0;
    std::f32::consts::LN_2 * (24.0 - log2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise_of(bits: u32) -> f64 {
        -scalar::log(-scalar::log(1.0 - scalar::uniform(bits)))
    }

    #[test]
    fn the_greatest_noise_is_that_of_zero_bits() {
        assert!(noise_of(0) < GREATEST_NOISE && noise_of(0) > GREATEST_NOISE - 0.1);
        assert!(noise_of(1) < noise_of(0));
    }

    #[test]
    fn the_bound_is_above_the_noise_and_close_to_it_where_it_matters() {
        let edges = (0..32).flat_map(|shift| [(1_u32 << shift) - 1, 1 << shift, (1_u32 << shift) + 1]);
        let spread = (0..1_000_000_u32).map(|index| index.wrapping_mul(2_654_435_761));
        for bits in edges.chain(spread).chain([u32::MAX]) {
            let (noise, bound) = (noise_of(bits), f64::from(noise_bound(bits)));
            assert!(bound >= noise - 1e-4, "bits {bits}: bound {bound} below noise {noise}");
            if noise > 5.0 && bits >= 1 << 16 {
                assert!(bound < noise + 0.1, "bits {bits}: bound {bound} far above noise {noise}");
            }
        }
    }
}
