//! Recording: a thread that encodes, compresses and writes, behind a queue of bounded size.
//!
//! The caller only moves records into the queue. When the queue is full, [`Overflow`] decides: the caller waits, or
//! payloads are dropped and each drop is accounted in a loss record. Everything else is never dropped.

mod batch;
mod file;
mod ledger;
mod queue;
mod ring;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use self::file::CaptureFile;
#[cfg(test)]
pub(super) use self::file::Output;
pub(super) use self::file::PROFILE;
use self::ledger::Ledger;
use self::queue::{Close, Item, Queue};
pub use self::ring::{Ring, RingOptions, Snapshot};
use super::codec::Encoding;
use super::error::CaptureError;
use super::records::Header;
use super::topic::{Record, Topic};

/// What happens when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The caller waits.
    Block,
    /// Messages of the `logits` and `sketch` channels are dropped, and loss records say which; for all others the
    /// caller waits.
    DropPayloads,
}

/// Where records go.
pub trait Sink: Send {
    /// Takes one record. A step record goes before the payloads of its rows.
    ///
    /// # Errors
    /// If recording has failed.
    fn write(&mut self, record: Record) -> Result<(), CaptureError>;

    /// Takes a raw logits row.
    ///
    /// # Errors
    /// If recording has failed.
    fn write_row(&mut self, key: RowKey, values: Vec<f32>) -> Result<(), CaptureError>;
}

impl Sink for CaptureWriter {
    fn write(&mut self, record: Record) -> Result<(), CaptureError> {
        Self::write(self, record)
    }

    fn write_row(&mut self, key: RowKey, values: Vec<f32>) -> Result<(), CaptureError> {
        Self::write_row(self, key, values)
    }
}

/// How to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// Encoding of every message.
    pub encoding: Encoding,
    /// Most bytes that wait in the queue, by the size of the records in memory. One record is always let in.
    pub queue_bytes: usize,
    /// What happens when they are reached.
    pub overflow: Overflow,
    /// Longest time that a record stays in memory only: what a killed process can lose.
    pub flush_interval: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            encoding: Encoding::Bincode,
            queue_bytes: 64 << 20,
            overflow: Overflow::Block,
            flush_interval: Duration::from_secs(2),
        }
    }
}

/// What a finished capture holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteSummary {
    /// The capture.
    pub path: PathBuf,
    /// Its length.
    pub file_bytes: u64,
    /// Messages, and their bytes before compression, per channel.
    pub channels: Vec<ChannelSummary>,
    /// Payload messages that were dropped.
    pub dropped: u64,
}

/// What was written on one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSummary {
    /// The channel.
    pub topic: Topic,
    /// Messages.
    pub messages: u64,
    /// Their bytes before compression.
    pub bytes: u64,
}

/// Which logits row a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The step.
    pub step: u64,
    /// The request.
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Index into the step record's `rows`.
    pub row: u32,
}

/// Records into a file that grows as `NAME.partial` and gets its name when it is finished.
///
/// Dropping a writer without [`finish`](Self::finish) writes out what it holds and leaves the readable `.partial`.
/// After a failed write (a full disk) every call returns [`CaptureError::Stopped`] with the cause; nothing panics.
#[derive(Debug)]
pub struct CaptureWriter {
    queue: Arc<Queue>,
    ledger: Mutex<Ledger>,
    overflow: Overflow,
    thread: Option<JoinHandle<Result<WriteSummary, CaptureError>>>,
}

impl CaptureWriter {
    /// Begins a capture at `path`, which must not exist, nor `path` with `.partial` appended.
    pub fn create(path: &Path, header: Header, options: WriterOptions) -> Result<Self, CaptureError> {
        let epoch_ns = header.epoch_ns;
        Self::start(path, CaptureFile::create(path, header, &options)?, epoch_ns, options)
    }

    /// A capture whose bytes go somewhere else, for tests of failing outputs.
    #[cfg(test)]
    pub(super) fn create_on(
        path: &Path,
        output: Box<dyn Output>,
        header: Header,
        options: WriterOptions,
    ) -> Result<Self, CaptureError> {
        let epoch_ns = header.epoch_ns;
        Self::start(path, CaptureFile::create_on(path, output, header, &options)?, epoch_ns, options)
    }

