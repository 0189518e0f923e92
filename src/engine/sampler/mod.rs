//! From a valid row to a token.
//!
//! The definition is `docs/arithmetic.md`, "Sampling"; this is its fast form, and gives the same token for every row.

mod accept;
mod draw;
mod process;
mod select;
mod tokens;
mod truncate;

use thiserror::Error;

pub use self::accept::{Draft, Judgement, Odds, VerifyRule};
use self::draw::Draw;
pub use self::select::best_tokens;
pub use self::tokens::{TokenCount, TokenCounts};
use self::truncate::Truncation;
use crate::arith::Kernels;
use crate::engine::validity::ValidRow;
use crate::grammar::MaskRow;
use crate::params::SamplingParams;
use crate::types::{ChoiceIndex, Position, TokenId};

/// What a row is sampled with besides the row itself.
#[derive(Clone, Copy, Debug)]
pub struct SampleContext<'a> {
    /// The request's parameters.
    pub params: &'a SamplingParams,
    /// The tokens so far, as the penalties see them.
    pub counts: &'a TokenCounts,
    /// Tokens emitted before the one that this row decides.
    pub emitted: u32,
    /// The model's end tokens.
    pub end_tokens: &'a [TokenId],
    /// What the grammar allows; `None` where no grammar constrains the row.
    pub mask: Option<&'a MaskRow>,
    /// The position that the token will take.
    pub position: Position,
    /// Which of the request's choices this is.
    pub choice: ChoiceIndex,
}

/// A valid row of which nothing is left to choose from once the request's parameters are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SampleError {
    /// Every token is masked.
    #[error(
        "no token is left at position {position}: grammar, bias, `min_tokens` and the row itself leave nothing above -infinity"
    )]
    NothingLeft {
        /// The position that the token would have taken.
        position: Position,
    },
    /// A value left the range of f32.
    #[error("a logit overflows at position {position} when penalties and temperature are applied to it")]
    Overflow {
        /// The position that the token would have taken.
        position: Position,
    },
}

/// Samples rows; keeps its working memory between rows.
#[derive(Clone, Debug)]
pub struct Sampler {
    kernels: Kernels,
    /// The row after steps 1 to 3.
    processed: Vec<f32>,
    truncation: Truncation,
}

impl Default for Sampler {
    /// A sampler with the fastest kernels of this machine.
    fn default() -> Self {
        Self::new(Kernels::detect())
    }
}

impl Sampler {
    /// A sampler that computes with `kernels`; its tokens do not depend on which.
    pub fn new(kernels: Kernels) -> Self {
        Self { kernels, processed: Vec::new(), truncation: Truncation::default() }
    }

    /// The token that the request's parameters choose from `row`.
    ///
    /// # Errors
    /// If the parameters leave nothing to choose from, or drive the greatest logit out of range.
    pub fn sample(&mut self, row: &ValidRow<'_>, context: &SampleContext<'_>) -> Result<TokenId, SampleError> {
        let params = context.params;
        if params.is_greedy() {
            return Ok(self.process(row, context)?.0);
        }
        let (best, maximum) = self.divided(row, context)?;
        let processed = if self.processed.is_empty() { row.values() } else { &self.processed };
        let kept = self.truncation.apply(self.kernels, processed, maximum, params);
        let draw = Draw { seed: params.seed, position: context.position, choice: context.choice };
        Ok(draw.token(processed, best, kept))
    }

    /// Steps 1 to 3 at a temperature above 0: the best token after them, and its value.
    fn divided(&mut self, row: &ValidRow<'_>, context: &SampleContext<'_>) -> Result<(TokenId, f32), SampleError> {
        let (best, maximum) = self.process(row, context)?;
        // Division rounds monotonically, so that the greatest value stays the greatest.
        let maximum = maximum / context.params.temperature;
        if !maximum.is_finite() {
            return Err(SampleError::Overflow { position: context.position });
        }
        self.divide(row, context);
        Ok((best, maximum))
    }

    /// Steps 1 and 2, and the best token after them. An unchanged row is not copied, and `processed` stays empty.
    fn process(&mut self, row: &ValidRow<'_>, context: &SampleContext<'_>) -> Result<(TokenId, f32), SampleError> {
        self.processed.clear();
        if !process::changes_the_row(context) {
            return Ok((row.argmax(), row.statistics().maximum));
        }
        self.processed.extend_from_slice(row.values());
        process::apply(&mut self.processed, context);
        let position = context.position;
        match process::argmax(&self.processed) {
            None => Err(SampleError::NothingLeft { position }),
            Some((_, f32::INFINITY)) => Err(SampleError::Overflow { position }),
            Some(best) => Ok(best),
        }
    }

    /// Step 3. At temperature 1 there is nothing to do.
    fn divide(&mut self, row: &ValidRow<'_>, context: &SampleContext<'_>) {
        let temperature = context.params.temperature;
        if temperature == 1.0 {
            return;
        }
        if self.processed.is_empty() {
            self.processed.extend(row.values().iter().map(|value| value / temperature));
        } else {
            self.processed.iter_mut().for_each(|value| *value /= temperature);
        }
    }
}

#[cfg(test)]
mod tests;
