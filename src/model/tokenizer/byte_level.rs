//! The byte-level alphabet of GPT-2: one printable character for each byte.

/// The byte that `character` stands for.
///
/// Printable bytes of Latin-1 stand for themselves; the others, in order, have the characters from U+0100 on.
fn byte_of(character: char) -> Option<u8> {
    const SHIFTED: u32 = 0x100;
    let code = u32::from(character);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u8::try_from(code).ok(),
        _ => unprintable().nth(code.checked_sub(SHIFTED)? as usize),
    }
}

/// Bytes that have no printable character of their own.
fn unprintable() -> impl Iterator<Item = u8> {
    (0..=0x20).chain(0x7f..=0xa0).chain([0xad])
}

/// The bytes of a token's text. A text outside the alphabet stands for itself, as in the library's decoder.
pub(super) fn bytes_of(text: &str) -> Box<[u8]> {
    text.chars().map(byte_of).collect::<Option<Box<[u8]>>>().unwrap_or_else(|| text.as_bytes().into())
}

/// The character that stands for `byte`.
pub(crate) fn character_of(byte: u8) -> char {
    match unprintable().position(|other| other == byte) {
        Some(index) => char::from_u32(0x100 + index as u32).unwrap_or('\u{fffd}'),
        None => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        for byte in 0..=u8::MAX {
            let text = character_of(byte).to_string();
            assert_eq!(*bytes_of(&text), [byte]);
        }
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        assert!((0..=u8::MAX).all(|byte| alphabet.contains(&character_of(byte))));
    }

    #[test]
    fn other_text_stands_for_itself() {
        assert_eq!(*bytes_of("[PAD 1]"), *b"[PAD 1]");
        assert_eq!(*bytes_of("Ġé"), [b' ', 0xe9]);
    }
}
