//! Reading at offsets. A file that shrinks while it is read gives an error, which a memory map would not.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::super::error::CaptureError;

#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: Mutex<File>,
    length: u64,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, CaptureError> {
        let io = |action| move |source| CaptureError::Io { path: path.to_owned(), action, source };
        let file = File::open(path).map_err(io("open"))?;
        let metadata = file.metadata().map_err(io("read the length"))?;
        if metadata.is_dir() {
            return Err(io("open")(std::io::ErrorKind::IsADirectory.into()));
        }
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), length: metadata.len() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file when it was opened.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Exactly `length` bytes from `offset`; the caller has bounded `length`.
    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, CaptureError> {
        let mut bytes = vec![0; length];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(|source| CaptureError::Io { path: self.path.clone(), action: "read", source })?;
        Ok(bytes)
    }

    /// Up to `length` bytes from `offset`, fewer at the end of the file.
    pub(super) fn read_up_to(&self, offset: u64, length: usize) -> Result<Vec<u8>, CaptureError> {
        let left = self.length.saturating_sub(offset);
        self.read(offset, length.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    /// An error about the chunk at `offset`.
    pub(super) fn damaged(&self, offset: u64, what: impl Into<String>) -> CaptureError {
        CaptureError::Damaged { path: self.path.clone(), offset, what: what.into() }
    }
}
