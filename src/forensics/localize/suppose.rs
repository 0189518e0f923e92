//! A step without sketches: what may have been done to it is supposed and run, and believed only if every row of the step
//! comes out bit for bit as it is recorded.

use rayon::prelude::*;

use super::compare::{Seen, compare};
use super::standing::Standing;
use super::walk::Run;
use super::{Figures, Found, Job};
use crate::capture::records::MOST_DRAFTS;
use crate::replay::passage::{is_same, values};

/// What may have been done to operations of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Supposition {
    operation: &'static str,
    /// `None` for those of every layer.
    layer: Option<usize>,
    change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// It gave zeros.
    Zeros,
    /// It read the state of so many columns earlier, or later if negative.
    Columns(i64),
    /// This row read the token of the row before it.
    TokenBefore(u32),
}

/// A supposition that gives every recorded row of the step.
pub(super) struct Supposed {
    /// The first operation that it changes, as sketches would tell it.
    pub(super) seen: Seen,
    /// Rows of the step, all of which come out as recorded.
    pub(super) rows: usize,
    /// What was supposed, in words.
    pub(super) words: String,
}

/// The first supposition that gives every recorded row of the step; `None` if none does.
pub(super) fn suppose(job: &Job<'_>, standing: &Standing<'_>, found: &Found) -> Option<Supposed> {
    let all = suppositions(standing);
    let run = |supposition: &Supposition| {
        let rows = rows(job, standing, *supposition)?;
        let seen = seen(standing.rows.get(found.row as usize)?, rows.get(found.row as usize)?)?;
        Some(Supposed { seen, rows: rows.len(), words: in_words(*supposition) })
    };
    all.par_iter().find_map_first(run)
}

/// The simple ones first: of every layer before those of one.
fn suppositions(standing: &Standing<'_>) -> Vec<Supposition> {
    let mut operations: Vec<(Option<usize>, &'static str)> = standing
        .rows
        .first()
        .iter()
        .flat_map(|run| &run.passage)
        .map(|passage| (passage.layer, passage.operation))
        .collect();
    operations.retain(|(_, operation)| ["history", "short_convolution", "attention"].contains(operation));
    let every = ["short_convolution", "history", "attention"].map(|operation| (None, operation));
    let is_there = |operation: &str| operations.iter().any(|(_, other)| *other == operation);
    let scopes = every.into_iter().filter(|(_, operation)| is_there(operation)).chain(operations.clone());
    let reach: Vec<i64> = standing.convolutions.values().next().map_or(Vec::new(), |convolution| {
        convolution.reach().filter(|columns| columns.unsigned_abs() <= MOST_DRAFTS as u64).collect()
    });
    let mut suppositions = Vec::new();
    for (layer, operation) in scopes {
        let mut suppose = |change| suppositions.push(Supposition { operation, layer, change });
        suppose(Change::Zeros);
        if operation == "history" {
            reach.iter().for_each(|columns| suppose(Change::Columns(*columns)));
        }
    }
    let rows = 1..standing.rows.len() as u32;
    suppositions.extend(rows.map(|row| Supposition {
        operation: "embedding",
        layer: None,
        change: Change::TokenBefore(row),
    }));
    suppositions
}

/// The rows of the step as they come out under a supposition; `None` if one is not as it is recorded.
fn rows(job: &Job<'_>, standing: &Standing<'_>, supposition: Supposition) -> Option<Vec<Run>> {
    let Supposition { operation, layer, change } = supposition;
    let mut walk = standing.walk.clone();
    let mut rows = Vec::new();
    let mut embedding_before = Vec::new();
    for (record, row) in standing.step.rows.iter().zip(0u32..) {
        let mut apply = |of: Option<usize>, name: &'static str, output: &mut [f32]| {
            let is_it = name == operation && (layer.is_none() || layer == of);
            match change {
                Change::Zeros if is_it => output.fill(0.0),
                Change::Columns(columns) if is_it => {
                    let convolution = of.and_then(|layer| standing.convolutions.get(&layer));
                    let foreign = convolution.and_then(|convolution| convolution.foreign(row as usize, columns));
                    foreign.iter().for_each(|foreign| output[..foreign.len()].copy_from_slice(foreign));
                }
                Change::TokenBefore(wrong) if is_it && row + 1 == wrong => embedding_before = output.to_vec(),
                Change::TokenBefore(wrong) if is_it && row == wrong => output.copy_from_slice(&embedding_before),
                _ => {}
            }
        };
        let run = walk.run(row, Some(&mut apply)).ok()?;
        if !matches!(compare(job, walk.row_id(row), record, &run, &mut |_| {}), Ok(None)) {
            return None;
        }
        rows.push(run);
    }
    Some(rows)
}

/// The first operation in which two runs of a row differ.
fn seen(expected: &Run, found: &Run) -> Option<Seen> {
    let mut differing = expected
        .passage
        .iter()
        .zip(&found.passage)
        .filter(|(expected, found)| !is_same(&expected.sketch, &values(&found.sketch)));
    let (expected, found) = differing.next()?;
    Some(Seen {
        layer: expected.layer.map(|layer| layer as u32),
        operation: expected.operation.to_owned(),
        expected: Figures::Sketch(values(&expected.sketch)),
        found: Figures::Sketch(values(&found.sketch)),
        later: differing.count() as u64,
        is_first: true,
        statistic: None,
    })
}

fn in_words(supposition: Supposition) -> String {
    let Supposition { operation, layer, change } = supposition;
    let of = match layer {
        Some(layer) => format!("the {operation} of layer {layer}"),
        None => format!("the {operation} of every layer"),
    };
    match change {
        Change::Zeros => format!("{of} zeroed"),
        Change::Columns(columns) if columns > 0 => format!("{of} read {columns} columns earlier"),
        Change::Columns(columns) => format!("{of} read {} columns later", -columns),
        Change::TokenBefore(row) => format!("row {row} reading the token of the row before it"),
    }
}
