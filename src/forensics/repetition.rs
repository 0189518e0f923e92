//! Answers that repeat themselves, and each other.

use std::collections::HashMap;

use crate::capture::records::{Admission, ParamSource};

/// Longest stretch that is looked for.
const LONGEST: usize = 64;
/// A stretch has to come so often, without anything in between ...
const TIMES: usize = 4;
/// ... and to cover so many tokens.
const COVER: usize = 24;

/// The length of the shortest stretch of tokens that the sequence ends with again and again; `None` if it does not.
pub fn period(tokens: &[u32]) -> Option<usize> {
    (1..=LONGEST).find(|&period| {
        let needed = (period * TIMES).max(COVER);
        let Some(start) = tokens.len().checked_sub(needed) else { return false };
        let tail = &tokens[start..];
        tail[period..].iter().zip(tail).all(|(token, before)| token == before)
    })
}

/// An answer, as far as it can be compared with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request.
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// What was emitted.
    pub tokens: Vec<u32>,
}

/// Requests that left their seed to the engine, draw, and were nevertheless given the same answer to the same prompt.
pub fn alike_without_a_seed<'a>(answers: impl Iterator<Item = (&'a Admission, Answer)>) -> Vec<(Answer, Answer)> {
    let mut first: HashMap<(Vec<u32>, Vec<u32>), Answer> = HashMap::new();
    let mut alike = Vec::new();
    for (admission, answer) in
        answers.filter(|(admission, answer)| draws_unseeded(admission) && answer.tokens.len() >= 8)
    {
        let key = (admission.prompt_tokens.clone(), answer.tokens.clone());
        match first.get(&key) {
            Some(earlier) => alike.push((earlier.clone(), answer)),
            None => {
                first.insert(key, answer);
            }
        }
    }
    alike
}

/// Whether the request draws, and its client gave no seed.
fn draws_unseeded(admission: &Admission) -> bool {
    let fields = admission.params.iter().flatten();
    let field = |name: &str| fields.clone().find(|field| field.name == name);
    let draws =
        field("temperature").and_then(|field| field.value.parse::<f32>().ok()).is_some_and(|value| value >= 0.5);
    let is_free = |name: &str, free: &str| field(name).is_none_or(|field| field.value == free);
    let is_seeded = field("seed").is_none_or(|field| field.source == ParamSource::Client);
    draws && !is_seeded && admission.constraint.is_none() && is_free("top_k", "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_to_come_often_and_to_cover_enough() {
        assert_eq!(period(&[7; 24]), Some(1));
        assert_eq!(period(&[7; 23]), None);
        let words: Vec<u32> = [1, 2, 3].repeat(9);
        assert_eq!(period(&words), Some(3));
        let long: Vec<u32> = (0..40).collect::<Vec<u32>>().repeat(4);
        assert_eq!(period(&long), Some(40));
        assert_eq!(period(&long[1..]), None, "three and a bit");
        let mut broken = words;
        broken.push(9);
        assert_eq!(period(&broken), None);
    }
}
