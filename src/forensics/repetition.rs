//! Answers that repeat themselves, each other, or what was said before.

use std::collections::HashSet;

use serde_json::Value;

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

/// How many whole times the sequence ends with its last `period` tokens.
pub fn times(tokens: &[u32], period: usize) -> usize {
    let Some(last) = tokens.len().checked_sub(period).map(|start| &tokens[start..]) else { return 0 };
    tokens.rchunks_exact(period.max(1)).take_while(|stretch| *stretch == last).count()
}

/// A call of a tool: its name and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// As JSON, so that spelling does not matter; as text where it is none.
    pub arguments: Value,
}

impl Call {
    /// The call that an object with `name` and `arguments` describes, arguments being an object or JSON text.
    pub fn read(call: &Value) -> Option<Self> {
        let arguments = match call.get("arguments")? {
            Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())),
            arguments => arguments.clone(),
        };
        Some(Self { name: call.get("name")?.as_str()?.to_owned(), arguments })
    }

    /// The calls that a client was told of, as recorded: an array of objects; none of what is no such array.
    pub fn told(recorded: Option<&str>) -> Vec<Self> {
        let recorded = recorded.and_then(|text| serde_json::from_str::<Value>(text).ok());
        recorded.iter().flat_map(Value::as_array).flatten().filter_map(Self::read).collect()
    }
}

/// The first call that was made before: by the answer itself, or by the assistant's last turn in the conversation.
pub fn call_again<'a>(last_turn: &'a [Call], answer: &'a [Call]) -> Option<&'a Call> {
    let mut made: HashSet<&Call> = last_turn.iter().collect();
    answer.iter().find(|call| !made.insert(call))
}

/// Tokens below which two answers may be the same by chance.
const SHORT: usize = 8;

/// What two answers share when they are the same tokens after the same prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of an answer which should hardly ever come twice: it was drawn freely, with a seed that was left to the engine.
    pub fn of_free_draw(admission: &Admission, answer: &[u32]) -> Option<Self> {
        // A prompt that was left out of the capture may be any.
        if answer.len() < SHORT || admission.prompt_tokens.is_empty() || !draws_unseeded(admission) {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(admission.prompt_tokens.len() as u64).to_le_bytes());
        for token in admission.prompt_tokens.iter().chain(answer) {
            hasher.update(&token.to_le_bytes());
        }
        Some(Self(*hasher.finalize().as_bytes()))
    }
}

/// Whether the request draws from many tokens, and its client gave no seed.
fn draws_unseeded(admission: &Admission) -> bool {
    let Some(fields) = &admission.params else { return false };
    let field = |name: &str| fields.iter().find(|field| field.name == name);
    let temperature = field("temperature").and_then(|field| field.value.parse::<f32>().ok());
    let is_unseeded = field("seed").is_some_and(|field| field.source != ParamSource::Client);
    let is_free = admission.constraint.is_none() && field("top_k").is_none_or(|field| field.value == "null");
    temperature.is_some_and(|value| value >= 0.5) && is_unseeded && is_free
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capture::records::ResolvedField;

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

    #[test]
    fn whole_times_are_counted() {
        assert_eq!(times(&[9, 1, 2, 1, 2, 1, 2], 2), 3);
        assert_eq!(times(&[1, 2], 3), 0);
    }

    #[test]
    fn the_same_call_is_the_same_however_it_is_spelled() {
        let call = |arguments: Value| Call::read(&json!({"name": "tide", "arguments": arguments})).unwrap();
        let asked = [call(json!({"at": "Rye", "day": 2}))];
        let spelled = [call(json!("{ \"day\": 2, \"at\": \"Rye\" }"))];
        assert_eq!(call_again(&asked, &spelled), Some(&spelled[0]));
        let others = [call(json!({"at": "Rye", "day": 3})), call(json!({"at": "Rye"}))];
        assert_eq!(call_again(&asked, &others), None);
        let twice = [others.as_slice(), &others[..1]].concat();
        assert_eq!(call_again(&asked, &twice), Some(&others[0]));
        assert_eq!(Call::read(&json!({"arguments": {}})), None);
    }

    fn admission(fields: &[(&str, &str, ParamSource)]) -> Admission {
        let field = |&(name, value, source): &(&str, &str, ParamSource)| ResolvedField {
            name: name.to_owned(),
            value: value.to_owned(),
            source,
        };
        let bare = json!({"request": "1", "time_ns": "0", "prompt_tokens": [1, 2], "choices": 1});
        Admission { params: Some(fields.iter().map(field).collect()), ..serde_json::from_value(bare).unwrap() }
    }

    #[test]
    fn answers_that_were_drawn_freely_have_fingerprints() {
        let answer: Vec<u32> = (0..9).collect();
        let (temperature, seed) = (("temperature", "0.7", ParamSource::Client), ("seed", "5", ParamSource::Generated));
        let free = Fingerprint::of_free_draw(&admission(&[temperature, seed]), &answer);
        assert!(free.is_some());
        assert_eq!(
            free,
            Fingerprint::of_free_draw(&admission(&[temperature, ("seed", "9", ParamSource::Generated)]), &answer)
        );
        assert_ne!(free, Fingerprint::of_free_draw(&admission(&[temperature, seed]), &[&answer[..], &[1]].concat()));
        let mut shifted = admission(&[temperature, seed]);
        shifted.prompt_tokens.push(0);
        assert_ne!(free, Fingerprint::of_free_draw(&shifted, &answer[1..]));
        let bound: [&[(&str, &str, ParamSource)]; 4] = [
            &[("temperature", "0", ParamSource::Client), seed],
            &[temperature, ("seed", "5", ParamSource::Client)],
            &[temperature],
            &[temperature, seed, ("top_k", "1", ParamSource::Client)],
        ];
        for fields in bound {
            assert_eq!(Fingerprint::of_free_draw(&admission(fields), &answer), None, "{fields:?}");
        }
        assert_eq!(Fingerprint::of_free_draw(&admission(&[temperature, seed]), &answer[..7]), None);
        let left_out = Admission { prompt_tokens: Vec::new(), ..admission(&[temperature, seed]) };
        assert_eq!(Fingerprint::of_free_draw(&left_out, &answer), None);
    }
}
