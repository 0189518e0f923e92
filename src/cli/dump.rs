//! `stepscope dump`: one line per record.

mod line;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::bail;
use serde_json::json;

use super::{Outcome, output};
use crate::capture::{CaptureError, CaptureReader, Message, Record};
use crate::types::RequestId;

/// Print the records of a capture, one line each, in file order.
///
/// Lines begin with the channel and are made of `name=value` pairs; what the recorder did not know is left out.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status: 0 all printed; 2 could not run, or --request or --steps names nothing that is there; 3 something could not be \
read (stderr says what).

Examples:
  stepscope dump C.mcap --request 3 --steps 10-20
  stepscope dump C.mcap --request my-custom-id | grep ' stop='
  stepscope dump C.mcap --json | jq 'select(.channel == \"step\") | .record.emitted'")]
pub struct Options {
    /// The capture.
    capture: PathBuf,
    /// Only records about this request: the id its client gave it, or its number.
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only records about these steps: `7`, `10-20`, `10-`.
    #[arg(long, value_name = "RANGE")]
    steps: Option<StepRange>,
    /// Payloads (logits, sketches, columns) too.
    #[arg(long)]
    payloads: bool,
    /// Print JSON lines: {"channel", "log_time", "record"}, records as in docs/capture-format.md.
    #[arg(long)]
    json: bool,
}

/// An inclusive range of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepRange {
    first: u64,
    last: u64,
}

/// Runs the command.
///
/// # Errors
/// When the file cannot be read, or has no such request.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let reader = CaptureReader::open(&options.capture)?;
    let request = options.request.as_deref().map(|id| find_request(&reader, id)).transpose()?;
    for issue in reader.issues().iter() {
        eprintln!("warning: {issue}");
    }
    let printed = output::to_stdout(|out| {
        let mut printed = Printed { nothing_matched: options.steps.is_some(), ..Printed::default() };
        for message in reader.messages() {
            let message = match message {
                Ok(message) => message,
                Err(error @ CaptureError::Io { .. }) => return Err(error.into()),
                Err(error) => {
                    eprintln!("warning: {error}");
                    printed.unreadable += 1;
                    continue;
                }
            };
            let is_wanted = options.payloads || !message.record.topic().is_payload();
            if is_wanted && is_about(&message.record, request, options.steps) {
                printed.nothing_matched = false;
                print(&reader, &message, options.json, out)?;
            }
        }
        Ok(printed)
    })?;
    let is_incomplete = printed.unreadable > 0 || !reader.issues().is_empty();
    match options.steps {
        // What was asked for may be in what is missing.
        Some(range) if printed.nothing_matched && is_incomplete => {
            eprintln!("nothing: {}", nothing_about(&reader, request, range));
        }
        Some(range) if printed.nothing_matched => bail!(nothing_about(&reader, request, range)),
        _ => {}
    }
    Ok(if is_incomplete { Outcome::Missing } else { Outcome::Clean })
}

/// What came of printing; after a broken pipe, nothing to tell of.
#[derive(Debug, Default)]
struct Printed {
    unreadable: u64,
    /// Whether --steps was given and no record is about them.
    nothing_matched: bool,
}

/// That no record is about those steps, and which steps there are.
fn nothing_about(reader: &CaptureReader, request: Option<RequestId>, range: StepRange) -> String {
    let sequences = reader.sequences().filter(|sequence| request.is_none_or(|request| sequence.request == request));
    let bounds = sequences.filter_map(|sequence| reader.step_bounds(sequence));
    let bounds = bounds.reduce(|all, next| (all.0.min(next.0), all.1.max(next.1)));
    let whose = request.map_or("the capture".to_owned(), |request| format!("request {request}"));
    let there = match bounds {
        Some((first, last)) => format!("{whose} has steps {first} to {last}"),
        None => format!("{whose} has no steps"),
    };
    format!("{}: no record is about {range}; {there}", reader.path().display())
}

