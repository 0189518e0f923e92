//! When a sequence ends, and which of its text may be sent on the way there.

use crate::params::SamplingParams;
use crate::types::{FinishReason, TokenId};

/// Follows one sequence and says when it ends.
///
/// A stop string ends the sequence where it first completes in the text, however tokens cut it, and is not part of the
/// output. Text that may be the beginning of one is held back until it is known.
#[derive(Clone, Debug)]
pub struct StopChecker {
    end_tokens: Vec<TokenId>,
    stop_token_ids: Vec<TokenId>,
    stop: Vec<String>,
    min_tokens: u32,
    max_tokens: u32,
    /// Tokens that fit into the context after the prompt.
    room: u32,
    emitted: u32,
    /// Text that may be the beginning of a stop string.
    held: String,
}

/// What one emitted token led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Output text that is certain by now.
    pub text: String,
    /// Why the sequence ended, if it did; `text` is then the last of the output.
    pub finish: Option<FinishReason>,
}

impl StopChecker {
    /// A checker for a sequence with nothing emitted yet.
    ///
    /// `end_tokens` are the model's; `room` is how many tokens fit into the context after the prompt.
    pub fn new(params: &SamplingParams, end_tokens: &[TokenId], room: u32) -> Self {
        Self {
            end_tokens: if params.ignore_eos { Vec::new() } else { end_tokens.to_vec() },
            stop_token_ids: params.stop_token_ids.clone(),
            stop: params.stop.clone(),
            min_tokens: params.min_tokens,
            max_tokens: params.max_tokens,
            room,
            emitted: 0,
            held: String::new(),
        }
    }

    /// Goes on with other parameters. What they would have ended before stays as it is.
    pub fn change(&mut self, params: &SamplingParams, end_tokens: &[TokenId]) {
        let (emitted, held) = (self.emitted, std::mem::take(&mut self.held));
        *self = Self { emitted, held, ..Self::new(params, end_tokens, self.room) };
    }

    /// Tokens emitted so far.
    pub fn emitted(&self) -> u32 {
        self.emitted
    }

    /// Takes the next emitted token and the text that it completed (`text` of an end or stop token is not output).
    ///
    /// Reasons are tried in the order: end token, stop token, stop string, `max_tokens`, context. Before `min_tokens`
    /// are emitted only the last two end a sequence.
    pub fn push(&mut self, token: TokenId, text: &str) -> Progress {
        self.emitted += 1;
        let may_end = self.emitted >= self.min_tokens;
        if may_end && self.end_tokens.contains(&token) {
            return self.finish("", FinishReason::EndToken(token));
        }
        if may_end && self.stop_token_ids.contains(&token) {
            return self.finish("", FinishReason::StopToken(token));
        }
        let searched_from = self.held.len();
        self.held.push_str(text);
        if may_end && let Some((start, stop)) = self.first_completed(searched_from) {
            self.held.truncate(start);
            return self.finish("", FinishReason::StopString(stop));
        }
        if self.emitted >= self.max_tokens {
            return self.finish("", FinishReason::MaxTokens);
        }
        if self.emitted >= self.room {
            return self.finish("", FinishReason::ContextFull);
        }
        let certain = self.held.len() - self.longest_beginning();
        let rest = self.held.split_off(certain);
        Progress { text: std::mem::replace(&mut self.held, rest), finish: None }
    }

    /// Ends the sequence with what was held back, and `rest` (text that the decoder still had) after it.
    pub fn finish(&mut self, rest: &str, reason: FinishReason) -> Progress {
        let mut text = std::mem::take(&mut self.held);
        text.push_str(rest);
        Progress { text, finish: Some(reason) }
    }

    /// The stop string that completes first at or after byte `from` of the held text, and where it starts; of those
    /// that complete together the longest.
    fn first_completed(&self, from: usize) -> Option<(usize, String)> {
        let completed = |stop: &String| {
            // A string that completed before `from` was judged, or was passed over for `min_tokens`, back then.
            let earliest_start = (from + 1).saturating_sub(stop.len());
            let start = earliest_start..=self.held.len().checked_sub(stop.len())?;
            let bytes = self.held.as_bytes();
            start.into_iter().find(|&start| bytes[start..].starts_with(stop.as_bytes()))
        };
        let found = self.stop.iter().filter_map(|stop| completed(stop).map(|start| (start, stop)));
        found.min_by_key(|&(start, stop)| (start + stop.len(), start)).map(|(start, stop)| (start, stop.clone()))
    }

    /// Bytes at the end of the held text that are the beginning of a stop string.
    fn longest_beginning(&self) -> usize {
        let longest_of = |stop: &String| {
            let most = self.held.len().min(stop.len().saturating_sub(1));
            (1..=most).rev().find(|&length| self.held.as_bytes().ends_with(&stop.as_bytes()[..length])).unwrap_or(0)
        };
        self.stop.iter().map(longest_of).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
