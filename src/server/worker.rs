//! The engine's thread: takes requests in, steps, hands out what the steps brought.
//!
//! It waits for requests while the engine is idle, and looks for them between steps otherwise. A request whose client has gone
//! is cancelled before the next step.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::archive::{Order, Orders};
use super::metrics::Metrics;
use super::recorder::Recorder;
use super::tap::{Piece, ServerTap};
use super::watch::{Reason, Watch};
use crate::capture::WriteSummary;
use crate::engine::{Engine, EngineError, FinishedChoice, Received, RefusalReason, Submission};
use crate::types::{FinishReason, RequestId};

/// What the engine's thread is asked to do.
pub(super) enum Command {
    /// Run a request.
    Run(Box<Arrival>),
    /// Put a refused request on record.
    Refuse(Received, String),
    /// Take a capture of what the ring holds.
    Capture(Reason, Option<oneshot::Sender<Result<Value, String>>>),
}

/// A request that is ready to run.
pub(super) struct Arrival {
    pub submission: Submission,
    /// Where its client listens.
    pub updates: UnboundedSender<Update>,
    /// Its place in the queue, given up when it ends.
    pub place: OwnedSemaphorePermit,
    /// When it arrived.
    pub since: Instant,
}

/// What a client's side is told.
pub(super) enum Update {
    /// The engine has taken the request in.
    Admitted,
    /// The engine refuses it.
    Refused(RefusalReason),
    /// A step brought something.
    Piece(Piece),
    /// A choice ended.
    Finished(FinishedChoice),
}

/// How the engine's thread ended.
#[derive(Debug)]
pub struct WorkerEnd {
    /// The finished capture, if there is one.
    pub capture: Option<WriteSummary>,
    /// Why recording or decoding stopped before its time.
    pub errors: Vec<String>,
    /// Whether the engine has stopped although nobody told it to.
    pub has_stopped_early: bool,
}

impl WorkerEnd {
    /// The end of a thread that panicked.
    pub(super) fn died() -> Self {
        Self { capture: None, errors: vec!["the engine's thread has died".to_owned()], has_stopped_early: true }
    }
}

struct Client {
    updates: UnboundedSender<Update>,
    unfinished: u32,
    since: Instant,
    has_token: bool,
    _place: OwnedSemaphorePermit,
}

/// The engine with its clients.
pub(super) struct Worker {
    engine: Engine<ServerTap>,
    metrics: Arc<Metrics>,
    clients: HashMap<RequestId, Client>,
    errors: Vec<String>,
    orders: Orders,
}

impl Worker {
    /// `orders` is where captures of the ring are ordered.
    pub fn new(engine: Engine<ServerTap>, metrics: Arc<Metrics>, orders: Orders) -> Self {
        Self { engine, metrics, clients: HashMap::new(), errors: Vec::new(), orders }
    }

    /// Runs until nobody can send commands any more and every request has ended, and finishes the capture.
    pub fn run(mut self, commands: &Receiver<Command>) -> WorkerEnd {
        let mut has_stopped_early = false;
        loop {
            let is_closed = self.take_commands(commands);
            if is_closed && self.engine.is_idle() {
                break;
            }
            self.cancel_deserted();
            if let Err(error) = self.step() {
                tracing::error!("the engine has stopped: {error}");
                self.errors.push(format!("the engine has stopped: {error}"));
                has_stopped_early = true;
                self.take_capture(Reason::ServerError, None);
                break;
            }
            self.count();
        }
        let pending = self.engine.tap_mut().watch().map(Watch::take_pending).unwrap_or_default();
        pending.into_iter().for_each(|reason| self.take_capture(reason, None));
        let mut tap = self.engine.into_tap();
        let capture = match tap.recorder().take().and_then(Recorder::finish) {
            None => None,
            Some(Ok(summary)) => Some(summary),
            Some(Err(error)) => {
                self.errors.push(format!("the capture is incomplete: {error}"));
                None
            }
        };
        WorkerEnd { capture, errors: self.errors, has_stopped_early }
    }

