//! What was localized, for people and for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Basis, Difference, Figures, How, Localized, Origin};
use crate::capture::records::{SchedulerMode, StepPath, StepRecord};
use crate::replay::passage::Shown;

/// One object: `request`, `step`, `row`, `layer`, `op`, `how`, `expected`, `found`, `later`, all null if nothing differs, and
/// what tells more of it.
pub fn json(localized: &Localized) -> Value {
    let difference = localized.difference.as_ref();
    let of = |value: &dyn Fn(&Difference) -> Value| difference.map_or(Value::Null, value);
    let of_how =
        |value: &dyn Fn(&How) -> Option<Value>| of(&|difference| value(&difference.how).unwrap_or(Value::Null));
    json!({
        "request": of(&|difference| difference.request.into()),
        "client_id": of(&|difference| json!(difference.client_id)),
        "choice": of(&|difference| difference.choice.into()),
        "step": of(&|difference| difference.step.step.into()),
        "row": of(&|difference| difference.row.into()),
        "position": of(&|difference| difference.position.into()),
        "layer": of(&|difference| json!(difference.layer)),
        "op": of(&|difference| json!(difference.operation)),
        "how": of(&|difference| difference.how.name().into()),
        "columns": of_how(&|how| match how {
            How::Stale { columns } => Some((*columns).into()),
            _ => None,
        }),
        "from": of_how(&|how| match how {
            How::ForeignRow(origin) | How::NeighboursValue { of: origin, .. } => Some(origin_json(*origin)),
            _ => None,
        }),
        "statistic": of_how(&|how| match how {
            How::NeighboursValue { statistic, .. } => Some((*statistic).into()),
            _ => None,
        }),
        "relative": of_how(&|how| match how {
            How::Drift { relative } => Some(json!(relative)),
            How::Differs { relative } => Some(json!(relative)),
            _ => None,
        }),
        "expected": of(&|difference| figures_json(&difference.expected)),
        "found": of(&|difference| figures_json(&difference.found)),
        "later": of(&|difference| difference.later.into()),
        "sketches": of(&|difference| match difference.basis {
            Basis::Recorded => "recorded".into(),
            Basis::Supposed { .. } => "re-executed".into(),
        }),
        "supposed": of(&|difference| match &difference.basis {
            Basis::Recorded => Value::Null,
            Basis::Supposed { words, .. } => words.as_str().into(),
        }),
        "conditions": of(&|difference| json!({
            "path": difference.step.path,
            "scheduler": difference.step.scheduler,
            "q_len": difference.step.q_len,
            "prev_accepted": difference.step.prev_accepted,
            "state_column": difference.step.state.map(|state| state.column),
        })),
        "rows": localized.rows,
        "missing": localized.missing,
    })
}

fn origin_json(origin: Origin) -> Value {
    match origin {
        Origin::Row { request, choice, row } => json!({"request": request, "choice": choice, "row": row}),
        Origin::Token(token) => json!({"token": token}),
    }
}

fn figures_json(figures: &Figures) -> Value {
    match figures {
        Figures::Sketch(values) => {
            let (magnitude, projections) =
                values.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
            let projections: Vec<Value> = projections.iter().map(|value| number(*value)).collect();
            json!({"magnitude": magnitude.map(|value| number(*value)), "projections": projections})
        }
        Figures::Row(row) => json!({
            "argmax": row.argmax,
            "maximum": number(row.maximum),
            "log_sum_exp": number(row.log_sum_exp),
            "nan_count": row.nan_count,
            "positive_infinity_count": row.positive_infinity_count,
            "negative_infinity_count": row.negative_infinity_count,
            "checksum": format!("{:016x}", row.checksum),
        }),
    }
}

/// A number as captures have it in JSON: what is not finite is a string.
fn number(value: f32) -> Value {
    match value {
        value if value.is_finite() => value.into(),
        value if value.is_nan() => "NaN".into(),
        value if value > 0.0 => "Infinity".into(),
        _ => "-Infinity".into(),
    }
}

/// A screenful.
pub fn text(capture: &str, localized: &Localized) -> String {
    let mut text = String::new();
    for missing in localized.missing.iter().take(SHOWN) {
        let _ = writeln!(text, "missing: {missing}");
    }
    if localized.missing.len() > SHOWN {
        let _ = writeln!(text, "missing: {} more, which --json lists", localized.missing.len() - SHOWN);
    }
    let rows = localized.rows.unwrap_or_default();
    match &localized.difference {
        Some(difference) => of_difference(&mut text, capture, difference),
        None if localized.missing.is_empty() => {
            let _ = writeln!(text, "{capture}: no difference: each of {rows} rows is what the model gives");
        }
        None => {
            let _ = writeln!(text, "{capture}: no difference in {rows} rows, but data is missing: see above");
        }
    }
    text
}

/// Missing things that are shown.
const SHOWN: usize = 10;

