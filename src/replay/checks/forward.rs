//! The whole model gives the recorded row from the recorded tokens.

use super::logits;
use super::sketches;
use crate::arith::{ActivationRow, RowStatistics, scalar};
use crate::replay::context::Row;
use crate::replay::execution::{Execution, Stuck};
use crate::replay::forward::PlainModel;
use crate::replay::passage::{Passage, same_float, same_head_inputs};
use crate::replay::recover::Recovered;
use crate::replay::verdict::{Skip, Verdict};

/// Runs the token that `row` was computed after, and compares what comes out.
///
/// Rows come in order; a draft's row follows the row before it, and what was not committed has been taken back.
pub(in crate::replay) fn check(execution: &mut Execution<'_>, row: &Row<'_>, recovered: &Recovered) -> Verdict {
    let mut verdict = Verdict::new();
    let sketched = sketches::of(row);
    let mut passage = Vec::new();
    let mut listen = |layer: Option<usize>, operation: &'static str, output: &mut [f32]| {
        passage.push(Passage::new(layer, operation, output));
    };
    let hidden = match sketched {
        Some(_) => execution.run(row.step, row.index, row.output, Some(&mut listen)),
        None => execution.run(row.step, row.index, row.output, None),
    };
    let hidden = match hidden {
        Ok(hidden) => hidden,
        Err(Stuck::NoInput(skip)) => return Verdict::skipped(skip),
        Err(Stuck::Refused(error)) => {
            verdict.mismatch("input token", "one that the model can read".to_owned(), error.to_string());
            return verdict;
        }
    };
    verdict.equal("position", execution.position(), row.record.position);
    if let Some(sketched) = sketched {
        sketches::compare(&mut verdict, row, &passage, sketched);
    }
    let plain = execution.plain();
    compare(plain, &mut verdict, row, recovered, &plain.head_input(&hidden));
    verdict
}

fn compare(
    plain: &PlainModel<'_>,
    verdict: &mut Verdict,
    row: &Row<'_>,
    recovered: &Recovered,
    head_input: &ActivationRow,
) {
    let recorded_input = recovered.whole().and_then(|whole| whole.head_input.as_ref());
    let same_input = recorded_input.map(|recorded| same_head_inputs(recorded, head_input));
    if let (Some(false), Some(recorded)) = (same_input, recorded_input) {
        let (expected, found) = difference(head_input, recorded);
        verdict.mismatch("head input", expected, found);
    }
    let computed: RowStatistics = match recovered.whole() {
        // The same input gives the same row: it need not be computed twice.
        Some(whole) if same_input == Some(true) => whole.statistics,
        _ => scalar::row_statistics(&plain.logits(head_input)),
    };
    match &row.record.statistics {
        Some(recorded) => logits::compare(verdict, &computed, recorded),
        None => verdict.skip(Skip::not_recorded("the row's statistics are not recorded")),
    }
}

/// The first element in which two head inputs differ.
fn difference(expected: &ActivationRow, found: &ActivationRow) -> (String, String) {
    fn first<T: Copy + std::fmt::Display>(
        name: &str,
        a: &[T],
        b: &[T],
        same: impl Fn(T, T) -> bool,
    ) -> Option<(String, String)> {
        let pairs = || a.iter().copied().zip(b.iter().copied());
        let differing = pairs().filter(|&(a, b)| !same(a, b)).count();
        let (index, (a, b)) = pairs().enumerate().find(|&(_, (a, b))| !same(a, b))?;
        Some((format!("{name} {index} is {a}"), format!("{b}, and {} more differ", differing - 1)))
    }
    let differs = match (expected, found) {
        (ActivationRow::Quantized(a), ActivationRow::Quantized(b)) => {
            first("value", &a.values, &b.values, |a, b| a == b)
                .or_else(|| first("scale", &a.scales, &b.scales, same_float))
        }
        (ActivationRow::Float(a), ActivationRow::Float(b)) => first("value", a, b, same_float),
        _ => None,
    };
    differs.unwrap_or_else(|| (format!("{} elements", expected.len()), format!("{} elements", found.len())))
}
