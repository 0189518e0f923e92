//! Answers that are still being written: what is certain of them, so that it can be sent.

use super::{CLOSE, NoCall, OPEN, Spelled, Tool, ToolCall, ToolFormat};

/// What is certain of an answer so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// The text before the first call, once one has begun.
    pub content: Option<String>,
    /// The calls so far, in order.
    pub calls: Vec<BegunCall>,
}

/// A call so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunCall {
    /// Its name, and its arguments as far as they are certain.
    pub call: ToolCall,
    /// Whether that is all of it.
    pub is_whole: bool,
}

/// Reads the beginning of an answer. What [`parse`](super::parse) reads from the whole answer has the same calls as far as they
/// are whole, and the last one goes on as it begins here, unless it turns out to be broken.
pub fn begun(answer: &Spelled, format: &dyn ToolFormat, tools: &[Tool]) -> Begun {
    let mut reader = answer.reader();
    let mut begun = Begun::default();
    while let Some(before) = reader.until_tag(OPEN) {
        begun.content.get_or_insert_with(|| before.trim_end().to_owned());
        let start = reader;
        match format.read(&mut reader, tools) {
            Ok(call) => begun.calls.push(BegunCall { call, is_whole: true }),
            Err(NoCall::Wrong(_)) => {}
            Err(NoCall::Unformed(_)) => {
                begun.calls.extend(format.begun(start, tools).map(|call| BegunCall { call, is_whole: false }));
                break;
            }
        }
    }
    begun
}

/// Bytes at the end of a text that may be the beginning of one of `marks`, or of white space that is cut before a call.
pub(super) fn uncertain(text: &str, marks: &[&str]) -> usize {
    let of_mark = |mark: &&str| {
        let most = text.len().min(mark.len().saturating_sub(1));
        (1..=most).rev().find(|&length| text.as_bytes().ends_with(&mark.as_bytes()[..length])).unwrap_or(0)
    };
    marks.iter().map(of_mark).max().unwrap_or(0)
}

impl Begun {
    /// How much of a text without calls is certain to stay text: not white space at its end, nor what may become a tag.
    pub fn certain_text(text: &str) -> &str {
        let end = text.len() - uncertain(text, &[OPEN, CLOSE]);
        text[..end].trim_end()
    }
}

#[cfg(test)]
mod tests;