    /// Takes in what has come, and waits for it while there is nothing else to do; whether nothing can come any more.
    fn take_commands(&mut self, commands: &Receiver<Command>) -> bool {
        loop {
            let command = if self.engine.is_idle() {
                commands.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                commands.try_recv()
            };
            match command {
                Ok(Command::Run(arrival)) => self.submit(*arrival),
                Ok(Command::Refuse(received, why)) => {
                    self.engine.refuse(&received, &RefusalReason::Invalid(why));
                }
                Ok(Command::Capture(reason, answer)) => self.take_capture(reason, answer),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            }
        }
    }

    fn take_capture(&mut self, reason: Reason, answer: Option<oneshot::Sender<Result<Value, String>>>) {
        let snapshot = self.engine.tap_mut().recorder().as_ref().and_then(Recorder::snapshot);
        if let (Some(snapshot), Some(orders)) = (snapshot, &self.orders) {
            // Without a writer there is no server either.
            let _ = orders.send(Order { snapshot, reason, answer });
        }
    }

    fn submit(&mut self, arrival: Arrival) {
        let Arrival { submission, updates, place, since } = arrival;
        if updates.is_closed() {
            return;
        }
        let unfinished = submission.sampling.choices;
        let (request, taken) = self.engine.submit(submission);
        // A client that has gone is found by the next look at it.
        if let Err(reason) = taken {
            let _ = updates.send(Update::Refused(reason));
            return;
        }
        let _ = updates.send(Update::Admitted);
        self.clients.insert(request, Client { updates, unfinished, since, has_token: false, _place: place });
        self.count();
    }

    fn cancel_deserted(&mut self) {
        let is_deserted = |(request, client): (&RequestId, &Client)| client.updates.is_closed().then_some(*request);
        let deserted: Vec<RequestId> = self.clients.iter().filter_map(is_deserted).collect();
        for request in deserted {
            let ended = self.engine.cancel(request);
            tracing::debug!(request = request.0, "cancelled: its client has gone");
            self.hand_out(ended);
            self.clients.remove(&request);
        }
    }

    fn step(&mut self) -> Result<(), EngineError> {
        let finished = self.engine.step()?;
        let tap = self.engine.tap_mut();
        let pieces = tap.take_pieces();
        let failure = tap.recorder().as_mut().and_then(Recorder::take_error);
        if let Some(error) = failure {
            tracing::error!("recording has stopped, and the server goes on without: {error}");
            self.errors.push(format!("recording has stopped: {error}"));
            self.metrics.recording_failed.set(1);
            *self.engine.tap_mut().recorder() = None;
        }
        for (sequence, piece) in pieces {
            let Some(client) = self.clients.get_mut(&sequence.request) else { continue };
            if !std::mem::replace(&mut client.has_token, true) {
                self.metrics.first_token.observe(client.since.elapsed());
            }
            let _ = client.updates.send(Update::Piece(piece));
        }
        self.hand_out(finished);
        Ok(())
    }

    fn hand_out(&mut self, finished: Vec<FinishedChoice>) {
        for choice in finished {
            let request = choice.id.request;
            let Some(client) = self.clients.get_mut(&request) else { continue };
            let is_cancelled = choice.reason == FinishReason::Cancelled;
            client.unfinished = client.unfinished.saturating_sub(1);
            let is_last = client.unfinished == 0;
            if is_last && !is_cancelled {
                self.metrics.whole_request.observe(client.since.elapsed());
            }
            let _ = client.updates.send(Update::Finished(choice));
            if is_last {
                self.clients.remove(&request);
                if let Some(watch) = self.engine.tap_mut().watch() {
                    watch.over(request);
                }
            }
        }
        let due = self.engine.tap_mut().watch().map(Watch::take).unwrap_or_default();
        due.into_iter().for_each(|reason| self.take_capture(reason, None));
    }

    fn count(&self) {
        let (running, waiting) = self.engine.load();
        self.metrics.running.set(running as u64);
        self.metrics.waiting.set(waiting as u64);
    }
}
