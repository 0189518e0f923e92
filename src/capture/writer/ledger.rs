//! What the recording side keeps account of: step times, masks already written, and payloads dropped.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::error::CaptureError;
use super::super::records::{LossRecord, RequestRecord};
use super::super::topic::{Record, Topic};
use super::queue::Item;

#[derive(Debug)]
pub(super) struct Ledger {
    epoch_ns: u64,
    /// Time of the latest record, for those that have none.
    latest: u64,
    /// Latest step of each running sequence (request, choice), and its time in the file.
    steps: HashMap<(u64, u32), (u64, u64)>,
    masks: HashSet<[u8; 32]>,
    drops: BTreeMap<Topic, Drops>,
    dropped: u64,
}

/// Payloads of one channel dropped since its last loss record.
#[derive(Clone, Copy, Debug)]
struct Drops {
    messages: u64,
    bytes: u64,
    first_step: u64,
    last_step: u64,
    log_time: u64,
}

impl Ledger {
    pub(super) fn new(epoch_ns: u64) -> Self {
        Self {
            epoch_ns,
            latest: epoch_ns,
            steps: HashMap::new(),
            masks: HashSet::new(),
            drops: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Whether the record is a mask that was written before.
    pub(super) fn is_known_mask(&mut self, record: &Record) -> bool {
        matches!(record, Record::Mask(mask) if !self.masks.insert(mask.hash))
    }

    /// The time in the file: a payload has its step's, so that a reader finds it by time.
    pub(super) fn log_time(&mut self, record: &Record) -> Result<u64, CaptureError> {
        match record {
            Record::Logits(payload) => {
                return self.payload_time(Topic::Logits, payload.step, payload.request, payload.choice);
            }
            Record::Sketch(payload) => {
                return self.payload_time(Topic::Sketch, payload.step, payload.request, payload.choice);
            }
            _ => {}
        }
        let log_time = record.time_ns().map_or(self.latest, |time| self.epoch_ns.saturating_add(time));
        self.latest = self.latest.max(log_time);
        match record {
            Record::Step(step) => {
                self.steps.insert((step.request, step.choice), (step.step, log_time));
            }
            Record::Request(request) => {
                if let RequestRecord::Finished(end) = request.as_ref() {
                    self.steps.remove(&(end.request, end.choice));
                }
            }
            _ => {}
        }
        Ok(log_time)
    }

    /// The time of the step that a payload belongs to.
    pub(super) fn payload_time(&self, topic: Topic, step: u64, request: u64, choice: u32) -> Result<u64, CaptureError> {
        match self.steps.get(&(request, choice)) {
            Some((latest, log_time)) if *latest == step => Ok(*log_time),
            _ => Err(CaptureError::PayloadBeforeStep { topic, step, request, choice }),
        }
    }

    pub(super) fn add_drop(&mut self, item: &Item) {
        let (step, log_time) = match item {
            Item::Row { key, log_time, .. } => (key.step, *log_time),
            Item::Record { record: Record::Logits(payload), log_time } => (payload.step, *log_time),
            Item::Record { record: Record::Sketch(payload), log_time } => (payload.step, *log_time),
            // Only payloads are ever dropped.
            Item::Record { .. } => return,
        };
        self.dropped += 1;
        let drops = self.drops.entry(item.topic()).or_insert(Drops {
            messages: 0,
            bytes: 0,
            first_step: step,
            last_step: step,
            log_time,
        });
        drops.messages += 1;
        drops.bytes += item.content_bytes() as u64;
        drops.first_step = drops.first_step.min(step);
        drops.last_step = drops.last_step.max(step);
        drops.log_time = log_time;
    }

    /// The account of one channel since its last loss record, if anything was dropped.
    pub(super) fn take_loss(&mut self, topic: Topic) -> Option<Item> {
        let drops = self.drops.remove(&topic)?;
        let record = LossRecord {
            time_ns: drops.log_time.saturating_sub(self.epoch_ns),
            channel: topic.name().to_owned(),
            messages: Some(drops.messages),
            bytes: Some(drops.bytes),
            steps: Some((drops.first_step, drops.last_step)),
            reason: "the recorder's queue was full".to_owned(),
        };
        Some(Item::Record { record: Record::Loss(record), log_time: drops.log_time })
    }

    /// Every open account.
    pub(super) fn take_losses(&mut self) -> Vec<Item> {
        let topics: Vec<Topic> = self.drops.keys().copied().collect();
        topics.into_iter().filter_map(|topic| self.take_loss(topic)).collect()
    }

    /// Messages dropped in all.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
