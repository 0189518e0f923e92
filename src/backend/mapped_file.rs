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

    /// Gives the memory of the pages that were read back to the system. They stay readable: the next look reads them from
    /// the file again.
    pub fn release_pages(&self) {
        // SAFETY: the mapping is of a file and nothing writes to it, so that a page which is dropped holds the same bytes
        // when it comes back. Test: `released_pages_come_back`.
        #[cfg(unix)]
        let released = unsafe { self.map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        #[cfg(unix)]
        if let Err(error) = released {
            tracing::debug!("the pages of {} stay in memory: {error}", self.path.display());
        }
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
    fn released_pages_come_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("large.bin");
        let content: Vec<u8> = (0..1_u32 << 20).map(|index| (index % 251) as u8).collect();
        std::fs::write(&path, &content).expect("written");
        let mapped = MappedFile::open(&path).expect("mapped");
        assert_eq!(mapped.bytes(), content);
        #[cfg(target_os = "linux")]
        assert!(resident_kilobytes(&path) >= 1024);
        mapped.release_pages();
        #[cfg(target_os = "linux")]
        assert_eq!(resident_kilobytes(&path), 0);
        assert_eq!(mapped.bytes(), content);
    }

    /// Of the mapping of `path`, as the kernel counts.
    #[cfg(target_os = "linux")]
    fn resident_kilobytes(path: &Path) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel tells");
        let of_file = maps.lines().skip_while(|line| !line.ends_with(path.to_str().expect("UTF-8")));
        let resident = of_file.into_iter().find_map(|line| line.strip_prefix("Rss:")).expect("a figure");
        resident.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    #[test]
    fn refuses_what_is_no_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(MappedFile::open(folder.path()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(MappedFile::open(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
