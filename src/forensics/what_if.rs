//! What became of an answer: to set one that was decoded under a change beside one that was not.

use super::outcome::{CallOutcome, ExpectedCalls, NoOutcome, outcome_of_choice};
use crate::capture::records::StopReason;
use crate::capture::{CaptureError, CaptureReader};
use crate::model::Tokenizer;
use crate::types::SequenceId;

/// An answer that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Every token that was emitted.
    pub tokens: Vec<u32>,
    /// Steps that it took, those of its prompt among them.
    pub steps: usize,
    /// Its text; `None` if that is not recorded, like what follows.
    pub text: Option<String>,
    /// Its tool calls, as JSON text.
    pub tool_calls: Option<String>,
    /// Why it ended.
    pub stop: Option<StopReason>,
    /// What became of its calls, by their form and their tools' schemas.
    pub calls: Result<CallOutcome, NoOutcome>,
    /// Rows whose token had to come and was not the best one, end tokens apart.
    pub misranked: usize,
}

impl Answer {
    /// The answer of a sequence; `tokenizer` is that of the recorded model.
    ///
    /// # Errors
    /// If its records cannot be read.
    pub fn of(reader: &CaptureReader, sequence: SequenceId, tokenizer: &Tokenizer) -> Result<Self, CaptureError> {
        let end_tokens: Vec<u32> = tokenizer.end_tokens().iter().map(|token| token.0).collect();
        let (mut tokens, mut steps, mut misranked) = (Vec::new(), 0, 0);
        for step in reader.steps(sequence) {
            let step = step?;
            let forced = step.rows.iter().filter_map(|row| row.forced);
            let is_misranked = forced.filter(|forced| forced.rank > Some(0) && !end_tokens.contains(&forced.token));
            misranked += is_misranked.count();
            tokens.extend(step.emitted);
            steps += 1;
        }
        let completions = reader.request(sequence.request)?.completions;
        let completion = completions.into_iter().find(|completion| completion.choice == sequence.choice.0);
        let calls = outcome_of_choice(reader, sequence, tokenizer, &ExpectedCalls::default())?.outcome;
        let (text, tool_calls, stop) =
            completion.map_or((None, None, None), |end| (end.text, end.tool_calls, end.stop));
        Ok(Self { tokens, steps, text, tool_calls, stop, calls, misranked })
    }

    /// At how many places the tokens of the two differ; where one has ended, it differs from the other.
    pub fn tokens_that_differ(&self, other: &Self) -> usize {
        let same = self.tokens.iter().zip(&other.tokens).filter(|(a, b)| a == b).count();
        self.tokens.len().max(other.tokens.len()) - same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(tokens: &[u32]) -> Answer {
        Answer {
            tokens: tokens.to_vec(),
            steps: 0,
            text: None,
            tool_calls: None,
            stop: None,
            calls: Err(NoOutcome::NothingToJudge),
            misranked: 0,
        }
    }

    #[test]
    fn tokens_differ_by_place_and_past_an_end() {
        let differ = |a: &[u32], b: &[u32]| answer(a).tokens_that_differ(&answer(b));
        assert_eq!(differ(&[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(differ(&[1, 2, 3], &[1, 5, 3]), 1);
        assert_eq!(differ(&[1, 2, 3], &[1]), 2);
        assert_eq!(differ(&[1], &[2, 3, 4]), 3);
    }
}
