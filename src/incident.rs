//! The incident that ships inside: two small hybrid models of our own, 72 requests that they were never shown, and the
//! calls that these ask for.
//!
//! How they were made, and the story: `captures/incident/README.md`.

use std::io;
use std::path::{Path, PathBuf};

use crate::engine::faults::Fault;

/// The fault behind the incident: a convolution's history is bound by the length of the query.
pub const FAULT: Fault = Fault::STATE_BOUND_BY_QUERY;

/// The target model, a GGUF file.
pub const TARGET: &[u8] = include_bytes!("../captures/incident/target.gguf");
/// The draft model, a GGUF file.
pub const DRAFT: &[u8] = include_bytes!("../captures/incident/draft.gguf");
/// The requests, one OpenAI Batch input line each; every one has to call one tool.
pub const REQUESTS: &str = include_str!("../captures/incident/requests.jsonl");
/// The call that each request asks for: JSON lines with `custom_id`, `name` and `arguments`.
pub const EXPECTED: &str = include_str!("../captures/incident/expected.jsonl");

/// The incident's files in a folder.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// Writes them to a folder that exists.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write(folder: &Path) -> io::Result<Self> {
        let files = Self { folder: folder.to_owned() };
        std::fs::write(files.target(), TARGET)?;
        std::fs::write(files.draft(), DRAFT)?;
        std::fs::write(files.requests(), REQUESTS)?;
        std::fs::write(files.expected(), EXPECTED)?;
        Ok(files)
    }

    /// The target model.
    pub fn target(&self) -> PathBuf {
        self.folder.join("target.gguf")
    }

    /// The draft model.
    pub fn draft(&self) -> PathBuf {
        self.folder.join("draft.gguf")
    }

    /// The requests.
    pub fn requests(&self) -> PathBuf {
        self.folder.join("requests.jsonl")
    }

    /// The calls that they ask for.
    pub fn expected(&self) -> PathBuf {
        self.folder.join("expected.jsonl")
    }
}
