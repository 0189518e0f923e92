//! The rows of which servers made tokens: NaN, +infinity, nothing above -infinity. And a masked row, which is legal.

use super::{plain, unmasked};
use crate::arith::{Kernels, scalar};
use crate::engine::sampler::{SampleError, Sampler, TokenCounts};
use crate::engine::validity::{InvalidRow, RowFault, ValidRow};
use crate::params::SamplingParams;
use crate::types::{Position, TokenId};

const LENGTH: usize = 64;
const TEMPERATURES: [f32; 3] = [0.0, 0.6, 1.0];

fn sample(row: &[f32], params: &SamplingParams, position: u32) -> Result<Result<TokenId, SampleError>, InvalidRow> {
    let statistics = scalar::row_statistics(row);
    let row = ValidRow::check(row, &statistics)?;
    let counts = TokenCounts::default();
    let context = unmasked(params, &counts, position);
    Ok(Sampler::new(Kernels::detect()).sample(&row, &context))
}

fn with(index: usize, value: f32) -> Vec<f32> {
    let mut row: Vec<f32> = (0..LENGTH).map(|id| id as f32 / 10.0).collect();
    row[index] = value;
    row
}

#[test]
fn an_invalid_row_never_becomes_a_token() {
    let invalid = |fault, first_index, counts: [u32; 3]| InvalidRow {
        fault,
        first_index: Some(first_index),
        length: LENGTH,
        nan_count: counts[0],
        positive_infinity_count: counts[1],
        negative_infinity_count: counts[2],
    };
    let rows = [
        (with(19, f32::NAN), invalid(RowFault::NotANumber, 19, [1, 0, 0])),
        (vec![f32::NAN; LENGTH], invalid(RowFault::NotANumber, 0, [64, 0, 0])),
        (with(16, f32::INFINITY), invalid(RowFault::PositiveInfinity, 16, [0, 1, 0])),
        (vec![f32::INFINITY; LENGTH], invalid(RowFault::PositiveInfinity, 0, [0, 64, 0])),
        (vec![f32::NEG_INFINITY; LENGTH], invalid(RowFault::NothingFinite, 0, [0, 0, 64])),
    ];
    for temperature in TEMPERATURES {
        let params = SamplingParams { temperature, ..plain() };
        for (row, expected) in &rows {
            for position in 0..20 {
                assert_eq!(sample(row, &params, position).expect_err("no token"), *expected, "at {temperature}");
            }
        }
    }
}

#[test]
fn a_row_without_values_is_invalid() {
    let error = sample(&[], &plain(), 0).expect_err("no token");
    assert_eq!((error.fault, error.first_index), (RowFault::NothingFinite, None));
}

#[test]
fn a_legal_mask_leaves_its_tokens() {
    let mut row = vec![f32::NEG_INFINITY; LENGTH];
    row[1] = 2.0;
    row[3] = 1.0;
    for temperature in TEMPERATURES {
        let params = SamplingParams { temperature, ..plain() };
        let tokens: Vec<_> =
            (0..50).map(|position| sample(&row, &params, position).expect("valid").expect("a token").0).collect();
        assert!(tokens.iter().all(|token| [1, 3].contains(token)), "{tokens:?} at {temperature}");
        let both = tokens.contains(&1) && tokens.contains(&3);
        assert_eq!(both, temperature > 0.0, "{tokens:?} at {temperature}");
    }
}

#[test]
fn statistics_of_another_row_are_refused() {
    let (row, neighbour) = (with(5, 9.0), with(60, 9.5));
    let statistics = scalar::row_statistics(&neighbour);
    let error = ValidRow::check(&row, &statistics).expect_err("a foreign maximum");
    assert_eq!(error.fault, RowFault::ForeignStatistics);
}

#[test]
fn parameters_that_leave_nothing_are_an_error() {
    let mut row = vec![f32::NEG_INFINITY; LENGTH];
    row[1] = 2.0;
    for temperature in TEMPERATURES {
        let params = SamplingParams { temperature, min_tokens: 1, stop_token_ids: vec![TokenId(1)], ..plain() };
        let found = sample(&row, &params, 4).expect("a valid row");
        assert_eq!(found, Err(SampleError::NothingLeft { position: Position(4) }));
    }
}

#[test]
fn an_overflow_is_an_error() {
    let row = with(8, 3e38);
    let params = SamplingParams { temperature: 0.5, ..plain() };
    assert_eq!(sample(&row, &params, 4).expect("a valid row"), Err(SampleError::Overflow { position: Position(4) }));
}

#[test]
fn rank_and_margin_are_in_the_order_of_the_definition() {
    let row = [1.0, 3.0, f32::NEG_INFINITY, 3.0, 2.0];
    let statistics = scalar::row_statistics(&row);
    let row = ValidRow::check(&row, &statistics).expect("valid");
    let ranks: Vec<_> = (0..6).map(|id| row.rank(TokenId(id))).collect();
    assert_eq!(ranks, [Some(3), Some(0), Some(4), Some(1), Some(2), None]);
    assert_eq!(row.margin(TokenId(4)), Some(1.0));
    assert_eq!(row.margin(TokenId(2)), Some(f32::INFINITY));
    assert_eq!(row.margin(TokenId(5)), None);
}
