//! The last seconds in memory, to be written when there is a reason to.
//!
//! What is kept is whole requests: those that run, and those that ended within the time. So a capture that is made of it replays
//! like any other.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::error::CaptureError;
use super::super::records::{Header, LossRecord, MaskRecord, RequestRecord};
use super::super::topic::Record;
use super::queue::Item;
use super::{CaptureWriter, RowKey, Sink, WriteSummary, WriterOptions};

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Requests that ended longer ago are forgotten.
    pub time: Duration,
    /// Most bytes, by the size of the records in memory, masks not counted. Beyond them the requests that ended first are
    /// forgotten, and when none has ended the largest one that runs.
    pub bytes: usize,
}

/// Keeps records in memory.
#[derive(Debug)]
pub struct Ring {
    header: Header,
    options: RingOptions,
    /// Number of the next item.
    next: u64,
    /// Time of the latest record.
    latest_ns: u64,
    bytes: usize,
    requests: BTreeMap<u64, Held>,
    /// Ended requests, and when they ended, in that order.
    ended: VecDeque<(u64, u64)>,
    masks: HashMap<[u8; 32], HeldMask>,
    /// Requests that run and were too large to be kept.
    too_large: HashSet<u64>,
}

/// What is kept of a request.
#[derive(Debug)]
struct Held {
    items: Vec<(u64, Arc<Item>)>,
    bytes: usize,
    began_ns: u64,
    unfinished: u32,
}

#[derive(Debug)]
struct HeldMask {
    record: Arc<MaskRecord>,
    used_ns: u64,
}

/// What a ring held at one time.
#[derive(Debug)]
pub struct Snapshot {
    header: Header,
    masks: Vec<Arc<MaskRecord>>,
    items: Vec<Arc<Item>>,
    losses: Vec<LossRecord>,
    /// Requests in it.
    pub requests: usize,
}

impl Ring {
    /// An empty ring; `header` is that of every capture which is made of it.
    pub fn new(header: Header, options: RingOptions) -> Self {
        Self {
            header,
            options,
            next: 0,
            latest_ns: 0,
            bytes: 0,
            requests: BTreeMap::new(),
            ended: VecDeque::new(),
            masks: HashMap::new(),
            too_large: HashSet::new(),
        }
    }

    /// What it holds now. A request that still runs is there as far as it has come, and a loss record says so.
    pub fn snapshot(&self) -> Snapshot {
        let mut items: Vec<&(u64, Arc<Item>)> = self.requests.values().flat_map(|held| &held.items).collect();
        items.sort_unstable_by_key(|(number, _)| *number);
        let running: u64 = self.requests.values().map(|held| u64::from(held.unfinished)).sum();
        let loss = |messages, reason: &str| LossRecord {
            time_ns: self.latest_ns,
            channel: "request".to_owned(),
            messages: Some(messages),
            bytes: None,
            steps: None,
            reason: reason.to_owned(),
        };
        let mut losses = Vec::new();
        if running > 0 {
            losses.push(loss(running, "the capture was taken while these choices ran"));
        }
        if !self.too_large.is_empty() {
            losses.push(loss(self.too_large.len() as u64, "requests that are too large for the memory of the ring"));
        }
        Snapshot {
            header: self.header.clone(),
            masks: self.masks.values().map(|mask| Arc::clone(&mask.record)).collect(),
            items: items.into_iter().map(|(_, item)| Arc::clone(item)).collect(),
            losses,
            requests: self.requests.len(),
        }
    }

    fn add(&mut self, request: u64, item: Item, began: Option<u32>) {
        if self.too_large.contains(&request) {
            return;
        }
        let weight = item.weight();
        let began_ns = self.latest_ns;
        let new = || Held { items: Vec::new(), bytes: 0, began_ns, unfinished: 0 };
        let held = self.requests.entry(request).or_insert_with(new);
        held.unfinished += began.unwrap_or(0);
        held.items.push((self.next, Arc::new(item)));
        held.bytes += weight;
        self.bytes += weight;
        self.next += 1;
        self.forget();
    }

    /// One choice of the request has ended, or none has begun.
    fn end(&mut self, request: u64) {
        self.too_large.remove(&request);
        if let Some(held) = self.requests.get_mut(&request) {
            held.unfinished = held.unfinished.saturating_sub(1);
            if held.unfinished == 0 {
                self.ended.push_back((self.latest_ns, request));
            }
        }
    }

    fn forget(&mut self) {
        let oldest = self.latest_ns.saturating_sub(self.options.time.as_nanos() as u64);
        let mut has_forgotten = false;
        while let Some(&(ended_ns, request)) = self.ended.front() {
            if ended_ns >= oldest && self.bytes <= self.options.bytes {
                break;
            }
            self.ended.pop_front();
            self.remove(request);
            has_forgotten = true;
        }
        if self.bytes > self.options.bytes
            && let Some((&largest, _)) = self.requests.iter().max_by_key(|(_, held)| held.bytes)
        {
            self.remove(largest);
            self.too_large.insert(largest);
        }
        if has_forgotten {
            let first = self.requests.values().map(|held| held.began_ns).min().unwrap_or(self.latest_ns);
            self.masks.retain(|_, mask| mask.used_ns >= first);
        }
    }

    fn remove(&mut self, request: u64) {
        if let Some(held) = self.requests.remove(&request) {
            self.bytes -= held.bytes;
        }
    }
}

impl Sink for Ring {
    fn write(&mut self, record: Record) -> Result<(), CaptureError> {
        self.latest_ns = self.latest_ns.max(record.time_ns().unwrap_or(0));
        let used_ns = self.latest_ns;
        let (request, began, has_ended) = match &record {
            Record::Mask(mask) => {
                let held = self.masks.entry(mask.hash);
                held.and_modify(|held| held.used_ns = used_ns)
                    .or_insert_with(|| HeldMask { record: Arc::new(mask.clone()), used_ns });
                return Ok(());
            }
            Record::Request(record) => match record.as_ref() {
                RequestRecord::Admitted(admission) => (admission.request, Some(admission.choices), false),
                RequestRecord::Refused(refusal) => (refusal.request, None, true),
                RequestRecord::Finished(completion) => (completion.request, None, true),
            },
            Record::Step(step) => (step.request, None, false),
            Record::Logits(payload) => (payload.request, None, false),
            Record::Sketch(sketch) => (sketch.request, None, false),
            Record::Event(event) => match event.request {
                Some(request) => (request, None, false),
                None => return Ok(()),
            },
            Record::Header(_) | Record::Loss(_) | Record::Columns(_) => return Ok(()),
        };
        self.add(request, Item::Record { record, log_time: 0 }, began);
        if has_ended {
            self.end(request);
        }
        Ok(())
    }

    fn write_row(&mut self, key: RowKey, values: Vec<f32>) -> Result<(), CaptureError> {
        self.add(key.request, Item::Row { key, values, log_time: 0 }, None);
        Ok(())
    }
}

impl Snapshot {
    /// Writes a capture of it to a path where there is none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<WriteSummary, CaptureError> {
        let writer = CaptureWriter::create(path, self.header.clone(), WriterOptions::default())?;
        for mask in &self.masks {
            writer.write(Record::Mask(mask.as_ref().clone()))?;
        }
        for item in &self.items {
            match item.as_ref() {
                Item::Record { record, .. } => writer.write(record.clone())?,
                Item::Row { key, values, .. } => writer.write_row(*key, values.clone())?,
            }
        }
        for loss in &self.losses {
            writer.write(loss.clone())?;
        }
        writer.finish()
    }
}
