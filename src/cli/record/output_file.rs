//! The file of the answers.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use super::paths;

/// A new file for lines. Dropped before it has one, it takes itself away again: a run that could not begin leaves nothing.
pub(super) struct OutputFile {
    path: PathBuf,
    file: BufWriter<File>,
    has_lines: bool,
}

impl OutputFile {
    /// # Errors
    /// If it exists already, or cannot be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => anyhow!("--outputs: {}", paths::taken(path)),
            _ => anyhow!("--outputs: cannot create {}: {error}", path.display()),
        })?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), has_lines: false })
    }

    /// Adds a line.
    pub fn write(&mut self, line: &str) -> anyhow::Result<()> {
        self.has_lines = true;
        writeln!(self.file, "{line}").with_context(|| self.place())
    }

    /// Writes out what is left.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.has_lines = true;
        self.file.flush().with_context(|| self.place())
    }

    fn place(&self) -> String {
        format!("write the outputs file {}", self.path.display())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.has_lines
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!("the empty outputs file {} stays: {error}", self.path.display());
        }
    }
}
