//! Random rows and parameters, with everything in them that makes a sampler's life hard.

use super::plain;
use crate::arith::scalar;
use crate::engine::sampler::{SampleContext, TokenCounts};
use crate::params::SamplingParams;
use crate::types::{ChoiceIndex, Position, TokenId};

/// A stream of random numbers, from the contract's own counter-based generator.
pub struct Random {
    key: u64,
    counter: u32,
}

impl Random {
    pub fn new(key: u64) -> Self {
        Self { key, counter: 0 }
    }

    pub fn word(&mut self) -> u32 {
        self.counter += 1;
        scalar::philox(self.key, [self.counter, 1, 2, 3])[0]
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((u64::from(self.word()) * limit as u64) >> 32) as usize
    }

    pub fn unit(&mut self) -> f64 {
        scalar::uniform(self.word())
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// About normal.
    fn bell(&mut self) -> f32 {
        ((0..12).map(|_| self.unit()).sum::<f64>() - 6.0) as f32
    }
}

/// One row with all that it is sampled with.
#[derive(Debug)]
pub struct Case {
    pub row: Vec<f32>,
    pub params: SamplingParams,
    pub counts: TokenCounts,
    pub emitted: u32,
    pub end_tokens: Vec<TokenId>,
    pub position: Position,
    pub choice: ChoiceIndex,
}

impl Case {
    /// The case number `key`, with a row of `length` logits.
    pub fn new(key: u64, length: usize) -> Self {
        let random = &mut Random::new(key);
        let row = row(random, length);
        let tokens = |random: &mut Random, most: usize| -> Vec<TokenId> {
            (0..random.below(most + 1)).map(|_| TokenId(random.below(length) as u32)).collect()
        };
        let mut counts = TokenCounts::of_prompt(&tokens(random, 8));
        let output = tokens(random, 12);
        output.iter().chain(output.iter().take(3)).for_each(|&token| counts.push(token));
        let stop_token_ids = tokens(random, 2);
        Self {
            row,
            params: params(random, length, stop_token_ids),
            counts,
            emitted: random.below(4) as u32,
            end_tokens: tokens(random, 2),
            position: Position(random.word() >> random.below(32)),
            choice: ChoiceIndex(random.below(4) as u32),
        }
    }

    pub fn context(&self) -> SampleContext<'_> {
        SampleContext {
            params: &self.params,
            counts: &self.counts,
            emitted: self.emitted,
            end_tokens: &self.end_tokens,
            mask: None,
            position: self.position,
            choice: self.choice,
        }
    }
}

/// Logits with ties, near ties, masks and extremes; at least one is finite.
fn row(random: &mut Random, length: usize) -> Vec<f32> {
    let kind = random.below(8);
    let mut row: Vec<f32> = (0..length)
        .map(|_| match kind {
            0 | 1 => 3.0 * random.bell(),
            2 => (4.0 * random.bell()).round() / 4.0,
            // Neighbouring floats, which a division may make equal.
            3 => f32::from_bits(10.0_f32.to_bits() + random.below(4) as u32),
            4 => random.one_of(&[0.0, -0.0]),
            5 => random.one_of(&[1e30, -1e30, 0.0, 1e-40]),
            6 => 0.1 * random.bell(),
            _ => {
                if random.chance(0.02) {
                    8.0
                } else {
                    -8.0 + random.bell()
                }
            }
        })
        .collect();
    if random.chance(0.4) {
        let share = random.one_of(&[0.1, 0.9, 1.0]);
        let allowed = random.below(length);
        for (id, value) in row.iter_mut().enumerate() {
            if id != allowed && random.chance(share) {
                *value = f32::NEG_INFINITY;
            }
        }
    }
    row
}

fn params(random: &mut Random, length: usize, stop_token_ids: Vec<TokenId>) -> SamplingParams {
    let penalize = random.chance(0.4);
    let mut logit_bias: Vec<_> = (0..random.below(4) * usize::from(random.chance(0.3)))
        .map(|_| (TokenId(random.below(length) as u32), random.one_of(&[-100.0, -1.5, 2.0, 100.0])))
        .collect();
    logit_bias.sort_by_key(|&(token, _)| token);
    logit_bias.dedup_by_key(|&mut (token, _)| token);
    let length = length as u32;
    SamplingParams {
        temperature: random.one_of(&[0.0, 0.01, 0.3, 0.6, 0.7, 1.0, 1.0, 1.5, 100.0]),
        top_p: random.one_of(&[1.0, 1.0, 0.9, 0.95, 0.5, 0.999_999, 1e-6, 0.1]),
        min_p: random.one_of(&[0.0, 0.0, 0.0, 0.05, 0.5, 1.0, 1e-6]),
        top_k: random.one_of(&[None, None, Some(1), Some(2), Some(5), Some(40), Some(length), Some(length + 5)]),
        seed: u64::from(random.word()) << 32 | u64::from(random.word()),
        repetition_penalty: if penalize { random.one_of(&[1.0, 1.1, 0.01, 100.0]) } else { 1.0 },
        presence_penalty: if penalize { random.one_of(&[0.0, 1.5, -2.0]) } else { 0.0 },
        frequency_penalty: if penalize { random.one_of(&[0.0, 0.3, -2.0]) } else { 0.0 },
        logit_bias,
        min_tokens: random.one_of(&[0, 0, 2, 3]),
        stop_token_ids,
        ..plain()
    }
}
