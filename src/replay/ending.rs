//! When a sequence must end, and with which text: the plain definition.

use super::rules::Rules;
use crate::capture::records::StopReason;
use crate::model::Tokenizer;
use crate::types::TokenId;

/// What decides the end of a sequence beside its tokens.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    pub(super) rules: &'a Rules,
    pub(super) end_tokens: &'a [u32],
    /// Tokens that fit into the context after the prompt; `None` if the context is not known.
    pub(super) room: Option<u32>,
    /// Needed for stop strings alone.
    pub(super) tokenizer: Option<&'a Tokenizer>,
    /// How many tokens were emitted when the grammar was complete, if it was.
    pub(super) grammar_end: Option<usize>,
}

/// The end of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// Tokens emitted by then.
    pub(super) tokens: usize,
    /// Why.
    pub(super) reason: StopReason,
    /// For a stop string, how many bytes of the text stay.
    text_bytes: Option<usize>,
}

/// Where the tokens end the sequence first; `None` if they do not.
pub(super) fn ending(tokens: &[u32], limits: &Limits<'_>) -> Option<Ending> {
    let mut bytes = Vec::new();
    let mut text_length = 0;
    tokens.iter().zip(1..).find_map(|(&token, emitted)| {
        let end = |reason| Some(Ending { tokens: emitted, reason, text_bytes: None });
        let may_end = emitted >= limits.rules.min_tokens as usize;
        if may_end && !limits.rules.ignore_eos && limits.end_tokens.contains(&token) {
            return end(StopReason::EndToken(token));
        }
        if may_end && limits.rules.stop_token_ids.contains(&token) {
            return end(StopReason::StopToken(token));
        }
        if let Some(tokenizer) = limits.tokenizer.filter(|_| !limits.rules.stop.is_empty()) {
            append(&mut bytes, tokenizer, token);
            let text = complete_text(&bytes);
            let stop = first_stop(&text, text_length, &limits.rules.stop);
            text_length = text.len();
            if let Some((start, stop)) = stop.filter(|_| may_end) {
                let reason = StopReason::StopString(stop.to_owned());
                return Some(Ending { tokens: emitted, reason, text_bytes: Some(start) });
            }
        }
        if limits.rules.max_tokens.is_some_and(|most| emitted >= most as usize) {
            return end(StopReason::MaxTokens);
        }
        if limits.room.is_some_and(|room| emitted >= room as usize) {
            return end(StopReason::ContextFull);
        }
        if limits.grammar_end == Some(emitted) {
            return end(StopReason::GrammarEnd);
        }
        None
    })
}

/// The text of a sequence that ended so.
pub(super) fn text(tokens: &[u32], ending: &Ending, tokenizer: &Tokenizer) -> String {
    let ends_itself = matches!(ending.reason, StopReason::EndToken(_) | StopReason::StopToken(_));
    let shown = ending.tokens - usize::from(ends_itself);
    let mut text = lossy_text(tokens.get(..shown).unwrap_or(tokens), tokenizer);
    if let Some(length) = ending.text_bytes {
        text.truncate(length);
    }
    text
}

/// The text of tokens, bytes that are no UTF-8 replaced.
pub(super) fn lossy_text(tokens: &[u32], tokenizer: &Tokenizer) -> String {
    let mut bytes = Vec::new();
    tokens.iter().for_each(|&token| append(&mut bytes, tokenizer, token));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn append(bytes: &mut Vec<u8>, tokenizer: &Tokenizer, token: u32) {
    if !tokenizer.is_special(TokenId(token)) {
        bytes.extend_from_slice(tokenizer.token_bytes(TokenId(token)));
    }
}

/// The text so far, without a last character of which bytes are still to come.
fn complete_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        let may_go_on = || std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if !(invalid.is_empty() || chunks.peek().is_none() && may_go_on()) {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

/// The stop string that is complete first among those that end after byte `seen`; of several that end together the
/// longest. With it, where it starts.
fn first_stop<'a>(text: &str, seen: usize, stops: &'a [String]) -> Option<(usize, &'a str)> {
    (seen + 1..=text.len()).find_map(|end| {
        let complete = stops.iter().filter(|stop| text.as_bytes()[..end].ends_with(stop.as_bytes()));
        complete.max_by_key(|stop| stop.len()).map(|stop| (end - stop.len(), stop.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_string_that_is_complete_first_wins() {
        let stops = ["cde".to_owned(), "d".to_owned(), "bcd".to_owned()];
        assert_eq!(first_stop("abcdef", 0, &stops), Some((1, "bcd")));
        assert_eq!(first_stop("abcdef", 4, &stops), Some((2, "cde")));
        assert_eq!(first_stop("abcdef", 5, &stops), None);
    }

    #[test]
    fn an_incomplete_character_is_no_text_yet() {
        assert_eq!(complete_text(b"a\xc3"), "a");
        assert_eq!(complete_text(b"a\xc3\xa9"), "a\u{e9}");
        assert_eq!(complete_text(b"a\xff"), "a\u{fffd}");
        assert_eq!(complete_text(b"\xe2\x82x"), "\u{fffd}x");
    }
}
