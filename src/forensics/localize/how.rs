//! How what was found is wrong: what else it is equal to.

use std::collections::BTreeSet;

use super::compare::{HEAD_INPUT, LOGITS, STATISTICS, same_statistic};
use super::standing::Standing;
use super::walk::{Run, as_floats, norm};
use super::{DRIFT, Figures, Found, How, Job, Origin};
use crate::arith::scalar;
use crate::capture::records::RowStatistics;
use crate::replay::gaps::Gaps;
use crate::replay::passage::{Passage, is_same};

/// How the difference is wrong; `None` if its row cannot be run.
pub(super) fn how(job: &Job<'_>, gaps: &Gaps, standing: &Standing<'_>, found: &Found) -> Option<How> {
    let run = standing.rows.get(found.row as usize)?;
    let seen = &found.seen;
    Some(match &seen.found {
        Figures::Sketch(values) => {
            let is_finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
            if !is_finite(values) {
                How::NonFinite
            } else if values.first() == Some(&0.0) {
                How::Zeroed
            } else if let Some(columns) = stale(standing, found, values) {
                How::Stale { columns }
            } else if let Some(origin) = foreign(job, gaps, standing, found, &|run| has_sketch(run, found, values)) {
                How::ForeignRow(origin)
            } else if let Some(token) = embedded(job, found, values) {
                How::ForeignRow(Origin::Token(token))
            } else {
                let norm = norm_of(run, found);
                let Figures::Sketch(expected) = &seen.expected else { return None };
                if expected.len() != values.len() {
                    return Some(How::Differs { relative: None });
                }
                by_size(expected.iter().zip(values).map(|(expected, found)| (*expected, *found)), norm)
            }
        }
        Figures::Row(row) => of_row(job, gaps, standing, found, row)?,
    })
}

/// How a logits row is wrong, or a number that is told of it.
fn of_row(job: &Job<'_>, gaps: &Gaps, standing: &Standing<'_>, found: &Found, row: &RowStatistics) -> Option<How> {
    let Figures::Row(expected) = found.seen.expected else { return None };
    if found.seen.operation == STATISTICS {
        let statistic = found.seen.statistic?;
        let is_of = |run: &Run| same_statistic(statistic, &run.statistics.into(), row);
        // Tokens and counts are the same in many rows.
        let tells = ["maximum", "log_sum_exp"].contains(&statistic);
        let of = tells.then(|| foreign(job, gaps, standing, found, &is_of)).flatten();
        return Some(of.map_or(How::Differs { relative: None }, |of| How::NeighboursValue { statistic, of }));
    }
    debug_assert_eq!(found.seen.operation, LOGITS);
    if row.is_invalid() {
        return Some(How::NonFinite);
    }
    let zeros = vec![0.0; job.plain.model().config.vocabulary_size];
    if row.checksum == scalar::checksum(&zeros) {
        return Some(How::Zeroed);
    }
    let is_of = |run: &Run| run.statistics.checksum == row.checksum;
    if let Some(origin) = foreign(job, gaps, standing, found, &is_of) {
        return Some(How::ForeignRow(origin));
    }
    let figures = [(expected.maximum, row.maximum), (expected.log_sum_exp, row.log_sum_exp)];
    // Two figures do not make a row: what differs elsewhere is no drift.
    Some(match by_size(figures.into_iter(), f64::from(expected.maximum.abs())) {
        How::Drift { relative } => How::Differs { relative: Some(relative) },
        other => other,
    })
}

/// By how many columns a history is another place's.
fn stale(standing: &Standing<'_>, found: &Found, values: &[f32]) -> Option<i64> {
    if found.seen.operation != "history" {
        return None;
    }
    let convolution = standing.convolutions.get(&(found.seen.layer? as usize))?;
    let is_it = |columns: &i64| {
        let history = convolution.stale(found.row as usize, *columns);
        history.is_some_and(|history| is_same(&scalar::sketch(&history), values))
    };
    convolution.reach().find(is_it)
}

/// The row of the step, of this sequence or of a neighbour, that what was found belongs to.
fn foreign(
    job: &Job<'_>,
    gaps: &Gaps,
    standing: &Standing<'_>,
    found: &Found,
    is_of: &dyn Fn(&Run) -> bool,
) -> Option<Origin> {
    let origin = |request, choice, row: usize| Origin::Row { request, choice, row: row as u32 };
    let own = standing.rows.iter().enumerate().filter(|(row, _)| *row != found.row as usize);
    if let Some((row, _)) = own.into_iter().find(|(_, run)| is_of(run)) {
        return Some(origin(found.request, found.choice, row));
    }
    let neighbours = standing.step.batch.as_ref().map_or(&[][..], |batch| &batch.neighbours);
    // The list is the file's, and may name one again and again.
    let neighbours: BTreeSet<(u64, u32)> = neighbours.iter().copied().collect();
    neighbours.into_iter().find_map(|(request, choice)| {
        let recorded = job.recording.request(request).ok()?;
        let neighbour = Standing::at(job.plain, gaps, &recorded, choice, found.step)?;
        let row = neighbour.rows.iter().position(is_of)?;
        Some(origin(request, choice, row))
    })
}

/// Whether what was found is the sketch that a run has of the same operation.
fn has_sketch(run: &Run, found: &Found, values: &[f32]) -> bool {
    if found.seen.operation == HEAD_INPUT {
        return is_same(&scalar::sketch(&as_floats(&run.head_input)), values);
    }
    run.passage.iter().any(|passage| is_operation(passage, found) && is_same(&passage.sketch, values))
}

fn is_operation(passage: &Passage, found: &Found) -> bool {
    passage.operation == found.seen.operation && passage.layer.map(|layer| layer as u32) == found.seen.layer
}

/// The token whose embedding was found.
fn embedded(job: &Job<'_>, found: &Found, values: &[f32]) -> Option<u32> {
    if found.seen.operation != "embedding" {
        return None;
    }
    let model = job.plain.model();
    let mut embedding = vec![0.0; model.config.hidden_size];
    (0..model.config.vocabulary_size).find_map(|token| {
        scalar::dequantize_row(&model.weights.embedding.view(), token, &mut embedding);
        is_same(&scalar::sketch(&embedding), values).then_some(token as u32)
    })
}

/// The norm of what the operation gives.
fn norm_of(run: &Run, found: &Found) -> f64 {
    let place = run.passage.iter().position(|passage| is_operation(passage, found));
    place.and_then(|place| run.norms.get(place).copied()).unwrap_or_else(|| norm(&as_floats(&run.head_input)))
}

/// By how much the figures are off, relative to a norm.
fn by_size(figures: impl Iterator<Item = (f32, f32)>, norm: f64) -> How {
    let off = figures.map(|(expected, found)| (f64::from(expected) - f64::from(found)).abs()).fold(0.0, f64::max);
    let relative = off / norm;
    match relative {
        relative if relative <= DRIFT => How::Drift { relative },
        relative => How::Differs { relative: relative.is_finite().then_some(relative) },
    }
}
