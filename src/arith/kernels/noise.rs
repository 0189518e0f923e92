//! Sampling noise for many candidates at once.

use super::{Kernels, compiled_for, scalar};

/// Candidates that share one Philox block.
const WORDS: usize = 4;

impl Kernels {
    /// `out[i]` is [`scalar::gumbel`] of candidate `i`, for all candidates from 0.
    pub fn gumbel(&self, seed: u64, position: u32, choice: u32, out: &mut [f64]) {
        compiled_for!(self.isa, fn(seed: u64 = seed, position: u32 = position, choice: u32 = choice, out: &mut [f64] = out) {
            for (block, out) in out.chunks_mut(WORDS).enumerate() {
                let counter = [position, block as u32, choice, scalar::PURPOSE_TOKEN];
                for (out, word) in out.iter_mut().zip(scalar::philox(seed, counter)) {
                    *out = scalar::uniform(word);
                }
            }
            for out in out {
                *out = -scalar::log(-scalar::log(1.0 - *out));
            }
        });
    }
}