    fn start(path: &Path, file: CaptureFile, epoch_ns: u64, options: WriterOptions) -> Result<Self, CaptureError> {
        let queue = Arc::new(Queue::new(options.queue_bytes));
        let thread = std::thread::Builder::new().name("capture-writer".to_owned()).spawn({
            let queue = Arc::clone(&queue);
            move || write_all(&queue, file, options.flush_interval)
        });
        let thread = thread.map_err(|source| CaptureError::Io {
            path: path.to_owned(),
            action: "start the writer thread",
            source,
        })?;
        Ok(Self { queue, ledger: Mutex::new(Ledger::new(epoch_ns)), overflow: options.overflow, thread: Some(thread) })
    }

    /// Hands over one record.
    ///
    /// A step record goes before the payloads of its rows. A mask is written the first time only.
    pub fn write(&self, record: impl Into<Record>) -> Result<(), CaptureError> {
        let record = record.into();
        let mut ledger = self.ledger();
        if ledger.is_known_mask(&record) {
            return Ok(());
        }
        let log_time = ledger.log_time(&record)?;
        self.enqueue(&mut ledger, Item::Record { record, log_time })
    }

    /// Hands over a raw logits row for the `full` tier; it is compressed on the writer's thread.
    pub fn write_row(&self, key: RowKey, values: Vec<f32>) -> Result<(), CaptureError> {
        let mut ledger = self.ledger();
        let log_time = ledger.payload_time(Topic::Logits, key.step, key.request, key.choice)?;
        self.enqueue(&mut ledger, Item::Row { key, values, log_time })
    }

    /// Writes everything out, gives the file its name and makes both durable.
    pub fn finish(mut self) -> Result<WriteSummary, CaptureError> {
        {
            let mut ledger = self.ledger();
            for loss in ledger.take_losses() {
                self.queue.push(loss)?;
            }
        }
        self.queue.close(Close::Finish);
        let mut summary = self.join()?;
        summary.dropped = self.ledger().dropped();
        Ok(summary)
    }

    fn enqueue(&self, ledger: &mut Ledger, item: Item) -> Result<(), CaptureError> {
        let topic = item.topic();
        if self.overflow == Overflow::Block || !topic.is_payload() {
            return self.queue.push(item);
        }
        match self.queue.try_push(item)? {
            // The account is closed by the first payload that fits again, so that a loss record covers one gap.
            None => match ledger.take_loss(topic) {
                Some(loss) => self.queue.push(loss),
                None => Ok(()),
            },
            Some(refused) => {
                ledger.add_drop(&refused);
                Ok(())
            }
        }
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&mut self) -> Result<WriteSummary, CaptureError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(CaptureError::WriterDied),
        }
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        self.queue.close(Close::Abandon);
        if let Err(error) = self.join() {
            tracing::error!("the unfinished capture is incomplete: {error}");
        }
    }
}

/// Shortest wait of the writer's thread when there is nothing to do.
const IDLE: Duration = Duration::from_millis(1);

/// The body of the writer's thread.
fn write_all(queue: &Queue, mut file: CaptureFile, interval: Duration) -> Result<WriteSummary, CaptureError> {
    let result = drain(queue, &mut file, interval).and_then(|close| match close {
        Close::Finish => file.finish(),
        Close::Abandon => file.abandon(),
    });
    match result {
        Ok(summary) => Ok(summary),
        Err(error) => Err(CaptureError::Stopped(queue.fail(error))),
    }
}

fn drain(queue: &Queue, file: &mut CaptureFile, interval: Duration) -> Result<Close, CaptureError> {
    let _guard = queue.failing_on_panic();
    loop {
        match queue.pop(interval.max(IDLE)) {
            queue::Popped::Item(item) => file.write(item)?,
            queue::Popped::Nothing => {}
            queue::Popped::Closed(close) => return Ok(close),
        }
        file.flush_if_older_than(interval)?;
    }
}

/// Writes records with times that are known already, on the caller's thread.
pub(super) struct CopyWriter(CaptureFile);

impl CopyWriter {
    pub(super) fn create(path: &Path, header: Header, options: &WriterOptions) -> Result<Self, CaptureError> {
        CaptureFile::create(path, header, options).map(Self)
    }

    pub(super) fn write(&mut self, record: Record, log_time: u64) -> Result<(), CaptureError> {
        self.0.write(Item::Record { record, log_time })
    }

    pub(super) fn finish(self) -> Result<WriteSummary, CaptureError> {
        self.0.finish()
    }
}
