//! Provenance: what made a capture, held against files, a repository or another capture, and carried patches against their
//! origins.
//!
//! A hash is compared with one of its own algorithm alone. What only has others cannot be compared, which is no difference.

mod captures;
mod git;
mod parts;
mod patches;
mod tree;
mod trees;

pub use captures::between;
pub use parts::{Part, PartKind, parts};
pub use patches::{Manifest, ManifestError, Patch, Standing, StandingOf, stand};
pub use tree::{Tree, TreeError};
pub use trees::against;

/// What became of one part of a capture in a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whether it is a kernel, a model, ...
    pub kind: PartKind,
    /// Its name in the capture.
    pub name: String,
    /// The file it was compared with, or the name on the other side; `None` if there is none.
    pub with: Option<String>,
    /// What came of it.
    pub verdict: Verdict,
}

/// What a comparison says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same bytes.
    Equal {
        /// By this hash.
        algorithm: String,
    },
    /// Other bytes.
    Differs {
        /// By this hash.
        algorithm: String,
        /// The capture's.
        recorded: String,
        /// That of the other side, or what it has instead.
        found: String,
    },
    /// Nothing can be said, and why.
    NotComparable(String),
}

impl Verdict {
    /// In one word, as JSON has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Equal { .. } => "equal",
            Self::Differs { .. } => "differs",
            Self::NotComparable(_) => "not_comparable",
        }
    }
}

impl From<crate::hash::Comparison> for Verdict {
    fn from(comparison: crate::hash::Comparison) -> Self {
        use crate::hash::Comparison::{Different, Same, Unlike};
        match comparison {
            Same { algorithm } => Self::Equal { algorithm },
            Different { algorithm, recorded, here: found } => Self::Differs { algorithm, recorded, found },
            Unlike(why) => Self::NotComparable(format!("no hash of one algorithm is on both sides: {why}")),
        }
    }
}
