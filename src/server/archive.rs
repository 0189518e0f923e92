//! Captures that were taken of the ring: written one after the other, listed, given out, and removed when they are too many.
//!
//! A capture is found by its id among those that are known. No text of a request becomes a path.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::watch::Reason;
use crate::capture::Snapshot;

/// What is kept of the captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Most bytes of all together; the oldest are removed first, the newest never.
    pub bytes: u64,
    /// Captures that are older are removed.
    pub age: Duration,
}

/// The captures of a folder.
pub struct Archive {
    folder: PathBuf,
    limits: ArchiveLimits,
    known: Mutex<Vec<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: String,
    path: PathBuf,
    reason: String,
    /// Milliseconds since the Unix epoch.
    taken_ms: u64,
    bytes: u64,
}

/// A capture that is to be written.
pub(super) struct Order {
    pub snapshot: Snapshot,
    pub reason: Reason,
    /// Who waits for it.
    pub answer: Option<oneshot::Sender<Result<Value, String>>>,
}

impl Archive {
    /// Those that earlier servers left in the folder are known, too.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn open(folder: &Path, limits: ArchiveLimits) -> std::io::Result<Self> {
        let mut known = Vec::new();
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            known.extend(Entry::of_file(&path));
        }
        known.sort_by_key(|entry: &Entry| entry.taken_ms);
        Ok(Self { folder: folder.to_owned(), limits, known: Mutex::new(known) })
    }

    /// The captures, oldest first.
    pub(super) fn list(&self) -> Vec<Value> {
        self.remove_old();
        self.known().iter().map(Entry::card).collect()
    }

    /// The file of a capture.
    pub(super) fn file(&self, id: &str) -> Option<PathBuf> {
        self.known().iter().find(|entry| entry.id == id).map(|entry| entry.path.clone())
    }

    /// Writes captures as they are ordered, until nobody can order one any more.
    pub(super) fn work(&self, orders: &Receiver<Order>) {
        for Order { snapshot, reason, answer } in orders {
            let written = self.write(&snapshot, reason);
            match &written {
                Ok(card) => tracing::info!("a capture was taken: {card}"),
                Err(error) => tracing::error!("a capture could not be written: {error}"),
            }
            if let Some(answer) = answer {
                // Who asked may have gone.
                let _ = answer.send(written);
            }
        }
    }

    fn write(&self, snapshot: &Snapshot, reason: Reason) -> Result<Value, String> {
        let mut taken_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        // One name is one capture.
        taken_ms = self.known().last().map_or(taken_ms, |last| taken_ms.max(last.taken_ms + 1));
        let id = format!("ring-{taken_ms}-{}", reason.name());
        let path = self.folder.join(format!("{id}.mcap"));
        let written = snapshot.write(&path).map_err(|error| error.to_string())?;
        let entry = Entry { id, path, reason: reason.name().to_owned(), taken_ms, bytes: written.file_bytes };
        let mut card = entry.card();
        card["requests"] = json!(snapshot.requests);
        self.known().push(entry);
        self.remove_old();
        Ok(card)
    }

    fn remove_old(&self) {
        let mut known = self.known();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let is_old = |entry: &Entry| now.saturating_sub(u128::from(entry.taken_ms)) > self.limits.age.as_millis();
        let mut bytes: u64 = known.iter().map(|entry| entry.bytes).sum();
        while known.len() > 1
            && let Some(first) = known.first()
            && (bytes > self.limits.bytes || is_old(first))
        {
            if let Err(error) = fs::remove_file(&first.path) {
                tracing::warn!("{}: {error}", first.path.display());
            }
            bytes -= first.bytes;
            known.remove(0);
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// What a file's name says, if it is one of an archive.
    fn of_file(path: &Path) -> Option<Self> {
        let id = path.file_name()?.to_str()?.strip_suffix(".mcap")?;
        let (taken_ms, reason) = id.strip_prefix("ring-")?.split_once('-')?;
        let bytes = fs::metadata(path).ok()?.len();
        let taken_ms = taken_ms.parse().ok()?;
        Some(Self { id: id.to_owned(), path: path.to_owned(), reason: reason.to_owned(), taken_ms, bytes })
    }

    fn card(&self) -> Value {
        let Self { id, reason, taken_ms, bytes, .. } = self;
        json!({"id": id, "object": "capture", "reason": reason, "created": taken_ms / 1000, "bytes": bytes})
    }
}

/// What the engine's thread takes captures with.
pub(super) type Orders = Option<std::sync::mpsc::Sender<Order>>;

/// What a server's front knows of them.
pub(super) type Captures = Option<Arc<Archive>>;
