//! From a valid row to a token.
//!
//! The definition is `docs/arithmetic.md`, "Sampling"; this is its fast form, and gives the same token for every row.

mod select;
mod tokens;

use thiserror::Error;

pub use self::select::best_tokens;
pub use self::tokens::TokenCounts;
use crate::engine::validity::ValidRow;
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
        "no token is left at position {position}: bias, `min_tokens` and the row's own mask leave nothing above -infinity"
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

/// Samples rows of one vocabulary; keeps its working memory between rows.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    /// The processed row.
    processed: Vec<f32>,
}

impl Sampler {
    /// A sampler with no working memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The token that the request's parameters choose from `row`.
    ///
    /// # Errors
    /// If the parameters leave nothing to choose from, or drive a logit out of range.
    pub fn sample(&mut self, _row: &ValidRow<'_>, _context: &SampleContext<'_>) -> Result<TokenId, SampleError> {
        todo!("within the hour")
    }
}
