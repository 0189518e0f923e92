//! The conditions of a position: what is recorded of the step that decided it, in the order in which it comes about.

use serde_json::{Value, json};

use super::sequence::Place;
use crate::capture::records::{Admission, ResolvedField, RowRecord, RowStatistics, StepPath};

/// A condition that is not the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Unlike {
    /// Its name.
    pub name: String,
    /// What it belongs to.
    pub kind: Kind,
    /// Its values.
    pub values: [Value; 2],
}

/// What a condition belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The request's parameters.
    Request,
    /// What was scheduled.
    Schedule,
    /// What the grammar allowed.
    Grammar,
    /// The raw logits row.
    Row,
    /// What came of the row.
    Outcome,
}

impl Kind {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Schedule => "schedule",
            Self::Grammar => "grammar",
            Self::Row => "row",
            Self::Outcome => "outcome",
        }
    }
}

/// How a condition is read; `None` is unknown, and null is known to be nothing.
type Read = fn(&Place<'_>) -> Option<Value>;

/// Surroundings are left out: who else ran, in which slot, how a prompt was cut into chunks and how much of it was cached.
const CONDITIONS: &[(&str, Kind, Read)] = &[
    ("path", Kind::Schedule, |at| known(at.step.path)),
    ("scheduler", Kind::Schedule, |at| known(at.step.scheduler)),
    ("q_len", Kind::Schedule, |at| known(at.step.q_len.filter(|_| decodes(at)))),
    ("prev_accepted", Kind::Schedule, |at| known(at.step.prev_accepted.filter(|_| decodes(at)))),
    ("place in the query", Kind::Schedule, |at| decodes(at).then(|| json!(at.row))),
    ("state_column", Kind::Schedule, |at| known(at.step.state.map(|state| state.column))),
    ("draft", Kind::Schedule, |at| Some(json!(at.step.drafts.get(at.row)))),
    ("withheld", Kind::Schedule, |at| {
        let withheld = at.step.withheld.as_ref()?.iter().find(|withheld| withheld.index as usize == at.row);
        Some(json!(withheld.map(|withheld| withheld.reason)))
    }),
    ("grammar_before", Kind::Grammar, |at| {
        at.step.grammar.as_ref().map(|grammar| json!(grammar.before.saturating_add(at.row as u64)))
    }),
    ("reasoning", Kind::Grammar, |at| at.step.grammar.as_ref().map(|grammar| json!(grammar.reasoning))),
    ("scheduler_mask", Kind::Grammar, |at| mask(at, |row| row.scheduler_mask)),
    ("applied_mask", Kind::Grammar, |at| mask(at, |row| row.applied_mask)),
    ("mask_population", Kind::Grammar, |at| known(at.row_record()?.mask_population)),
    ("checksum", Kind::Row, |at| statistic(at, |row| json!(format!("{:016x}", row.checksum)))),
    ("argmax", Kind::Row, |at| statistic(at, |row| json!(row.argmax))),
    ("maximum", Kind::Row, |at| statistic(at, |row| float(row.maximum))),
    ("log_sum_exp", Kind::Row, |at| statistic(at, |row| float(row.log_sum_exp))),
    ("nan_count", Kind::Row, |at| statistic(at, |row| json!(row.nan_count))),
    ("rank", Kind::Outcome, |at| known(at.row_record()?.rank)),
    ("margin", Kind::Outcome, |at| Some(float(at.row_record()?.margin?))),
    ("accepted", Kind::Outcome, |at| known(at.step.verdicts.as_ref()?.get(at.row).map(|verdict| verdict.accepted))),
    ("logprob", Kind::Outcome, |at| Some(float(at.row_record()?.logprob?))),
    ("token", Kind::Outcome, |at| known(at.token)),
];

/// The conditions of a position that are known in both captures and differ.
pub(super) fn unlike([a, b]: [&Place<'_>; 2]) -> Vec<Unlike> {
    let differs = |&(name, kind, read): &(&str, Kind, Read)| {
        let values = [read(a)?, read(b)?];
        (values[0] != values[1]).then(|| Unlike { name: name.to_owned(), kind, values })
    };
    CONDITIONS.iter().filter_map(differs).collect()
}

/// The parameters and constraints of a request that are known in both captures and differ.
pub(super) fn of_admissions<'a>([a, b]: [&'a Admission; 2]) -> Vec<Unlike> {
    let mut unlike = Vec::new();
    let mut compare = |name: String, values: [Value; 2]| {
        if values[0] != values[1] {
            unlike.push(Unlike { name, kind: Kind::Request, values });
        }
    };
    compare("choices".to_owned(), [json!(a.choices), json!(b.choices)]);
    if let (Some(of_a), Some(of_b)) = (&a.params, &b.params) {
        // A greedy request draws nothing, whatever its seed.
        let are_greedy = is_greedy(of_a) && is_greedy(of_b);
        let drawn = |fields: &'a [ResolvedField]| -> Vec<&'a ResolvedField> {
            fields.iter().filter(|field| !(are_greedy && field.name == "seed")).collect()
        };
        let [of_a, of_b] = [drawn(of_a), drawn(of_b)];
        for field in &of_a {
            let other = of_b.iter().find(|other| other.name == field.name).map(|other| as_json(&other.value));
            compare(format!("params.{}", field.name), [as_json(&field.value), other.unwrap_or(Value::Null)]);
        }
        for field in of_b.iter().filter(|field| !of_a.iter().any(|other| other.name == field.name)) {
            compare(format!("params.{}", field.name), [Value::Null, as_json(&field.value)]);
        }
    }
    if let (Some(of_a), Some(of_b)) = (&a.constraint, &b.constraint) {
        compare("constraint".to_owned(), [json!(of_a), json!(of_b)]);
    }
    if let (Some(of_a), Some(of_b)) = (&a.tool_format, &b.tool_format) {
        compare("tool_format".to_owned(), [json!(of_a), json!(of_b)]);
    }
    unlike
}

fn is_greedy(fields: &[ResolvedField]) -> bool {
    let temperature = fields.iter().find(|field| field.name == "temperature");
    temperature.is_some_and(|field| field.value.parse() == Ok(0.0))
}

fn as_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn known(value: Option<impl serde::Serialize>) -> Option<Value> {
    value.map(|value| json!(value))
}

fn decodes(at: &Place<'_>) -> bool {
    at.step.path != Some(StepPath::Prefill)
}

/// A mask's hash. That there is none is known where the grammar is recorded.
fn mask(at: &Place<'_>, hash: fn(&RowRecord) -> Option<[u8; 32]>) -> Option<Value> {
    let row = at.row_record()?;
    let hex = |hash: [u8; 32]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match hash(row) {
        Some(hash) => Some(json!(hex(hash))),
        None => at.step.grammar.as_ref().map(|_| Value::Null),
    }
}

fn statistic(at: &Place<'_>, read: fn(&RowStatistics) -> Value) -> Option<Value> {
    at.row_record()?.statistics.as_ref().map(read)
}

/// A number whose NaN is one, and whose zero has no sign.
fn float(value: f32) -> Value {
    if value.is_finite() { json!(value + 0.0) } else { json!(value.to_string()) }
}
