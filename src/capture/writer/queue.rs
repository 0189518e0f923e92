//! The queue between the recording thread and the writer's: bounded by bytes, closed once, failed once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::error::CaptureError;
use super::super::records::{LogitsPayload, RequestRecord};
use super::super::topic::{Record, Topic};
use super::RowKey;

/// Something to write, with the time its message gets in the file.
#[derive(Debug)]
pub(super) enum Item {
    Record { record: Record, log_time: u64 },
    Row { key: RowKey, values: Vec<f32>, log_time: u64 },
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    Finish,
    Abandon,
}

/// What the writer's thread gets.
pub(super) enum Popped {
    Item(Item),
    /// The time is up.
    Nothing,
    /// Nothing is left and nothing will come.
    Closed(Close),
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    made_room: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    closed: Option<Close>,
    failure: Option<Arc<CaptureError>>,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), arrived: Condvar::new(), made_room: Condvar::new(), capacity }
    }

    /// Waits for room.
    pub(super) fn push(&self, item: Item) -> Result<(), CaptureError> {
        let weight = item.weight();
        let mut state = self.lock();
        while state.failure.is_none() && !self.has_room(&state, weight) {
            state = self.made_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.add(state, item, weight)
    }

    /// Gives the item back when there is no room.
    pub(super) fn try_push(&self, item: Item) -> Result<Option<Item>, CaptureError> {
        let weight = item.weight();
        let state = self.lock();
        if state.failure.is_none() && !self.has_room(&state, weight) {
            return Ok(Some(item));
        }
        self.add(state, item, weight).map(|()| None)
    }

    pub(super) fn pop(&self, timeout: Duration) -> Popped {
        let state = self.lock();
        let idle = |state: &mut State| state.items.is_empty() && state.closed.is_none();
        let waited = self.arrived.wait_timeout_while(state, timeout, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (state.items.pop_front(), state.closed) {
            (Some(item), _) => {
                state.bytes = state.bytes.saturating_sub(item.weight());
                self.made_room.notify_all();
                Popped::Item(item)
            }
            (None, Some(close)) => Popped::Closed(close),
            (None, None) => Popped::Nothing,
        }
    }

    pub(super) fn close(&self, close: Close) {
        self.lock().closed.get_or_insert(close);
        self.arrived.notify_all();
    }

    /// Refuses everything from now on, with this cause, and lets go of what waits.
    pub(super) fn fail(&self, error: CaptureError) -> Arc<CaptureError> {
        let mut state = self.lock();
        state.items.clear();
        state.bytes = 0;
        let failure = Arc::clone(state.failure.get_or_insert_with(|| Arc::new(error)));
        drop(state);
        self.made_room.notify_all();
        failure
    }

    /// Fails the queue if the thread that holds the guard panics, so that nobody waits for it forever.
    pub(super) fn failing_on_panic(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Queue);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.fail(CaptureError::WriterDied);
                }
            }
        }
        Guard(self)
    }

    fn has_room(&self, state: &State, weight: usize) -> bool {
        state.items.is_empty() || state.bytes.saturating_add(weight) <= self.capacity
    }

    fn add(&self, mut state: MutexGuard<'_, State>, item: Item, weight: usize) -> Result<(), CaptureError> {
        if let Some(failure) = &state.failure {
            return Err(CaptureError::Stopped(Arc::clone(failure)));
        }
        state.bytes = state.bytes.saturating_add(weight);
        state.items.push_back(item);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Item {
    pub(super) fn topic(&self) -> Topic {
        match self {
            Self::Record { record, .. } => record.topic(),
            Self::Row { .. } => Topic::Logits,
        }
    }

    pub(super) fn log_time(&self) -> u64 {
        match self {
            Self::Record { log_time, .. } | Self::Row { log_time, .. } => *log_time,
        }
    }

    /// Bytes of what it carries, before any encoding.
    pub(super) fn content_bytes(&self) -> usize {
        match self {
            Self::Row { values, .. } => size_of_val(&values[..]),
            Self::Record { record, .. } => content_bytes(record),
        }
    }

    /// Bytes it holds in memory, near enough to bound them.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.content_bytes()
    }
}

fn content_bytes(record: &Record) -> usize {
    match record {
        Record::Header(_) => size_of::<super::super::records::Header>(),
        Record::Request(record) => match record.as_ref() {
            RequestRecord::Admitted(admission) => {
                let texts = [&admission.body, &admission.prompt_text, &admission.server_overrides];
                let texts: usize = texts.into_iter().flatten().map(String::len).sum();
                size_of_val(admission) + texts + size_of_val(&admission.prompt_tokens[..])
            }
            RequestRecord::Refused(refusal) => {
                size_of_val(refusal) + refusal.body.as_ref().map_or(0, String::len) + refusal.error.len()
            }
            RequestRecord::Finished(completion) => {
                size_of_val(completion) + completion.text.as_ref().map_or(0, String::len)
            }
        },
        Record::Step(step) => {
            let tokens = step.input_tokens.as_ref().map_or(0, |tokens| size_of_val(&tokens[..]));
            let neighbours = step.batch.as_ref().map_or(0, |batch| size_of_val(&batch.neighbours[..]));
            size_of_val(step.as_ref()) + size_of_val(&step.rows[..]) + tokens + neighbours
        }
        Record::Mask(mask) => mask.bits.len(),
        Record::Logits(logits) => match &logits.payload {
            LogitsPayload::HiddenQuantized { values, scales } => values.len() + size_of_val(&scales[..]),
            LogitsPayload::HiddenFloat { values } => size_of_val(&values[..]),
            LogitsPayload::Full { bytes, .. } => bytes.len(),
            LogitsPayload::TopK { ids, values } => size_of_val(&ids[..]) + size_of_val(&values[..]),
        },
        Record::Sketch(sketch) => sketch.operation.len() + size_of_val(&sketch.values[..]),
        Record::Event(event) => event.kind.len() + event.message.len(),
        Record::Loss(loss) => loss.channel.len() + loss.reason.len(),
        Record::Columns(columns) => columns.batch.len(),
    }
}
