//! Valid rows: the only way into the sampler.
//!
//! A logits row with a NaN, a +infinity or nothing above -infinity has no best token, and whatever id an argmax makes
//! of it is a lie. Such a row never becomes a token: [`ValidRow::check`] alone makes what the sampler takes.

use thiserror::Error;

use crate::arith::RowStatistics;
use crate::types::TokenId;

/// A raw logits row that has been found valid, with its statistics.
///
/// No value is NaN or +infinity and at least one is finite; -infinity is legal.
#[derive(Clone, Copy, Debug)]
pub struct ValidRow<'a> {
    values: &'a [f32],
    statistics: &'a RowStatistics,
    argmax: TokenId,
}

/// What makes a row invalid, gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RowFault {
    /// A NaN.
    #[error("NaN")]
    NotANumber,
    /// A value of +infinity.
    #[error("+infinity")]
    PositiveInfinity,
    /// No value above -infinity (a row of no values included).
    #[error("nothing above -infinity")]
    NothingFinite,
    /// The statistics are those of another row.
    #[error("statistics of another row")]
    ForeignStatistics,
}

/// A logits row that must not become a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "invalid logits row: {fault}{}; of {length} values {nan_count} are NaN, {positive_infinity_count} +infinity and \
     {negative_infinity_count} -infinity", first_index.map(|index| format!(", first at token id {index}")).unwrap_or_default()
)]
pub struct InvalidRow {
    /// The gravest fault.
    pub fault: RowFault,
    /// Lowest token id with that fault; `None` where the fault is not a token's.
    pub first_index: Option<u32>,
    /// Values in the row.
    pub length: usize,
    /// NaN values.
    pub nan_count: u32,
    /// Values of +infinity.
    pub positive_infinity_count: u32,
    /// Values of -infinity.
    pub negative_infinity_count: u32,
}

impl<'a> ValidRow<'a> {
    /// Judges a raw row by its statistics, in constant time when it is valid.
    ///
    /// `statistics` are those of `values` ([`crate::arith::scalar::row_statistics`]); statistics whose argmax is not
    /// where the row has its maximum are refused.
    pub fn check(values: &'a [f32], statistics: &'a RowStatistics) -> Result<Self, InvalidRow> {
        let invalid = |fault, first: Option<usize>| InvalidRow {
            fault,
            first_index: first.map(|index| index as u32),
            length: values.len(),
            nan_count: statistics.nan_count,
            positive_infinity_count: statistics.positive_infinity_count,
            negative_infinity_count: statistics.negative_infinity_count,
        };
        let first = |is_fault: fn(f32) -> bool| values.iter().position(|&value| is_fault(value));
        if statistics.nan_count > 0 {
            return Err(invalid(RowFault::NotANumber, first(f32::is_nan)));
        }
        if statistics.positive_infinity_count > 0 {
            return Err(invalid(RowFault::PositiveInfinity, first(|value| value == f32::INFINITY)));
        }
        if statistics.negative_infinity_count as usize == values.len() {
            return Err(invalid(RowFault::NothingFinite, first(|value| value == f32::NEG_INFINITY)));
        }
        let argmax = statistics.argmax.map(TokenId);
        match argmax {
            Some(token) if values.get(token.index()).is_some_and(|&value| value == statistics.maximum) => {
                Ok(Self { values, statistics, argmax: token })
            }
            _ => Err(invalid(RowFault::ForeignStatistics, None)),
        }
    }

    /// The logits, one per token id.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Statistics of the row.
    pub fn statistics(&self) -> &'a RowStatistics {
        self.statistics
    }

    /// The token with the greatest logit; the lowest such id.
    pub fn argmax(&self) -> TokenId {
        self.argmax
    }

    /// How many tokens come before `token` in the order (value descending, id ascending); `None` for an id that the
    /// row does not have.
    pub fn rank(&self, token: TokenId) -> Option<u32> {
        let value = *self.values.get(token.index())?;
        let (before, after) = self.values.split_at(token.index());
        let ties = before.iter().filter(|&&other| other >= value).count();
        let greater = after.iter().filter(|&&other| other > value).count();
        Some((ties + greater) as u32)
    }

    /// The greatest logit minus `token`'s; `None` for an id that the row does not have.
    pub fn margin(&self, token: TokenId) -> Option<f32> {
        Some(self.statistics.maximum - self.values.get(token.index())?)
    }
}
