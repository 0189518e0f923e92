//! An answer as text, and where its tags stand.
//!
//! Where the tokenizer has a tag as a special token, only that token is the tag, and the same letters from other tokens are
//! text. Elsewhere its letters are the tag.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::model::Tokenizer;
use crate::types::TokenId;

/// An answer's text, special tokens spelled out.
pub(crate) struct Spelled<'a> {
    text: String,
    /// Where special tokens begin.
    special: BTreeSet<usize>,
    tokenizer: &'a Tokenizer,
}

/// What is left of an answer.
#[derive(Clone, Copy)]
pub(super) struct Rest<'a> {
    spelled: &'a Spelled<'a>,
    at: usize,
}

impl<'a> Spelled<'a> {
    pub(crate) fn new(tokens: &[u32], tokenizer: &'a Tokenizer) -> Self {
        let (mut text, mut special) = (String::new(), BTreeSet::new());
        // Bytes that are no text are replaced, up to each special token and after it.
        let is_special = |token: &u32| tokenizer.is_special(TokenId(*token));
        for stretch in tokens.chunk_by(|_, next| !is_special(next)) {
            if stretch.first().is_some_and(is_special) {
                special.insert(text.len());
            }
            let bytes: Vec<u8> =
                stretch.iter().flat_map(|&token| tokenizer.token_bytes(TokenId(token))).copied().collect();
            text += &String::from_utf8_lossy(&bytes);
        }
        Self { text, special, tokenizer }
    }

    pub(super) fn whole(&self) -> Rest<'_> {
        Rest { spelled: self, at: 0 }
    }

    /// Where this tag stands, ascending.
    pub(crate) fn places(&self, tag: &str) -> Vec<usize> {
        let stands_at = |place: &usize| self.text[*place..].starts_with(tag);
        match self.is_special(tag) {
            true => self.special.iter().copied().filter(stands_at).collect(),
            false => self.text.match_indices(tag).map(|(place, _)| place).collect(),
        }
    }

    /// Whether a stretch has the letters of one of these tags, from other tokens than the special one of that name.
    pub(crate) fn has_letters_of(&self, tags: &[&str], stretch: Range<usize>) -> bool {
        let Some(text) = self.text.get(stretch.clone()) else { return false };
        let is_ordinary = |(place, _): (usize, &str)| !self.special.contains(&(stretch.start + place));
        tags.iter().any(|tag| text.match_indices(tag).any(is_ordinary))
    }

    /// Whether the tokenizer has this tag as a special token.
    pub(crate) fn is_special(&self, tag: &str) -> bool {
        self.tokenizer.token_id(tag).is_some_and(|token| self.tokenizer.is_special(token))
    }
}

impl<'a> Rest<'a> {
    /// Where it begins.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn text(&self) -> &'a str {
        &self.spelled.text[self.at..]
    }

    pub(super) fn is_special(&self, tag: &str) -> bool {
        self.spelled.is_special(tag)
    }

    pub(super) fn drop(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn skip_space(&mut self) {
        let text = self.text();
        self.drop(text.len() - text.trim_start().len());
    }

    /// Takes a text; `None`, and nothing is taken, if another one stands here.
    pub(super) fn take(&mut self, expected: &str) -> Option<()> {
        self.text().starts_with(expected).then(|| self.drop(expected.len()))
    }

    pub(super) fn take_tag(&mut self, tag: &str) -> Option<()> {
        if self.is_special(tag) && !self.spelled.special.contains(&self.at) {
            return None;
        }
        self.take(tag)
    }

    /// What stands before the next `end`; it is taken, too.
    pub(super) fn until(&mut self, end: &str) -> Option<&'a str> {
        let (before, _) = self.text().split_once(end)?;
        self.drop(before.len() + end.len());
        Some(before)
    }

    pub(super) fn until_tag(&mut self, tag: &str) -> Option<&'a str> {
        if !self.is_special(tag) {
            return self.until(tag);
        }
        let (text, start) = (&self.spelled.text, self.at);
        let place = self.spelled.special.range(start..).copied().find(|&place| text[place..].starts_with(tag))?;
        self.at = place + tag.len();
        Some(&text[start..place])
    }
}
