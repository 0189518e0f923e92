//! Checks of the `logits` channel, and how many payloads each step has.

use std::collections::HashMap;

use super::super::error::CaptureError;
use super::super::limits::MAX_ROW_LENGTH;
use super::super::reader::Message;
use super::super::records::{LogitsPayload, LogitsRecord};
use super::super::row::decode_full;
use super::super::topic::Topic;
use super::Check;
use crate::arith::{BLOCK, scalar};

/// Payloads seen of each step (step, request, choice), and the checksums of whole rows among them.
#[derive(Debug, Default)]
pub(super) struct PayloadCounts {
    counts: HashMap<(u64, u64, u32), u32>,
    /// Checksums of whole rows: (step, request, choice, row).
    pub(super) checksums: HashMap<(u64, u64, u32, u32), u64>,
}

impl PayloadCounts {
    pub(super) fn of(&self, step: u64, request: u64, choice: u32) -> u32 {
        self.counts.get(&(step, request, choice)).copied().unwrap_or(0)
    }
}

impl Check<'_> {
    pub(super) fn logits(&mut self, record: &LogitsRecord, message: &Message) -> Result<(), CaptureError> {
        let key = (record.step, record.request, record.choice);
        *self.payloads.counts.entry(key).or_default() += 1;
        if let Err(what) = self.payload(record) {
            self.finding(format!("`logits` message {}: {what}", message.place));
        }
        self.payload_time(Topic::Logits, key, message)
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

    fn payload(&mut self, record: &LogitsRecord) -> Result<(), String> {
        match &record.payload {
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
                let key = (record.step, record.request, record.choice, record.row);
                self.payloads.checksums.insert(key, scalar::checksum(&row));
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
        Ok(())
    }
}
