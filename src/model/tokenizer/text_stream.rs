//! Text of a growing token sequence, without ever splitting a character.

use crate::model::Tokenizer;
use crate::types::TokenId;

/// Turns tokens into text as they come: what it has returned, put together, is [`Tokenizer::decode`] of all of them.
#[derive(Clone, Debug, Default)]
pub struct TextStream {
    /// The beginning of a character whose rest has not come yet; at most 3 bytes.
    incomplete: Vec<u8>,
}

impl TextStream {
    /// An empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that is complete now that `token` has come: empty while a character is incomplete.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: TokenId) -> String {
        if tokenizer.is_special(token) {
            return String::new();
        }
        self.push_bytes(tokenizer.token_bytes(token))
    }

    /// The rest, once no token will come any more: U+FFFD for an incomplete character.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.incomplete)).into_owned()
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> String {
        self.incomplete.extend_from_slice(bytes);
        let complete = self.incomplete.len() - incomplete_suffix(&self.incomplete);
        let rest = self.incomplete.split_off(complete);
        let text = String::from_utf8_lossy(&self.incomplete).into_owned();
        self.incomplete = rest;
        text
    }
}

/// Length of the suffix that is the beginning of a character, and may yet become one.
pub(crate) fn incomplete_suffix(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let incomplete = !last.is_empty()
        && bytes.ends_with(last)
        && std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if incomplete { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_add_up_to_the_whole(pieces: Vec<Vec<u8>>, text: String, cut in 1_usize..5) {
            let texts = text.as_bytes().chunks(cut).map(<[u8]>::to_vec).collect::<Vec<_>>();
            for pieces in [pieces, texts] {
                let mut stream = TextStream::new();
                let mut all = pieces.iter().map(|piece| stream.push_bytes(piece)).collect::<String>();
                all.push_str(&stream.finish());
                prop_assert_eq!(all, String::from_utf8_lossy(&pieces.concat()).into_owned());
            }
        }
    }

    #[test]
    fn holds_back_an_incomplete_character_only() {
        let mut stream = TextStream::new();
        let [first, rest @ ..] = "é".as_bytes() else { panic!("two bytes") };
        assert_eq!(stream.push_bytes(&[b'a', *first]), "a");
        assert_eq!(stream.push_bytes(rest), "é");
        assert_eq!(stream.push_bytes(&[0xff]), "\u{fffd}");
        assert_eq!(stream.push_bytes(&[0xe2, 0x82]), "");
        assert_eq!(stream.push_bytes(b"x"), "\u{fffd}x");
        assert_eq!(stream.push_bytes(&[0xf0]), "");
        assert_eq!(stream.finish(), "\u{fffd}");
        assert_eq!(stream.finish(), "");
    }
}
