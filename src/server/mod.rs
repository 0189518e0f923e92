//! The server: an OpenAI-compatible API on the engine, with the recorder inside.
//!
//! Three kinds of threads, and channels between them. A connection reads a request and writes its answer; the
//! `clerk` prepares requests, one after the other; the `worker` owns the engine, and nothing else touches it. A request goes
//! connection, clerk, worker; what the steps bring goes back to its connection. A client that goes away drops its end of the
//! channel, which the worker sees before the next step.

mod archive;
mod body;
mod choice;
mod clerk;
mod error;
mod events;
mod file;
mod generate;
mod guard;
mod listen;
mod metrics;
mod recorder;
mod routes;
mod stop;
mod tap;
mod tokens;
mod watch;
mod worker;

pub use archive::{Archive, ArchiveLimits};
pub use guard::Guard;
pub use listen::Holding;
pub use metrics::Metrics;
pub use recorder::Recorder;
pub use tap::ServerTap;
pub use worker::WorkerEnd;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use crate::engine::Engine;
use crate::exchange::Preparation;
use crate::model::Tokenizer;
use archive::Captures;
use clerk::Clerk;
use error::ApiError;
use worker::{Command, Worker};

/// Threads for the connections: they only move bytes.
const CONNECTION_THREADS: usize = 2;

/// How a server is set up.
pub struct Setup {
    /// Where it listens already.
    pub listener: TcpListener,
    /// The name of the model, as clients have to say it.
    pub model: String,
    /// The model's tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// Who may ask.
    pub guard: Guard,
    /// Most requests that run or wait.
    pub places: usize,
    /// Most bytes of a body.
    pub body_bytes: usize,
    /// How connections are held.
    pub holding: Holding,
    /// What is counted; the engine's tap counts there, too.
    pub metrics: Arc<Metrics>,
    /// Where captures of the ring go; `None` where there is no ring.
    pub archive: Option<Archive>,
}

/// How a server ended.
#[derive(Debug)]
pub struct ServerEnd {
    /// Whether every request had ended before the time to drain was up.
    pub is_drained: bool,
    /// How the engine's thread ended.
    pub worker: WorkerEnd,
}

/// Serves until SIGTERM or SIGINT; then it accepts no more, lets requests end within the time to drain, and finishes the
/// capture. A second signal cuts the draining short.
///
/// # Errors
/// If the runtime of the connections cannot be started.
pub fn run(setup: Setup, preparation: Preparation<'_>, engine: Engine<ServerTap>) -> io::Result<ServerEnd> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONNECTION_THREADS)
        .thread_name("connections")
        .enable_all()
        .build()?;
    let (jobs, to_do) = channel();
    let (commands, asked) = channel();
    let (ended, has_ended) = oneshot::channel();
    let Setup { listener, model, tokenizer, guard, places, body_bytes, holding, metrics, archive } = setup;
    let captures = archive.map(Arc::new);
    let context_length = preparation.context_length();
    let front = Arc::new(Front {
        model,
        context_length,
        created: generate::now(),
        tokenizer,
        clerk: Clerk::new(jobs),
        commands,
        places: Arc::new(Semaphore::new(places)),
        capacity: places,
        body_bytes,
        guard,
        metrics: Arc::clone(&metrics),
        captures: captures.clone(),
        has_stopped: AtomicBool::new(false),
    });
    let (orders, ordered) = channel();
    let orders = captures.is_some().then_some(orders);
    std::thread::scope(|scope| {
        scope.spawn(move || captures.map(|archive| archive.work(&ordered)));
        scope.spawn(move || clerk::work(&preparation, &to_do));
        let worker = scope.spawn({
            let front = Arc::downgrade(&front);
            move || {
                let end = Worker::new(engine, metrics, orders).run(&asked);
                if let Some(front) = front.upgrade() {
                    front.has_stopped.store(true, Ordering::Relaxed);
                }
                // The connections may have ended before.
                let _ = ended.send(());
                end
            }
        });
        let is_drained = runtime.block_on(async {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let signals = stop::Signals::listen()?;
            let router = routes::router(front);
            Ok::<bool, io::Error>(
                listen::serve(listener, router, holding, signals.first(has_ended), signals.second()).await,
            )
        });
        // With the connections go the last senders, and so the other threads end.
        runtime.shutdown_background();
        let worker = worker.join().unwrap_or_else(|_| WorkerEnd::died());
        Ok(ServerEnd { is_drained: is_drained?, worker })
    })
}

/// What every connection shares.
struct Front {
    model: String,
    context_length: usize,
    /// When the server began, in seconds since the Unix epoch.
    created: u64,
    tokenizer: Arc<Tokenizer>,
    clerk: Clerk,
    commands: Sender<Command>,
    places: Arc<Semaphore>,
    capacity: usize,
    body_bytes: usize,
    guard: Guard,
    metrics: Arc<Metrics>,
    captures: Captures,
    /// Whether the engine's thread has ended.
    has_stopped: AtomicBool,
}

impl Front {
    /// Whether `name` is the model's, or none is given.
    fn check_model(&self, name: Option<&str>) -> Result<(), ApiError> {
        match name {
            Some(name) if name != self.model => {
                let message = format!("there is no model {name:?} here; this server has {:?}", self.model);
                Err(ApiError::not_found(message, Some("model"), "model_not_found"))
            }
            _ => Ok(()),
        }
    }

    fn model_card(&self) -> Value {
        json!({
            "id": self.model,
            "object": "model",
            "created": self.created,
            "owned_by": "stepscope",
            "max_model_len": self.context_length,
        })
    }

    fn archive(&self) -> Result<&Arc<Archive>, ApiError> {
        self.captures.as_ref().ok_or_else(|| ApiError::not_found("nothing is kept to be taken", None, "not_found"))
    }

    fn is_alive(&self) -> bool {
        !self.has_stopped.load(Ordering::Relaxed)
    }
}
