//! One row, run again, against what is recorded of it.

use super::walk::{Run, as_floats};
use super::{Figures, Job};
use crate::arith::{ActivationRow, QuantizedRow, scalar};
use crate::capture::records::{LogitsPayload, RowRecord, RowStatistics, SketchRecord};
use crate::replay::passage::{Departure, departure, named, same_float, same_head_inputs, values};
use crate::replay::recording::RowId;

/// The first thing that differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) layer: Option<u32>,
    pub(super) operation: String,
    pub(super) expected: Figures,
    pub(super) found: Figures,
    pub(super) later: u64,
    /// Whether everything before it is known to agree, so that it is the first operation that differs.
    pub(super) is_first: bool,
    /// Which number differs, where the row itself agrees.
    pub(super) statistic: Option<&'static str>,
}

/// Names of what is compared after the layers.
pub(super) const HEAD_INPUT: &str = "head_input";
pub(super) const LOGITS: &str = "logits";
pub(super) const STATISTICS: &str = "statistics";

/// Compares a row that was run again with everything that is recorded of it, in the order in which it was computed. Where it
/// differs and its sketches could not say from which operation on, `tell` is told why.
///
/// # Errors
/// If nothing of it could be compared, or too little; in words.
pub(super) fn compare(
    job: &Job<'_>,
    id: RowId,
    record: &RowRecord,
    run: &Run,
    tell: &mut dyn FnMut(String),
) -> Result<Option<Seen>, String> {
    let sketches = if is_sketched(job) { sketches(job, id, run) } else { Ok(None) };
    let seen = compare_with(job, id, record, run, &sketches)?;
    if let (Some(Seen { is_first: false, .. }), Err(why)) = (&seen, sketches) {
        tell(why);
    }
    Ok(seen)
}

fn compare_with(
    job: &Job<'_>,
    id: RowId,
    record: &RowRecord,
    run: &Run,
    sketches: &Result<Option<Vec<SketchRecord>>, String>,
) -> Result<Option<Seen>, String> {
    let sketched = match sketches {
        Ok(Some(sketches)) => {
            if let Some(departure) = departure(&run.passage, sketches) {
                return of_departure(&departure).map(Some);
            }
            true
        }
        _ => false,
    };
    let head_input = match job.recording.payload(id)? {
        Some(LogitsPayload::HiddenQuantized { values, scales }) => {
            Some(ActivationRow::Quantized(QuantizedRow { values, scales }))
        }
        Some(LogitsPayload::HiddenFloat { values }) => Some(ActivationRow::Float(values)),
        _ => None,
    };
    let same_input = head_input.as_ref().map(|input| same_head_inputs(input, &run.head_input));
    let here = RowStatistics::from(run.statistics);
    let other_row = record.statistics.filter(|recorded| recorded.checksum != here.checksum);
    if let (Some(false), Some(input)) = (same_input, &head_input) {
        return Ok(Some(Seen {
            layer: None,
            operation: HEAD_INPUT.to_owned(),
            expected: sketch(&run.head_input),
            found: sketch(input),
            later: other_row.is_some().into(),
            is_first: sketched,
            statistic: None,
        }));
    }
    let logits = |operation: &str, recorded, statistic| Seen {
        layer: None,
        operation: operation.to_owned(),
        expected: Figures::Row(here),
        found: Figures::Row(recorded),
        later: 0,
        is_first: sketched || same_input.is_some(),
        statistic,
    };
    if let Some(recorded) = other_row {
        return Ok(Some(logits(LOGITS, recorded, None)));
    }
    match (record.statistics, sketches) {
        (Some(recorded), _) => {
            let other = other_statistic(&here, &recorded);
            // The row is right: nothing before it can be wrong.
            Ok(other.map(|other| Seen { is_first: true, ..logits(STATISTICS, recorded, Some(other)) }))
        }
        (None, _) if sketched || same_input.is_some() => Ok(None),
        (None, Err(why)) => Err(why.clone()),
        (None, Ok(_)) => Err("neither sketches nor payload nor statistics of the row are recorded".to_owned()),
    }
}

/// Whether the capture has sketches that are those of this repository.
fn is_sketched(job: &Job<'_>) -> bool {
    let header = job.recording.header();
    let setting = header.configuration.iter().find(|setting| setting.name == "sketches");
    header.sampler_semantics == "stepscope" && setting.is_some_and(|setting| setting.value == "\"on\"")
}

/// The sketches of the row, if all of them are there.
fn sketches(job: &Job<'_>, id: RowId, run: &Run) -> Result<Option<Vec<SketchRecord>>, String> {
    let sketches = job.recording.sketches(id).map_err(|why| format!("its sketches cannot be read: {why}"))?;
    if sketches.len() < run.passage.len() {
        return Err(format!("{} of {} sketches of it are recorded", sketches.len(), run.passage.len()));
    }
    Ok(Some(sketches))
}

fn of_departure(departure: &Departure<'_>) -> Result<Seen, String> {
    let Departure { expected, found, later } = *departure;
    if !expected.is_of(found) {
        let found = named(found.layer.map(|layer| layer as usize), &found.operation);
        return Err(format!("a sketch of `{found}` stands where the model has `{}`", expected.name()));
    }
    Ok(Seen {
        layer: found.layer,
        operation: found.operation.clone(),
        expected: Figures::Sketch(values(&expected.sketch)),
        found: Figures::Sketch(found.values.clone()),
        later: later as u64,
        is_first: true,
        statistic: None,
    })
}

fn sketch(input: &ActivationRow) -> Figures {
    Figures::Sketch(values(&scalar::sketch(&as_floats(input))))
}

/// The first statistic that differs, beside the checksum.
fn other_statistic(here: &RowStatistics, recorded: &RowStatistics) -> Option<&'static str> {
    STATISTIC_NAMES.into_iter().find(|name| !same_statistic(name, here, recorded))
}

/// The statistics of a row, beside its checksum.
const STATISTIC_NAMES: [&str; 6] =
    ["argmax", "maximum", "log_sum_exp", "nan_count", "positive_infinity_count", "negative_infinity_count"];

/// Whether two rows have the same statistic of that name.
pub(super) fn same_statistic(name: &str, a: &RowStatistics, b: &RowStatistics) -> bool {
    match name {
        "argmax" => a.argmax == b.argmax,
        "maximum" => same_float(a.maximum, b.maximum),
        "log_sum_exp" => same_float(a.log_sum_exp, b.log_sum_exp),
        "nan_count" => a.nan_count == b.nan_count,
        "positive_infinity_count" => a.positive_infinity_count == b.positive_infinity_count,
        _ => a.negative_infinity_count == b.negative_infinity_count,
    }
}
