//! The logits row, as far as the capture lets it be had.

use super::context::{Context, Row};
use super::forward::PlainModel;
use super::verdict::Skip;
use crate::arith::{ActivationRow, BLOCK, QuantizedRow, RowStatistics, scalar};
use crate::capture::records::{LogitsPayload, LogitsTier};
use crate::capture::row;

/// What could be had of a row.
pub(super) enum Recovered {
    /// Every value.
    Whole(WholeRow),
    /// The best ones, in (value descending, id ascending) order.
    Best { ids: Vec<u32>, values: Vec<f32> },
    /// Nothing, for a reason that the capture or the machine gives.
    Absent(Skip),
    /// Nothing: a loss record says that it was dropped.
    Lost(Skip),
    /// Nothing, for no reason that is recorded, or nothing that makes sense.
    Wrong { expected: String, found: String },
}

/// A row with every value.
pub(super) struct WholeRow {
    pub(super) values: Vec<f32>,
    /// Computed here.
    pub(super) statistics: RowStatistics,
    /// What the head read, where the row was computed from it.
    pub(super) head_input: Option<ActivationRow>,
}

impl Recovered {
    /// The whole row, if it could be had.
    pub(super) fn whole(&self) -> Option<&WholeRow> {
        match self {
            Self::Whole(row) => Some(row),
            _ => None,
        }
    }
}

/// Recovers the row from its payload.
pub(super) fn recover(row: &Row<'_>) -> Recovered {
    let context = row.sequence.context;
    let tier = context.recording.header().logits_tier;
    let payload = match context.recording.payload(row.id()) {
        Ok(payload) => payload,
        Err(error) => return Recovered::Absent(Skip::missing(format!("the row's payload cannot be read: {error}"))),
    };
    match (tier, payload) {
        (LogitsTier::Off, None) if !is_invalid(row) => {
            Recovered::Absent(Skip::not_recorded("the capture's tier `off` keeps no rows"))
        }
        (_, None) => absent(row),
        (LogitsTier::Hidden, Some(LogitsPayload::HiddenQuantized { values, scales })) => {
            from_head_input(context, ActivationRow::Quantized(QuantizedRow { values, scales }))
        }
        (LogitsTier::Hidden, Some(LogitsPayload::HiddenFloat { values })) => {
            from_head_input(context, ActivationRow::Float(values))
        }
        // Every tier keeps an invalid row whole.
        (_, Some(LogitsPayload::Full { length, bytes })) if tier == LogitsTier::Full || is_invalid(row) => {
            stored(context, length, &bytes)
        }
        (LogitsTier::TopK, Some(LogitsPayload::TopK { ids, values })) => Recovered::Best { ids, values },
        (tier, Some(payload)) => wrong(format!("a payload of tier {tier:?}"), format!("one of {}", kind(&payload))),
    }
}

/// A row whose payload is not there: excused by a loss record, by damage, or not at all.
fn absent(row: &Row<'_>) -> Recovered {
    let context = row.sequence.context;
    if let Some(loss) = context.loss("logits", row.step.step) {
        return Recovered::Lost(Skip::missing(format!("the recorder dropped the row: {}", loss.reason)));
    }
    if context.gaps.records {
        return Recovered::Absent(Skip::missing("the row's payload is not in the capture, which lacks records"));
    }
    wrong("the row's payload, or a loss record that covers it".to_owned(), "neither".to_owned())
}

/// Whether the row must not become a token, by its recorded statistics.
fn is_invalid(row: &Row<'_>) -> bool {
    row.record.statistics.is_some_and(|statistics| statistics.is_invalid())
}

fn from_head_input(context: &Context<'_>, input: ActivationRow) -> Recovered {
    let Some(plain) = context.plain else {
        return Recovered::Absent(context.preflight.no_model());
    };
    if let Some(skip) = &context.preflight.other_arithmetic {
        return Recovered::Absent(skip.clone());
    }
    if let Err((expected, found)) = fits(plain, &input) {
        return wrong(expected, found);
    }
    let values = plain.logits(&input);
    let statistics = scalar::row_statistics(&values);
    Recovered::Whole(WholeRow { values, statistics, head_input: Some(input) })
}

/// Whether the head can read `input` at all.
fn fits(plain: &PlainModel<'_>, input: &ActivationRow) -> Result<(), (String, String)> {
    let head = &plain.model().weights.head;
    let columns = head.columns();
    match input {
        ActivationRow::Quantized(QuantizedRow { values, scales }) if head.format().is_quantized() => {
            let blocks = columns.div_ceil(BLOCK);
            let fits = values.len() == columns && scales.len() == blocks && !values.contains(&i8::MIN);
            let expected = format!("{columns} values from -127 to 127 and {blocks} scales, as the head reads");
            fits.then_some(()).ok_or_else(|| (expected, format!("{} values and {} scales", values.len(), scales.len())))
        }
        ActivationRow::Float(values) if !head.format().is_quantized() => (values.len() == columns)
            .then_some(())
            .ok_or_else(|| (format!("{columns} values, as the head reads"), format!("{} values", values.len()))),
        ActivationRow::Quantized(_) => {
            Err(("float values, as the head reads".to_owned(), "quantized values".to_owned()))
        }
        ActivationRow::Float(_) => Err(("quantized values, as the head reads".to_owned(), "float values".to_owned())),
    }
}

fn stored(context: &Context<'_>, length: u32, bytes: &[u8]) -> Recovered {
    let vocabulary_size = context
        .recording
        .header()
        .model
        .as_ref()
        .and_then(|model| model.vocabulary_size)
        .or_else(|| context.model().map(|model| model.config.vocabulary_size as u32));
    if vocabulary_size.is_some_and(|size| size != length) {
        let expected = format!("{} values, one per token of the vocabulary", vocabulary_size.unwrap_or_default());
        return wrong(expected, format!("{length} values"));
    }
    match row::decode_full(length, bytes) {
        Ok(values) => {
            let statistics = scalar::row_statistics(&values);
            Recovered::Whole(WholeRow { values, statistics, head_input: None })
        }
        Err(error) => wrong(format!("{length} compressed values"), error.to_string()),
    }
}

fn wrong(expected: String, found: String) -> Recovered {
    Recovered::Wrong { expected, found }
}

fn kind(payload: &LogitsPayload) -> &'static str {
    match payload {
        LogitsPayload::HiddenQuantized { .. } => "tier hidden (quantized)",
        LogitsPayload::HiddenFloat { .. } => "tier hidden (float)",
        LogitsPayload::Full { .. } => "tier full",
        LogitsPayload::TopK { .. } => "tier topk",
    }
}
