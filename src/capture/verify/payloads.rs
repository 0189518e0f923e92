//! Checks of the `logits` channel, and which rows have a payload.

use super::super::error::CaptureError;
use super::super::limits::MAX_ROW_LENGTH;
use super::super::reader::{Location, Message, PayloadKey};
use super::super::records::{LogitsPayload, LogitsRecord};
use super::super::row::decode_full;
use super::super::topic::Topic;
use super::Check;
use crate::arith::{BLOCK, scalar};

/// Payloads of logits rows, by row once they are sorted.
#[derive(Debug)]
pub(super) struct Payloads {
    seen: Vec<Payload>,
    messages: u64,
    limit: u64,
}

/// A `logits` message that is sound in itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    key: PayloadKey,
    pub(super) location: Location,
    /// Of a whole row.
    pub(super) checksum: Option<u64>,
    /// Whether a row of a step record claims it.
    is_claimed: bool,
}

impl Payloads {
    pub(super) fn new(limit: u64) -> Self {
        Self { seen: Vec::new(), messages: 0, limit }
    }

    /// By row, and for one row in file order.
    pub(super) fn sort(&mut self) {
        self.seen.sort_unstable_by_key(|payload| (payload.key, payload.location));
    }

    /// The payloads of one row, in file order.
    pub(super) fn claim(&mut self, key: PayloadKey) -> &[Payload] {
        let start = self.seen.partition_point(|payload| payload.key < key);
        let end = self.seen.partition_point(|payload| payload.key <= key);
        let found = self.seen.get_mut(start..end).unwrap_or_default();
        for payload in found.iter_mut() {
            payload.is_claimed = true;
        }
        found
    }
}

impl Check<'_> {
    pub(super) fn logits(&mut self, record: &LogitsRecord, message: &Message) -> Result<(), CaptureError> {
        let (step, request, choice, row) = (record.step, record.request, record.choice, record.row);
        self.payloads.messages += 1;
        if self.payloads.messages > self.payloads.limit {
            if self.payloads.messages == self.payloads.limit + 1 {
                let limit = self.payloads.limit;
                self.foremost_finding(format!("limit: more than {limit} `logits` messages; the rest is not checked"));
            }
            return Ok(());
        }
        self.payload_time(Topic::Logits, (step, request, choice), message)?;
        let checksum = match payload(&record.payload) {
            Ok(checksum) => checksum,
            Err(what) => {
                let finding = format!("`logits` message {}: {what}", message.place);
                self.finding_about(message.location, finding);
                return Ok(());
            }
        };
        let key = PayloadKey { step, request, choice, row };
        self.payloads.seen.push(Payload { key, location: message.location, checksum, is_claimed: false });
        Ok(())
    }

    /// A payload is found by its step's time, so it must have it.
    pub(super) fn payload_time(
        &mut self,
        topic: Topic,
        (step, request, choice): (u64, u64, u32),
        message: &Message,
    ) -> Result<(), CaptureError> {
        let place = message.place;
        match self.reader.step_log_time(step, request, choice)? {
            None => {
                let finding =
                    format!("`{topic}` message {place}: there is no step {step} of request {request}.{choice}");
                self.finding_unless_lost(Topic::Step, Some(step), finding);
            }
            Some(log_time) if log_time != message.log_time => self.finding(format!(
                "`{topic}` message {place}: its time is {}, that of its step record {log_time}: it will not be found",
                message.log_time
            )),
            Some(_) => {}
        }
        Ok(())
    }

    /// Payloads of rows that their steps, which are here, do not have.
    pub(super) fn stray_payloads(&mut self) {
        let unclaimed: Vec<Payload> =
            self.payloads.seen.iter().filter(|payload| !payload.is_claimed).copied().collect();
        for Payload { key: PayloadKey { step, request, choice, row }, location, .. } in unclaimed {
            if self.reader.has_step(step, request, choice) {
                let finding = format!(
                    "step {step} of request {request}.{choice}: a `logits` message for row {row}, which it has not"
                );
                self.finding_about(location, finding);
            }
        }
    }
}

/// The checksum of a whole row, or what is wrong with a payload in itself.
fn payload(payload: &LogitsPayload) -> Result<Option<u64>, String> {
    match payload {
        LogitsPayload::HiddenQuantized { values, scales } => {
            if values.len() != scales.len() * BLOCK {
                return Err(format!("{} values with {} scales of {BLOCK} each", values.len(), scales.len()));
            }
            if values.contains(&i8::MIN) {
                return Err("a quantized value of -128; the least is -127".to_owned());
            }
        }
        LogitsPayload::HiddenFloat { values } => {
            if values.len() > MAX_ROW_LENGTH {
                return Err(format!("a hidden row of {} values", values.len()));
            }
        }
        LogitsPayload::Full { length, bytes } => {
            let row = decode_full(*length, bytes).map_err(|error| error.to_string())?;
            return Ok(Some(scalar::checksum(&row)));
        }
        LogitsPayload::TopK { ids, values } => {
            if ids.len() != values.len() {
                return Err(format!("{} ids with {} values", ids.len(), values.len()));
            }
            let pairs = || ids.iter().zip(values);
            let in_order = pairs().zip(pairs().skip(1)).all(|((id, value), (next_id, next_value))| {
                value > next_value || (value == next_value && id < next_id)
            });
            if !in_order {
                return Err("ids and values are not in order (value descending, id ascending)".to_owned());
            }
        }
    }
    Ok(None)
}
