//! Which request of the one capture is which of the other.

use super::{Capture, DiffError};
use crate::replay::recording::RequestFault;

/// A request that both captures have.
pub(super) struct Pair {
    pub(super) requests: [Side; 2],
    pub(super) client_id: Option<String>,
}

/// A request in one capture.
pub(super) enum Side {
    /// It ran.
    Ran {
        /// Its number.
        number: u64,
        /// What it is known by beside that.
        known_by: KnownBy,
    },
    /// It was refused.
    Refused {
        /// Its number.
        number: u64,
    },
}

/// What a request is known by.
#[derive(PartialEq)]
pub(super) enum KnownBy {
    /// The id that its client gave it.
    Id(String),
    /// Its prompt, if it has no such id.
    Prompt(Vec<u32>),
}

impl Side {
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Ran { number, .. } | Self::Refused { number } => *number,
        }
    }

    /// What became of it on admission, in words.
    pub(super) fn refusal(&self) -> &'static str {
        match self {
            Self::Ran { .. } => "admitted",
            Self::Refused { .. } => "refused",
        }
    }

    fn client_id(&self) -> Option<&str> {
        match self {
            Self::Ran { known_by: KnownBy::Id(id), .. } => Some(id),
            _ => None,
        }
    }

    /// Whether it is the same request as one of the other capture.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ran { known_by: a, .. }, Self::Ran { known_by: b, .. }) => {
                a == b && (matches!(a, KnownBy::Id(_)) || self.number() == other.number())
            }
            // What is recorded of a refusal has no prompt.
            (a, b) => a.number() == b.number(),
        }
    }
}

/// The requests that both captures have; those of one alone, and those that cannot be had, are told in `missing`.
///
/// # Errors
/// If none is called `wanted` in the first capture.
pub(super) fn pairs(
    captures: [Capture<'_>; 2],
    wanted: Option<&str>,
    missing: &mut Vec<String>,
) -> Result<Vec<Pair>, DiffError> {
    let [mut a, mut b] = captures.map(|capture| sides(capture, missing));
    if let Some(id) = wanted {
        let has_id = a.iter().any(|side| side.client_id() == Some(id));
        let is_wanted = |side: &Side| match has_id {
            true => side.client_id() == Some(id),
            false => id.parse() == Ok(side.number()),
        };
        a.retain(is_wanted);
        if a.is_empty() {
            return Err(DiffError::NoRequest { capture: captures[0].name.to_owned(), id: id.to_owned() });
        }
    }
    // What ran is known by more than its number.
    a.sort_by_key(|side| (matches!(side, Side::Refused { .. }), side.number()));
    let mut pairs = Vec::new();
    for side in a {
        match b.iter().position(|other| side.is(other)) {
            Some(place) => {
                let other = b.remove(place);
                let client_id = side.client_id().map(str::to_owned);
                pairs.push(Pair { requests: [side, other], client_id });
            }
            None => missing.push(only(captures[0], &side)),
        }
    }
    if wanted.is_none() {
        missing.extend(b.iter().map(|side| only(captures[1], side)));
    }
    pairs.sort_by_key(|pair: &Pair| pair.requests[0].number());
    Ok(pairs)
}

fn only(capture: Capture<'_>, side: &Side) -> String {
    let id = side.client_id().map_or(String::new(), |id| format!(" (`{id}`)"));
    format!("request {}{id} is in {} alone", side.number(), capture.name)
}

fn sides(capture: Capture<'_>, missing: &mut Vec<String>) -> Vec<Side> {
    let mut sides = Vec::new();
    for number in capture.recording.requests() {
        match capture.recording.request(number) {
            Ok(request) => {
                let admission = request.admission;
                let known_by = admission.client_id.map_or(KnownBy::Prompt(admission.prompt_tokens), KnownBy::Id);
                sides.push(Side::Ran { number, known_by });
            }
            Err(RequestFault::Refused) => sides.push(Side::Refused { number }),
            Err(fault) => missing.push(format!("{}: request {number}: {fault}", capture.name)),
        }
    }
    sides
}
