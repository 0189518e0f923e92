//! What may be expected of each check, before anything is computed.

use std::fmt;

use super::verdict::CheckName;

/// How far a check reaches on this capture, with this model, in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Bit for bit.
    Exact,
    /// Numbers agree within a stated tolerance.
    WithinTolerance,
    /// Only the order of tokens can be compared.
    RankOnly,
    /// Nothing can be checked.
    None,
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Exact => "exact",
            Self::WithinTolerance => "within tolerance",
            Self::RankOnly => "rank only",
            Self::None => "none",
        })
    }
}

/// What holds for one check, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// Name of the capture, as given.
    pub capture: String,
    /// The check.
    pub check: CheckName,
    /// How far it reaches.
    pub level: Level,
    /// Why, in words.
    pub why: String,
}
