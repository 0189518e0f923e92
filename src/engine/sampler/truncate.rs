//! Steps 4 to 6 of the definition: min-p, top-k, top-p.
//!
//! A filter that keeps everything is passed over. What is kept stays "the whole row" as long as no filter has cut it,
//! since a row of 49,152 candidates is never worth ranking as a whole.

use super::select::{self, Ranked};
use crate::arith::Kernels;
use crate::params::SamplingParams;

/// The working memory of the filters, and what they kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Truncation {
    /// `exp(value - maximum)` of every token.
    weights: Vec<f32>,
    /// What was kept, unless it is the whole row.
    kept: Vec<Ranked>,
}

/// What the filters kept of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept<'a> {
    /// Every token.
    Row,
    /// These tokens.
    Tokens(&'a [Ranked]),
}

/// How far the kept tokens are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Every token is kept; `kept` holds nothing.
    Whole,
    /// `kept` holds them in any order.
    Unordered,
    /// `kept` holds them best first.
    BestFirst,
}

impl Truncation {
    /// Applies the filters to a row after temperature, of which `maximum` is the greatest value, and is finite.
    pub fn apply(&mut self, kernels: Kernels, row: &[f32], maximum: f32, params: &SamplingParams) -> Kept<'_> {
        let mut state = State::Whole;
        if params.min_p > 0.0 || params.top_p < 1.0 {
            self.weights.resize(row.len(), 0.0);
            kernels.exp_difference(row, maximum, &mut self.weights);
        }
        if params.min_p > 0.0 {
            self.min_p(row, params.min_p);
            state = State::Unordered;
        }
        if let Some(count) = params.top_k
            && (count as usize) < row.len()
        {
            match state {
                State::Whole => select::best_of_row(row, count as usize, &mut self.kept),
                State::Unordered | State::BestFirst => {
                    select::keep_best(&mut self.kept, count as usize);
                    self.kept.sort_unstable();
                }
            }
            state = State::BestFirst;
        }
        if params.top_p < 1.0 {
            match state {
                State::Whole => self.top_p_of_row(row, params.top_p),
                State::Unordered => {
                    self.kept.sort_unstable();
                    self.top_p_of_kept(params.top_p);
                }
                State::BestFirst => self.top_p_of_kept(params.top_p),
            }
            state = State::BestFirst;
        }
        if state == State::Whole { Kept::Row } else { Kept::Tokens(&self.kept) }
    }

    /// Keeps what has at least `min_p` of the best token's weight, which is 1.
    fn min_p(&mut self, row: &[f32], min_p: f32) {
        // The ranks must be by value: different values may share a weight.
        select::at_least(&self.weights, min_p, &mut self.kept);
        for token in &mut self.kept {
            *token = Ranked::new(token.id(), row[token.index()]);
        }
    }

    /// Top-p over `kept`, which is best first.
    fn top_p_of_kept(&mut self, top_p: f32) {
        let total: f64 = self.kept.iter().fold(0.0, |sum, token| sum + self.weight(token));
        let threshold = f64::from(top_p) * total;
        let mut sum = 0.0;
        let reaches = |token: &Ranked| {
            let reached = sum >= threshold;
            sum += self.weight(token);
            reached
        };
        let length = self.kept.iter().position(reaches).unwrap_or(self.kept.len());
        self.kept.truncate(length);
    }

    /// Top-p over the whole row: ranks only as many of the best tokens as hold the mass.
    ///
    /// The definition sums the whole row in rank order. Another order gives a total that differs by no more than a
    /// known bound, so that the sum over the best tokens, which is exact, decides by itself unless it comes that close
    /// to the threshold; then everything is ranked.
    fn top_p_of_row(&mut self, row: &[f32], top_p: f32) {
        let total = unordered_sum(&self.weights);
        let threshold = f64::from(top_p) * total;
        let tolerance = 4.0 * row.len() as f64 * f64::EPSILON * total;
        // All weights below this one together are less than what top-p may cut.
        let least_needed = ((1.0 - f64::from(top_p)) * total / row.len() as f64) as f32;
        for least in [0.03, 0.001, least_needed] {
            if least < least_needed {
                continue;
            }
            self.min_p(row, least);
            let mass: f64 = self.kept.iter().map(|token| self.weight(token)).sum();
            if mass > threshold + tolerance {
                self.kept.sort_unstable();
                if let Some(length) = self.certain_length(threshold, tolerance) {
                    self.kept.truncate(length);
                    return;
                }
                break;
            }
        }
        self.kept.clear();
        self.kept.extend(row.iter().zip(0..).map(|(&value, id)| Ranked::new(id, value)));
        self.kept.sort_unstable();
        self.top_p_of_kept(top_p);
    }

    /// How many of `kept`, best first, it takes until the sum reaches the threshold, at least one; `None` if a sum
    /// falls within the tolerance of it, or none reaches it.
    fn certain_length(&self, threshold: f64, tolerance: f64) -> Option<usize> {
        let mut sum = 0.0;
        for (token, length) in self.kept.iter().zip(1..) {
            sum += self.weight(token);
            if sum > threshold + tolerance {
                return Some(length);
            }
            if sum >= threshold - tolerance {
                return None;
            }
        }
        None
    }

    fn weight(&self, token: &Ranked) -> f64 {
        f64::from(self.weights[token.index()])
    }
}

/// The sum of the weights in whatever order is fast.
fn unordered_sum(weights: &[f32]) -> f64 {
    const LANES: usize = 8;
    let (chunks, rest) = weights.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, &weight) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(weight);
        }
    }
    lanes.into_iter().sum::<f64>() + rest.iter().map(|&weight| f64::from(weight)).sum::<f64>()
}
