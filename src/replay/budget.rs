//! How much memory the records of a capture may take. A small file can decompress into very much.

use std::mem::size_of_val;

use crate::capture::records::{EventRecord, LossRecord, StepRecord, StopReason};

/// Most bytes of the events that are held, and of the loss records.
pub(super) const NOTES: usize = 64 << 20;
/// Most bytes of one request's step records; as many requests are held as there are threads.
pub(super) const REQUEST: usize = 256 << 20;

/// A number of bytes that is used up.
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Takes `bytes`; false, and nothing is taken, if less is left.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// A record whose memory can be told.
pub(super) trait Memory {
    /// Bytes that it takes.
    fn bytes(&self) -> usize;
}

impl Memory for EventRecord {
    fn bytes(&self) -> usize {
        size_of_val(self) + self.kind.len() + self.message.len()
    }
}

impl Memory for LossRecord {
    fn bytes(&self) -> usize {
        size_of_val(self) + self.channel.len() + self.reason.len()
    }
}

impl Memory for StepRecord {
    fn bytes(&self) -> usize {
        fn of<T>(values: Option<&[T]>) -> usize {
            values.map_or(0, size_of_val)
        }
        let words = match &self.stop {
            Some(StopReason::StopString(text) | StopReason::Failed(text)) => text.len(),
            _ => 0,
        };
        size_of_val(self)
            + size_of_val(self.drafts.as_slice())
            + size_of_val(self.emitted.as_slice())
            + size_of_val(self.rows.as_slice())
            + of(self.input_tokens.as_deref())
            + of(self.drafts_raw.as_deref())
            + of(self.withheld.as_deref())
            + of(self.verdicts.as_deref())
            + of(self.batch.as_ref().map(|place| place.neighbours.as_slice()))
            + words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_taken() {
        let mut budget = Budget::new(10);
        assert!(budget.take(6) && !budget.take(5) && budget.take(4) && !budget.take(1));
    }

    #[test]
    fn words_count() {
        let loss = |reason: &str| LossRecord {
            time_ns: 0,
            channel: "step".to_owned(),
            messages: None,
            bytes: None,
            steps: None,
            reason: reason.to_owned(),
        };
        assert_eq!(loss("1234").bytes(), loss("").bytes() + 4);
    }
}
