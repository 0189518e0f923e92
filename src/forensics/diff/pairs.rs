//! Which request of the one capture is which of the other.

use std::collections::{HashMap, VecDeque};

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
    /// A hash of its body, where that is recorded.
    body: Option<blake3::Hash>,
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

/// What a request is known by: its number, where that counts, and a hash.
type Key = (Option<u64>, blake3::Hash);

/// What a request is known by in one way; `None` if that is not recorded.
type KeyOf = fn(&Side) -> Option<Key>;

/// The ways of matching, each tried on what those before it have left.
const WAYS: [(MatchedBy, KeyOf); 3] = [
    (MatchedBy::ClientId, |side| Some((None, blake3::hash(side.client_id.as_ref()?.as_bytes())))),
    (MatchedBy::NumberAndPrompt, |side| Some((Some(side.number), side.prompt?))),
    (MatchedBy::NumberAndBody, |side| Some((Some(side.number), side.body?))),
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
    for (matched_by, key) in WAYS {
        let mut others: HashMap<Key, VecDeque<Side>> = HashMap::new();
        let mut left_in_b = Vec::new();
        for side in b {
            match key(&side) {
                Some(key) => others.entry(key).or_default().push_back(side),
                None => left_in_b.push(side),
            }
        }
        let mut left_in_a = Vec::new();
        for side in a {
            match key(&side).and_then(|key| others.get_mut(&key)?.pop_front()) {
                Some(other) => pairs.push(Pair { requests: [side, other], matched_by }),
                None => left_in_a.push(side),
            }
        }
        left_in_b.extend(others.into_values().flatten());
        left_in_b.sort_by_key(|side| side.number);
        (a, b) = (left_in_a, left_in_b);
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
    let hash = |body: Option<String>| body.map(|body| blake3::hash(body.as_bytes()));
    for number in capture.recording.requests() {
        match capture.recording.request(number) {
            Ok(request) => {
                let mut prompt = blake3::Hasher::new();
                for token in &request.admission.prompt_tokens {
                    prompt.update(&token.to_le_bytes());
                }
                let (client_id, body) = (request.admission.client_id, hash(request.admission.body));
                sides.push(Side { number, client_id, prompt: Some(prompt.finalize()), body });
            }
            Err(RequestFault::Refused { client_id, body }) => {
                sides.push(Side { number, client_id, prompt: None, body: hash(body) });
            }
            Err(fault) => missing.push(format!("{}: request {number}: {fault}", capture.name)),
        }
    }
    sides
}
