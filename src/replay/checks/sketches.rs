//! The sketches of a row against what it passes through here. Part of the check `forward`.

use crate::capture::records::SketchRecord;
use crate::replay::context::Row;
use crate::replay::passage::{self, Passage, Shown, departure, named};
use crate::replay::verdict::{Skip, Verdict};

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
    let Some(departure) = departure(passage, &sketched) else { return verdict.agrees() };
    let (expected, found) = (departure.expected, departure.found);
    if expected.is_of(found) {
        let found = format!("{}; {} operations after it differ, too", Shown(&found.values), departure.later);
        verdict.mismatch(expected.name(), Shown(&passage::values(&expected.sketch)).to_string(), found);
    } else {
        let found = named(found.layer.map(|layer| layer as usize), &found.operation);
        verdict.mismatch("sketch", expected.name(), found);
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
