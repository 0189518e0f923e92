//! What a row passed through, operation by operation: the first that differs is where it went wrong. Part of the check
//! `forward`.

use std::fmt;

use super::forward::same_floats;
use crate::arith::Sketch;
use crate::capture::records::SketchRecord;
use crate::replay::context::Row;
use crate::replay::verdict::{Skip, Verdict};

/// The sketch of what one operation gave, computed here.
pub(super) struct Passage {
    pub(super) layer: Option<usize>,
    pub(super) operation: &'static str,
    pub(super) sketch: Sketch,
}

/// What is recorded of a row's passage.
pub(super) type Sketched = Result<Vec<SketchRecord>, String>;

/// The sketches of the row; `None` if it was recorded without any, or by a recorder whose sketches may be others.
pub(super) fn of(row: &Row<'_>) -> Option<Sketched> {
    let context = row.sequence.context;
    let is_sketched = context.setting("sketches").is_some_and(|setting| setting.as_str() == Some("on"));
    (context.is_own() && is_sketched).then(|| context.recording.sketches(row.id()))
}

/// Compares what was recorded with what comes out here; of operations that differ, the first is told.
pub(super) fn compare(verdict: &mut Verdict, row: &Row<'_>, passage: &[Passage], sketched: Sketched) {
    let sketched = match sketched {
        Ok(sketched) => sketched,
        Err(error) => return verdict.skip(Skip::missing(format!("the row's sketches cannot be read: {error}"))),
    };
    if sketched.len() < passage.len()
        && let Some(skip) = excuse(row)
    {
        return verdict.skip(skip);
    }
    verdict.equal("sketches", passage.len(), sketched.len());
    let is_of = |passage: &Passage, recorded: &SketchRecord| {
        recorded.operation == passage.operation && recorded.layer == passage.layer.map(|layer| layer as u32)
    };
    let mut differing = passage
        .iter()
        .zip(&sketched)
        .filter(|(passage, recorded)| !is_of(passage, recorded) || !same(&passage.sketch, &recorded.values));
    let Some((expected, found)) = differing.next() else { return verdict.agrees() };
    let more = differing.count();
    if is_of(expected, found) {
        let found = format!("{}; {more} operations after it differ, too", Shown(&found.values));
        verdict.mismatch(
            named(expected.layer, expected.operation),
            Shown(&values(&expected.sketch)).to_string(),
            found,
        );
    } else {
        let found = named(found.layer.map(|layer| layer as usize), &found.operation);
        verdict.mismatch("sketch", named(expected.layer, expected.operation), found);
    }
}

/// Why sketches may be missing.
fn excuse(row: &Row<'_>) -> Option<Skip> {
    let context = row.sequence.context;
    if let Some(loss) = context.loss("sketch", row.step.step) {
        return Some(Skip::missing(format!("the recorder dropped the row's sketches: {}", loss.reason)));
    }
    context.gaps.records.then(|| Skip::missing("the row's sketches are not in the capture, which lacks records"))
}

fn named(layer: Option<usize>, operation: &str) -> String {
    match layer {
        Some(layer) => format!("layer {layer}, {operation}"),
        None => operation.to_owned(),
    }
}

fn values(sketch: &Sketch) -> Vec<f32> {
    [&[sketch.magnitude], &sketch.projections[..]].concat()
}

fn same(sketch: &Sketch, recorded: &[f32]) -> bool {
    same_floats(&values(sketch), recorded)
}

/// The values of a sketch, as far as a recording may be believed to have some.
struct Shown<'a>(&'a [f32]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [magnitude, ..] if *magnitude == 0.0 => formatter.write_str("zeros alone"),
            [magnitude, projections @ ..] if projections.len() == Sketch::PROJECTIONS => {
                write!(formatter, "values up to {magnitude}, projected to {projections:?}")
            }
            values => write!(formatter, "{} values", values.len()),
        }
    }
}
