//! Which request of the one capture is which of the other.

use super::{Capture, DiffError, MatchedBy};
use crate::replay::recording::RequestFault;

/// A request that both captures have.
pub(super) struct Pair {
    pub(super) requests: [Side; 2],
    pub(super) matched_by: MatchedBy,
}

/// A request in one capture.
pub(super) struct Side {
    pub(super) number: u64,
    pub(super) client_id: Option<String>,
    /// A hash of its prompt; `None` if it was refused: what is recorded of a refusal has none.
    prompt: Option<blake3::Hash>,
}

impl Side {
    pub(super) fn is_refused(&self) -> bool {
        self.prompt.is_none()
    }

    /// What became of it on admission, in a word.
    pub(super) fn admission(&self) -> &'static str {
        if self.is_refused() { "refused" } else { "admitted" }
    }
}

/// Whether a request of the first capture is one of the second.
type IsSame = fn(&Side, &Side) -> bool;

/// The ways of matching, each tried on what those before it have left.
const WAYS: [(MatchedBy, IsSame); 3] = [
    (MatchedBy::ClientId, |a, b| a.client_id.is_some() && a.client_id == b.client_id),
    (MatchedBy::NumberAndPrompt, |a, b| a.number == b.number && a.prompt.is_some() && a.prompt == b.prompt),
    (MatchedBy::Number, |a, b| a.number == b.number && (a.is_refused() || b.is_refused())),
];

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
    let mut pairs = Vec::new();
    for (matched_by, is_same) in WAYS {
        let mut left = Vec::new();
        for side in a {
            match b.iter().position(|other| is_same(&side, other)) {
                Some(place) => pairs.push(Pair { requests: [side, b.remove(place)], matched_by }),
                None => left.push(side),
            }
        }
        a = left;
    }
    pairs.sort_by_key(|pair| pair.requests[0].number);
    if let Some(id) = wanted {
        let all = || pairs.iter().map(|pair| &pair.requests[0]).chain(&a);
        let has_id = all().any(|side| side.client_id.as_deref() == Some(id));
        let is_wanted = |side: &Side| match has_id {
            true => side.client_id.as_deref() == Some(id),
            false => id.parse() == Ok(side.number),
        };
        if !all().any(is_wanted) {
            return Err(DiffError::NoRequest { capture: captures[0].name.to_owned(), id: id.to_owned() });
        }
        pairs.retain(|pair| is_wanted(&pair.requests[0]));
        a.retain(is_wanted);
        b.clear();
    }
    missing.extend(a.iter().map(|side| only(captures[0], side)));
    missing.extend(b.iter().map(|side| only(captures[1], side)));
    Ok(pairs)
}

fn only(capture: Capture<'_>, side: &Side) -> String {
    let id = side.client_id.as_ref().map_or(String::new(), |id| format!(" (`{id}`)"));
    format!("request {}{id} is in {} alone", side.number, capture.name)
}

fn sides(capture: Capture<'_>, missing: &mut Vec<String>) -> Vec<Side> {
    let mut sides = Vec::new();
    for number in capture.recording.requests() {
        match capture.recording.request(number) {
            Ok(request) => {
                let mut prompt = blake3::Hasher::new();
                for token in &request.admission.prompt_tokens {
                    prompt.update(&token.to_le_bytes());
                }
                let client_id = request.admission.client_id;
                sides.push(Side { number, client_id, prompt: Some(prompt.finalize()) });
            }
            Err(RequestFault::Refused) => sides.push(Side { number, client_id: None, prompt: None }),
            Err(fault) => missing.push(format!("{}: request {number}: {fault}", capture.name)),
        }
    }
    sides
}