fn print(reader: &CaptureReader, message: &Message, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if !json {
        let since_start = message.log_time.saturating_sub(reader.header().epoch_ns);
        writeln!(out, "{}", line::line(&message.record, since_start))?;
        return Ok(());
    }
    let record = match &message.record {
        Record::Header(record) => serde_json::to_value(record),
        Record::Request(record) => serde_json::to_value(record),
        Record::Step(record) => serde_json::to_value(record),
        Record::Mask(record) => serde_json::to_value(record),
        Record::Logits(record) => serde_json::to_value(record),
        Record::Sketch(record) => serde_json::to_value(record),
        Record::Event(record) => serde_json::to_value(record),
        Record::Loss(record) => serde_json::to_value(record),
        Record::Columns(record) => serde_json::to_value(record),
    }?;
    let topic = message.record.topic().name();
    let value = json!({ "channel": topic, "log_time": message.log_time.to_string(), "record": record });
    serde_json::to_writer(&mut *out, &value)?;
    writeln!(out)?;
    Ok(())
}

/// The request of that client id, or else of that number.
pub(super) fn find_request(reader: &CaptureReader, id: &str) -> anyhow::Result<RequestId> {
    let number = id.parse().ok().map(RequestId);
    for request in reader.requests() {
        let records = reader.request(request)?;
        let client_id = records.admission.and_then(|admission| admission.client_id);
        if client_id.or(records.refusal.and_then(|refusal| refusal.client_id)).as_deref() == Some(id) {
            return Ok(request);
        }
    }
    match number.filter(|number| reader.requests().any(|request| request == *number)) {
        Some(request) => Ok(request),
        None => bail!(
            "{}: no request has the client id or number {id:?}; it has {} requests (see `stepscope dump` without --request)",
            reader.path().display(),
            reader.requests().count()
        ),
    }
}

fn is_about(record: &Record, request: Option<RequestId>, steps: Option<StepRange>) -> bool {
    let (its_request, its_steps) = match record {
        Record::Request(record) => (Some(record.request()), None),
        Record::Step(record) => (Some(record.request), Some((record.step, record.step))),
        Record::Logits(record) => (Some(record.request), Some((record.step, record.step))),
        Record::Sketch(record) => (Some(record.request), Some((record.step, record.step))),
        Record::Event(record) => (record.request, record.step.map(|step| (step, step))),
        Record::Loss(record) => (None, record.steps),
        Record::Header(_) | Record::Mask(_) | Record::Columns(_) => (None, None),
    };
    let request_fits = request.is_none_or(|request| its_request == Some(request.0));
    let steps_fit =
        steps.is_none_or(|range| its_steps.is_some_and(|(first, last)| first <= range.last && last >= range.first));
    request_fits && steps_fit
}

impl fmt::Display for StepRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(formatter, "step {first}"),
            Self { first, last: u64::MAX } => write!(formatter, "steps from {first} on"),
            Self { first, last } => write!(formatter, "steps {first} to {last}"),
        }
    }
}

impl FromStr for StepRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected a step or a range of steps (7, 10-20, 10-), found {text:?}");
        let number = |text: &str| text.parse::<u64>().map_err(|_| expected());
        let range = match text.split_once('-') {
            None => number(text).map(|step| Self { first: step, last: step })?,
            Some((first, "")) => Self { first: number(first)?, last: u64::MAX },
            Some((first, last)) => Self { first: number(first)?, last: number(last)? },
        };
        if range.first > range.last {
            return Err(format!("the range {text:?} ends before it begins"));
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_ranges() {
        assert_eq!("7".parse(), Ok(StepRange { first: 7, last: 7 }));
        assert_eq!("10-20".parse(), Ok(StepRange { first: 10, last: 20 }));
        assert_eq!("10-".parse(), Ok(StepRange { first: 10, last: u64::MAX }));
        for wrong in ["", "-", "-3", "20-10", "a", "1-b", "1-2-3"] {
            assert!(wrong.parse::<StepRange>().is_err(), "{wrong}");
        }
    }
}
