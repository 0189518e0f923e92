//! An answer as text that calls are read from.

use serde_json::Value as Json;

use super::grammar::special_token;
use super::{ToolCall, ToolFormat};
use crate::model::{Tokenizer, incomplete_suffix};
use crate::types::TokenId;

/// An answer as text. Special tokens are spelled out in it, and where they stand is known.
///
/// A tag that the tokenizer has as a special token is that token alone: the same letters from ordinary tokens are text. Any
/// other tag is its letters, wherever they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spelled {
    text: String,
    /// Where special tokens begin, ascending.
    special: Vec<usize>,
    /// The tags that are special tokens.
    special_tags: Vec<&'static str>,
}

impl Spelled {
    /// Spells tokens out.
    pub fn new(tokens: &[TokenId], format: &dyn ToolFormat, tokenizer: &Tokenizer) -> Self {
        let (mut spelled, rest) = Self::whole_characters(tokens, format, tokenizer);
        spelled.text += &String::from_utf8_lossy(&rest);
        spelled
    }

    /// Spells the beginning of an answer out, without a last character that is incomplete.
    pub fn begun(tokens: &[TokenId], format: &dyn ToolFormat, tokenizer: &Tokenizer) -> Self {
        Self::whole_characters(tokens, format, tokenizer).0
    }

    /// The text up to a last character that is incomplete, and what there is of that.
    fn whole_characters(tokens: &[TokenId], format: &dyn ToolFormat, tokenizer: &Tokenizer) -> (Self, Vec<u8>) {
        let is_special = |tag: &&str| special_token(tag, tokenizer).is_some();
        let special_tags = format.tags().iter().copied().filter(is_special).collect();
        let mut spelled = Self { special_tags, ..Self::default() };
        let mut bytes = Vec::new();
        for &token in tokens {
            if tokenizer.is_special(token) {
                spelled.text += &String::from_utf8_lossy(&bytes);
                bytes.clear();
                spelled.special.push(spelled.text.len());
            }
            bytes.extend_from_slice(tokenizer.token_bytes(token));
        }
        let incomplete = bytes.split_off(bytes.len() - incomplete_suffix(&bytes));
        spelled.text += &String::from_utf8_lossy(&bytes);
        (spelled, incomplete)
    }

    /// A text in which no tag is a special token.
    pub fn of_text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Reads it from its beginning.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { spelled: self, at: 0 }
    }
}

/// Why there is no call after an opening tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCall {
    /// It has not the form of a call, so that where it ends is not known.
    Unformed(String),
    /// It is closed, but calls nothing that there is.
    Wrong(String),
}

/// What is read after an opening tag.
pub type ReadCall = Result<ToolCall, NoCall>;

/// A place in an answer.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    spelled: &'a Spelled,
    at: usize,
}

impl<'a> Reader<'a> {
    /// What was not read.
    pub(super) fn rest(&self) -> &'a str {
        &self.spelled.text[self.at..]
    }

    /// Goes over white space.
    pub(super) fn skip_space(&mut self) {
        self.at = self.spelled.text.len() - self.rest().trim_start().len();
    }

    /// Takes a text, if it stands here.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let stands_here = self.rest().starts_with(text);
        self.at += if stands_here { text.len() } else { 0 };
        stands_here
    }

    /// Takes a tag, if it stands here.
    pub(super) fn take_tag(&mut self, tag: &str) -> bool {
        let may_stand_here = !self.is_special(tag) || self.spelled.special.binary_search(&self.at).is_ok();
        may_stand_here && self.take(tag)
    }

    /// What stands before the next `text`, which is taken, too.
    pub(super) fn until(&mut self, text: &str) -> Option<&'a str> {
        let end = self.at + self.rest().find(text)?;
        Some(self.over(end, text))
    }

    /// What stands before the next such tag, which is taken, too.
    pub(super) fn until_tag(&mut self, tag: &str) -> Option<&'a str> {
        if !self.is_special(tag) {
            return self.until(tag);
        }
        let Spelled { text, special, .. } = self.spelled;
        let later = &special[special.partition_point(|place| *place < self.at)..];
        let end = later.iter().copied().find(|&place| text[place..].starts_with(tag))?;
        Some(self.over(end, tag))
    }

    /// Takes one JSON value.
    ///
    /// # Errors
    /// In words, if none stands here.
    pub(super) fn json(&mut self) -> Result<Json, String> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Json>();
        let value = values.next().ok_or("the answer ends there")?.map_err(|error| error.to_string())?;
        self.at += values.byte_offset();
        Ok(value)
    }

    /// Whether a tag is a special token.
    pub(super) fn is_special(&self, tag: &str) -> bool {
        self.spelled.special_tags.contains(&tag)
    }

    fn over(&mut self, end: usize, text: &str) -> &'a str {
        let before = &self.spelled.text[self.at..end];
        self.at = end + text.len();
        before
    }
}
