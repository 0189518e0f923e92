//! JSON that is still being written, in the spelling that it will have once it was read.

use serde_json::Value as Json;

/// What is certain of the value that `text` begins with: its compact spelling, without a number, word, character or escape
/// that may go on. Two entries of one name stay two.
pub(super) fn compact(text: &str) -> String {
    let mut compact = Compact { rest: text, depth: 0, told: String::new() };
    // What is no JSON is certain up to there.
    let _ = compact.value();
    compact.told
}

struct Compact<'a> {
    rest: &'a str,
    depth: usize,
    told: String,
}

impl Compact<'_> {
    /// Goes over one value; `None` where the text ends in it.
    fn value(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
            let first = self.rest.chars().next()?;
            match first {
                '"' => self.string()?,
                '{' | '[' => {
                    self.depth += 1;
                    self.take(first);
                }
                '}' | ']' => {
                    self.depth = self.depth.checked_sub(1)?;
                    self.take(first);
                }
                ',' | ':' => {
                    self.take(first);
                    continue;
                }
                _ => self.word()?,
            }
            if self.depth == 0 {
                return Some(());
            }
        }
    }

    fn take(&mut self, character: char) {
        self.told.push(character);
        self.rest = &self.rest[character.len_utf8()..];
    }

    /// A number, `true`, `false` or `null`, which is certain with what comes after it.
    fn word(&mut self) -> Option<()> {
        let end = self.rest.find([',', '}', ']', ':', '"', ' ', '\t', '\n', '\r'])?;
        let value: Json = serde_json::from_str(&self.rest[..end]).ok()?;
        self.told += &value.to_string();
        self.rest = &self.rest[end..];
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        self.take('"');
        loop {
            let (length, character) = character(self.rest)?;
            self.rest = &self.rest[length..];
            match character {
                Some(character) => self.told += &escaped(character.encode_utf8(&mut [0; 4])),
                None => {
                    self.told.push('"');
                    return Some(());
                }
            }
        }
    }
}

/// A text as it stands in a JSON string.
pub(super) fn escaped(text: &str) -> String {
    let quoted = Json::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The character that a string's text goes on with, with the bytes it takes; no character at the closing quote.
fn character(text: &str) -> Option<(usize, Option<char>)> {
    let first = text.chars().next()?;
    match first {
        '"' => return Some((1, None)),
        '\\' => {}
        _ => return Some((first.len_utf8(), Some(first))),
    }
    let unit = |at: usize| u16::from_str_radix(text.get(at..at + 4)?, 16).ok();
    let kind = text.chars().nth(1)?;
    let length = match kind {
        'u' => {
            let is_pair = (0xd800..0xdc00).contains(&unit(2)?);
            if is_pair { 12 } else { 6 }
        }
        _ => 1 + kind.len_utf8(),
    };
    let read: String = serde_json::from_str(&format!("\"{}\"", text.get(..length)?)).ok()?;
    Some((length, read.chars().next()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Every beginning of a text is certain of a beginning of what is read from all of it, and of all of it in the end.
    fn grows_to(text: &str, whole: &str) {
        let mut before = 0;
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let told = compact(&text[..end]);
            assert!(whole.starts_with(&told), "{told:?} of {:?} is no beginning of {whole:?}", &text[..end]);
            assert!(told.len() >= before, "{told:?} is less than before");
            before = told.len();
        }
        assert_eq!(compact(text), whole);
    }

    #[test]
    fn what_is_certain_is_a_beginning_of_what_will_be_read() {
        for text in [
            r#" { "a" : [ 1.50 , -0 , 1e3, 12345678901234567890 ] , "b": {"c" :null, "d": true } } "#,
            r#"{"text": "a\"\\\/\b\n \u00e9 \ud83d\ude00 😀 \u0007", "": ""}"#,
            r#"{}"#,
            r#"[[], {}]"#,
        ] {
            let text = text.replace("\\\\", "\\");
            let value: Json = serde_json::from_str(&text).expect("the test's JSON");
            grows_to(&text, &value.to_string());
        }
    }

    proptest! {
        #[test]
        fn of_any_strings_and_numbers(strings: Vec<String>, number: i64, fraction: f32) {
            let value = json!({"strings": strings, "number": number, "fraction": fraction});
            grows_to(&serde_json::to_string_pretty(&value).expect("JSON"), &value.to_string());
        }
    }
}
