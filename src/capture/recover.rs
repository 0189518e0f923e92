//! Recovery: what is intact in a damaged or unfinished capture, as a fresh whole one that says what is gone.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::CaptureError;
use super::issue::IssueKind;
use super::reader::{CaptureReader, Message};
use super::records::LossRecord;
use super::topic::{Record, Topic};
use super::writer::{CopyWriter, WriteSummary, WriterOptions};

/// What recovery did.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The new capture.
    pub written: WriteSummary,
    /// The loss records it got, beside those it had.
    pub losses: Vec<LossRecord>,
    /// Records left out because an earlier one about the same thing holds.
    pub repeated: u64,
}

/// Writes every intact record of `reader` to `out`, which must not exist.
///
/// Records keep their times. Of several records about the same thing the first is kept, and what was foreign in
/// encoding is written in Stepscope's own.
pub fn recover(reader: &CaptureReader, out: &Path) -> Result<Recovery, CaptureError> {
    let header = reader.header().clone();
    let epoch_ns = header.epoch_ns;
    let mut writer = CopyWriter::create(out, header, &WriterOptions::default())?;
    let mut unreadable: BTreeMap<Topic, u64> = BTreeMap::new();
    let mut damaged_chunks = 0_u64;
    let mut repeated = 0;
    let mut latest = epoch_ns;
    for message in reader.messages() {
        let message = match message {
            Ok(message) => message,
            Err(CaptureError::Message { topic, .. }) => {
                *unreadable.entry(topic).or_default() += 1;
                continue;
            }
            Err(CaptureError::Damaged { .. }) => {
                damaged_chunks += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        latest = latest.max(message.log_time);
        match &message.record {
            // The writer has written it.
            Record::Header(_) => {}
            _ if !reader.is_first(&message) => repeated += 1,
            _ => copy(reader, &mut writer, message)?,
        }
    }
    let losses = losses(reader, &unreadable, damaged_chunks, latest.saturating_sub(epoch_ns))?;
    for loss in &losses {
        writer.write(Record::Loss(loss.clone()), latest)?;
    }
    Ok(Recovery { written: writer.finish()?, losses, repeated })
}

/// A payload gets its step's time, in case its recorder did not know that rule.
fn copy(reader: &CaptureReader, writer: &mut CopyWriter, message: Message) -> Result<(), CaptureError> {
    let step = match &message.record {
        Record::Logits(payload) => Some((payload.step, payload.request, payload.choice)),
        Record::Sketch(payload) => Some((payload.step, payload.request, payload.choice)),
        _ => None,
    };
    let log_time = match step {
        Some((step, request, choice)) => reader.step_log_time(step, request, choice)?.unwrap_or(message.log_time),
        None => message.log_time,
    };
    writer.write(message.record, log_time)
}

/// One record per channel with a known number of messages gone, and one for what cannot be counted.
fn losses(
    reader: &CaptureReader,
    unreadable: &BTreeMap<Topic, u64>,
    damaged_chunks: u64,
    time_ns: u64,
) -> Result<Vec<LossRecord>, CaptureError> {
    let mut losses = Vec::new();
    let totals = reader.totals()?;
    for topic in Topic::ALL {
        let missing = totals.get(&topic).map_or(0, |totals| totals.missing);
        let messages = missing + unreadable.get(&topic).copied().unwrap_or(0);
        // The header is repeated; a lost copy is no loss.
        if messages > 0 && topic != Topic::Header {
            losses.push(LossRecord {
                time_ns,
                channel: topic.name().to_owned(),
                messages: Some(messages),
                bytes: None,
                steps: None,
                reason: "recover: damaged in the file it was recovered from".to_owned(),
            });
        }
    }
    let damaged = reader.issues().iter().filter(|issue| issue.kind == IssueKind::Damaged).count() as u64;
    let uncounted = if !reader.is_finished() {
        Some("recover: the recording was not finished".to_owned())
    } else if damaged.max(damaged_chunks) > 0 {
        Some(format!("recover: {} damaged places in the file", damaged.max(damaged_chunks)))
    } else {
        None
    };
    losses.extend(uncounted.map(|reason| LossRecord {
        time_ns,
        channel: "*".to_owned(),
        messages: None,
        bytes: None,
        steps: None,
        reason,
    }));
    Ok(losses)
}
