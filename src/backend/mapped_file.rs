//! A file mapped into memory for reading.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

/// A regular file, mapped read-only for as long as the value lives.
pub struct MappedFile {
    path: PathBuf,
    map: Mmap,
}

impl MappedFile {
    /// Maps `path`.
    ///
    /// # Errors
    /// If it cannot be opened or mapped, or is no regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file"));
        }
        // SAFETY: the mapping is private and read-only, so nothing in this process writes to it. Another process that
        // truncates the file meanwhile ends this one with SIGBUS, as for every program that maps a model.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self { path: path.to_owned(), map })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MappedFile").field("path", &self.path).field("bytes", &self.map.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_file_holds() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("some.bin");
        for content in [&b""[..], b"x", &[7; 10_000]] {
            std::fs::write(&path, content).expect("written");
            let mapped = MappedFile::open(&path).expect("mapped");
            assert_eq!(mapped.bytes(), content);
            assert_eq!(mapped.path(), path);
        }
    }

    #[test]
    fn refuses_what_is_no_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(MappedFile::open(folder.path()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(MappedFile::open(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
