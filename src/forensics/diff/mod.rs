//! Where two captures of the same requests part: the first token that differs, and the first recorded condition that does.
//!
//! Steps fall otherwise under other settings, so that captures are compared position by position. Whatever cannot be compared
//! is told: nothing that is missing passes for agreement.

mod captures;
mod conditions;
mod pairs;
pub mod render;
mod sequence;

pub use self::captures::{DiffError, SettingDifference};
pub use self::conditions::{Kind, Unlike};
use self::pairs::Pair;
use crate::capture::records::{StepRecord, StopReason};
use crate::replay::recording::Recording;

/// A capture, and what it is called.
#[derive(Clone, Copy)]
pub struct Capture<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it holds.
    pub recording: &'a dyn Recording,
}

/// What came of comparing two captures.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// The settings that differ, paths apart.
    pub settings: Vec<SettingDifference>,
    /// The sequences that both have, by the number of the request in the first.
    pub sequences: Vec<Sequence>,
    /// What could not be compared, in words.
    pub missing: Vec<String>,
}

/// One choice of a request that both captures have.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The number of the request in each.
    pub request: [u64; 2],
    /// The client's id for it.
    pub client_id: Option<String>,
    /// How the one is known to be the other.
    pub matched_by: MatchedBy,
    /// The choice.
    pub choice: u32,
    /// Where its outcomes part; `None` if they are the same, as far as both are recorded.
    pub parting: Option<Parting>,
    /// The first recorded condition that differs, up to where the tokens part.
    pub condition: Option<Condition>,
    /// The first position whose raw rows differ, likewise.
    pub row: Option<Condition>,
    /// Tokens that were compared.
    pub tokens: usize,
}

/// How a request of the one capture is known to be one of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedBy {
    /// Their clients gave them the same id.
    ClientId,
    /// They have no id, or none that is in both captures: they have the same number and the same prompt.
    NumberAndPrompt,
    /// Neither have they one prompt, as where one of them was refused: they have the same number and the same body.
    NumberAndBody,
}

impl MatchedBy {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientId => "client id",
            Self::NumberAndPrompt => "number and prompt",
            Self::NumberAndBody => "number and body",
        }
    }
}

/// Where the outcomes of a sequence part.
#[derive(Clone, Debug, PartialEq)]
pub enum Parting {
    /// One was refused, and the other was not.
    Refusal([&'static str; 2]),
    /// The prompts are others from this position on.
    Prompt {
        /// The first position that differs.
        position: usize,
        /// The tokens there; `None` past a prompt's end.
        tokens: [Option<u32>; 2],
    },
    /// The emitted tokens are others from this one on.
    Tokens {
        /// Index among the emitted tokens.
        index: usize,
        /// Its absolute position.
        position: usize,
        /// Where each emits it; its last step, for one that has ended before, and `None` if there is none.
        steps: Box<[Option<At>; 2]>,
    },
    /// The same tokens ended for other reasons.
    End([Option<StopReason>; 2]),
    /// The tokens are the same, and they came of other logits rows: see [`Sequence::row`].
    Rows,
}

/// A position of a sequence, in one capture.
#[derive(Clone, Debug, PartialEq)]
pub struct At {
    /// The step that emitted the token there.
    pub step: StepRecord,
    /// Index of the token among those of the step, and of its row.
    pub row: usize,
    /// The token; `None` past the end.
    pub token: Option<u32>,
}

/// A recorded condition that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The absolute position of the token; `None` for a parameter of the request.
    pub position: Option<usize>,
    /// The steps there; `None` likewise.
    pub steps: Option<[u64; 2]>,
    /// What differs there, in the order in which it comes about; the first is what is named.
    pub unlike: Vec<Unlike>,
}

impl Diff {
    /// How many sequences part.
    pub fn parted(&self) -> usize {
        self.sequences.iter().filter(|sequence| sequence.parting.is_some()).count()
    }
}

/// Compares the captures; `request` is a client's id or a number in the first, to compare no other.
///
/// Holds the step records of one request of each at a time (256 MiB each at most), what requests are known by, and what is told
/// of them.
///
/// # Errors
/// If they were recorded with different models or tokenizers, or there is no such request.
pub fn diff(captures: [Capture<'_>; 2], request: Option<&str>) -> Result<Diff, DiffError> {
    let mut missing = captures::check_models(captures)?;
    missing.extend(captures::gaps(captures));
    let pairs = pairs::pairs(captures, request, &mut missing)?;
    let mut sequences = Vec::new();
    for Pair { requests: [a, b], matched_by } in pairs {
        let request = [a.number, b.number];
        let client_id = a.client_id.as_ref().or(b.client_id.as_ref());
        let whole = Sequence {
            request,
            client_id: client_id.cloned(),
            matched_by,
            choice: 0,
            parting: None,
            condition: None,
            row: None,
            tokens: 0,
        };
        if a.is_refused() || b.is_refused() {
            let words = [a.admission(), b.admission()];
            let parting = (words[0] != words[1]).then_some(Parting::Refusal(words));
            sequences.push(Sequence { parting, ..whole });
            continue;
        }
        // One pair at a time: a capture's steps need not fit into memory.
        match [0, 1].map(|side: usize| captures[side].recording.request(request[side])) {
            [Ok(a), Ok(b)] => sequences.extend(sequence::compare(captures, [&a, &b], &whole, &mut missing)),
            faults => {
                let faults = faults.into_iter().zip(captures);
                missing
                    .extend(faults.filter_map(|(fault, capture)| Some(format!("{}: {}", capture.name, fault.err()?))));
            }
        }
    }
    if sequences.is_empty() {
        missing.push("there is no request that both captures have".to_owned());
    }
    Ok(Diff { settings: captures::settings(captures), sequences, missing })
}
