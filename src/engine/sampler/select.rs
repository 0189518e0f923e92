//! The best values of a row, without sorting the row.

use crate::types::TokenId;

/// A token in the order in which candidates are ranked: value descending, id ascending, both zeros equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ranked(u64);

impl Ranked {
    /// The place of a token with this value; the value must not be NaN.
    pub fn new(id: u32, value: f32) -> Self {
        // Adding +0 makes -0 into +0. Then a flip orders the bits as the values are, and another turns the order round.
        let bits = (value + 0.0).to_bits();
        let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
        Self(u64::from(!ascending) << 32 | u64::from(id))
    }

    /// The token's id.
    pub fn id(self) -> u32 {
        self.0 as u32
    }

    /// The token's id as an index.
    pub fn index(self) -> usize {
        self.id() as usize
    }
}

/// The `count` best tokens of a row, best first: value descending, id ascending. -infinity counts as a value; a row
/// with fewer values gives them all. The row must hold no NaN.
pub fn best_tokens(row: &[f32], count: usize) -> Vec<(TokenId, f32)> {
    let mut best = Vec::new();
    best_of_row(row, count, &mut best);
    best.iter().map(|token| (TokenId(token.id()), row[token.index()])).collect()
}

/// Collects the `count` best tokens of a row into `best`, best first.
pub(super) fn best_of_row(row: &[f32], count: usize, best: &mut Vec<Ranked>) {
    at_least(row, lower_bound(row, count), best);
    keep_best(best, count);
    best.sort_unstable();
}

/// Keeps the `count` best candidates, in any order.
pub(super) fn keep_best(candidates: &mut Vec<Ranked>, count: usize) {
    if count == 0 {
        candidates.clear();
    } else if count < candidates.len() {
        candidates.select_nth_unstable(count - 1);
        candidates.truncate(count);
    }
}

/// Collects every token with a value of at least `least` into `found`, by id.
pub(super) fn at_least(row: &[f32], least: f32, found: &mut Vec<Ranked>) {
    found.clear();
    for (block, first) in row.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
        // Most blocks hold nothing: one comparison per block instead of one branch per value.
        if maximum(block) >= least {
            let tokens = block.iter().zip(first..).filter(|&(&value, _)| value >= least);
            found.extend(tokens.map(|(&value, id)| Ranked::new(id, value)));
        }
    }
}

/// Values that are looked at together.
const BLOCK: usize = 32;

/// A value that at least `count` values of the row reach, close to the `count`-th best where that is cheap to know:
/// each of the `count` best block maxima stands for at least one value.
fn lower_bound(row: &[f32], count: usize) -> f32 {
    /// Blocks per wanted value: with more, fewer values are collected in vain.
    const BLOCKS_PER_VALUE: usize = 4;
    let block = (row.len() / (BLOCKS_PER_VALUE * count.max(1))).min(64);
    if count == 0 || block < 4 {
        return f32::NEG_INFINITY;
    }
    let mut maxima: Vec<Ranked> =
        row.chunks(block).zip(0..).map(|(block, id)| Ranked::new(id, maximum(block))).collect();
    let (_, nth, _) = maxima.select_nth_unstable(count - 1);
    row.chunks(block).nth(nth.index()).map_or(f32::NEG_INFINITY, maximum)
}

/// The greatest value; -infinity for none. The values must hold no NaN.
pub(super) fn maximum(values: &[f32]) -> f32 {
    const LANES: usize = 16;
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = greater(*lane, value);
        }
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, greater)
}