fn of_difference(text: &mut String, capture: &str, difference: &Difference) {
    let Difference { request, choice, step, row, position, .. } = difference;
    let client_id = difference.client_id.as_deref().map_or(String::new(), |id| format!(" (`{id}`)"));
    let choice = if *choice > 0 { format!(", choice {choice}") } else { String::new() };
    let _ = writeln!(text, "{capture}: request {request}{client_id}{choice}, step {}, row {row}", step.step);
    let _ = writeln!(text, "  {}", headline(difference));
    let _ = writeln!(text, "  expected  {}", figures(&difference.expected));
    let _ = writeln!(text, "  found     {}", figures(&difference.found));
    let later = match difference.later {
        0 => "none after it".to_owned(),
        1 => "1 operation after it".to_owned(),
        later => format!("{later} operations after it"),
    };
    let _ = writeln!(text, "  differ    {later} in this row, too");
    if let Basis::Supposed { rows, words } = &difference.basis {
        let rows = if *rows == 1 { "its row comes".to_owned() } else { format!("each of its {rows} rows comes") };
        let _ =
            writeln!(text, "  known     from running the step again with {words}: {rows} out bit for bit as recorded");
    }
    let _ = writeln!(text, "  step      position {position}, {}", conditions(step));
}

/// The layer, the operation, and how it is wrong.
pub fn headline(difference: &Difference) -> String {
    let layer = difference.layer.map_or(String::new(), |layer| format!("layer {layer}, "));
    let how = in_words(&difference.how, difference.request, &difference.expected);
    format!("{layer}{}: {how}", difference.operation)
}

/// What is recorded of how the engine stood before a step; empty if nothing is.
pub fn conditions(step: &StepRecord) -> String {
    let path = step.path.map(|path| match path {
        StepPath::Prefill => "prefill".to_owned(),
        StepPath::Decode => "decode".to_owned(),
        StepPath::Verify => "verify".to_owned(),
    });
    let scheduler = step.scheduler.map(|mode| match mode {
        SchedulerMode::Sync => "sync".to_owned(),
        SchedulerMode::Async => "async".to_owned(),
    });
    let named = |name: &str, value: Option<u32>| value.map(|value| format!("{name} {value}"));
    let numbers = [
        named("q_len", step.q_len),
        named("prev_accepted", step.prev_accepted),
        named("state column", step.state.map(|state| state.column)),
    ];
    [path, scheduler].into_iter().chain(numbers).flatten().collect::<Vec<_>>().join(", ")
}

/// How it is wrong, in words.
fn in_words(how: &How, own: u64, expected: &Figures) -> String {
    let origin = |origin: &Origin| match *origin {
        Origin::Row { request, row, .. } if request == own => format!("row {row} of the same step"),
        Origin::Row { request, choice: 0, row } => format!("row {row} of request {request}, a neighbour in the batch"),
        Origin::Row { request, choice, row } => {
            format!("row {row} of request {request}, choice {choice}, a neighbour in the batch")
        }
        Origin::Token(token) => format!("token {token}"),
    };
    let percent = |relative: f64| format!("{:.4}% of its norm", relative * 100.0);
    match how {
        How::Zeroed => "zeroed".to_owned(),
        How::NonFinite => "non-finite".to_owned(),
        How::Stale { columns: 1 } => "stale: the state of 1 column earlier".to_owned(),
        How::Stale { columns: -1 } => "stale: the state of 1 column later".to_owned(),
        How::Stale { columns } if *columns > 0 => format!("stale: the state of {columns} columns earlier"),
        How::Stale { columns } => format!("stale: the state of {} columns later", -columns),
        How::ForeignRow(of) => format!("foreign row: what belongs to {}", origin(of)),
        How::NeighboursValue { statistic, of } => {
            format!("neighbour's value: the row is right, and its {statistic} is that of {}", origin(of))
        }
        How::Drift { relative } => format!("drift within tolerance: off by at most {}", percent(*relative)),
        How::Differs { relative: Some(relative) } if matches!(expected, Figures::Sketch(_)) => {
            format!("differs: off by up to {}", percent(*relative))
        }
        How::Differs { .. } => "differs".to_owned(),
    }
}

fn figures(figures: &Figures) -> String {
    match figures {
        Figures::Sketch(values) => Shown(values).to_string(),
        Figures::Row(row) => {
            let argmax = row.argmax.map_or("none".to_owned(), |argmax| argmax.to_string());
            let odd = [
                ("NaN", row.nan_count),
                ("+infinity", row.positive_infinity_count),
                ("-infinity", row.negative_infinity_count),
            ];
            let odd = odd.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!(", {count} {name}"));
            format!(
                "argmax {argmax}, maximum {}, log-sum-exp {}, checksum {:016x}{}",
                row.maximum,
                row.log_sum_exp,
                row.checksum,
                odd.collect::<String>()
            )
        }
    }
}
