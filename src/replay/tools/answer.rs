//! Whether an answer is what a request with tools asked for, without the grammar that was to see to it.
//!
//! The form is the documented one, to the byte: a call stands on lines of its own between its tags, further calls follow on
//! the next line, and nothing comes after the last. Where a tag is a special token, only the token is the tag; elsewhere
//! its text is. An answer that was cut short has to be the beginning of such a one.

use serde_json::{Map, Value};

use super::arguments::fits;
use super::{CALL, END_CALL, END_FUNCTION, END_PARAMETER, FUNCTION, Format, PARAMETER, is_text, parameter};
use crate::model::Tokenizer;
use crate::tools::{Tool, ToolChoice, ToolUse};
use crate::types::TokenId;

/// An answer, and what was asked for.
pub(in crate::replay) struct Answer<'a> {
    /// Its tokens, without the one that ended it.
    pub(in crate::replay) tokens: &'a [u32],
    /// Whether it came to its end, and was not cut short.
    pub(in crate::replay) is_complete: bool,
    pub(in crate::replay) tools: &'a ToolUse,
    pub(in crate::replay) format: Format,
    pub(in crate::replay) tokenizer: &'a Tokenizer,
}

/// What is wrong with the answer: what was expected, and what stands there. `None` if nothing is.
pub(in crate::replay) fn breach(answer: &Answer<'_>) -> Option<(String, String)> {
    const SHOWN: usize = 60;
    let bytes = spelled(answer);
    let mut rest = Rest { answer, bytes: &bytes };
    let wrong = match rest.calls().err()? {
        Wrong::Cut(_) if !answer.is_complete => return None,
        Wrong::Cut(wrong) | Wrong::Breach(wrong) => wrong,
    };
    Some((wrong, format!("{} there", shown(&rest.bytes[..rest.bytes.len().min(SHOWN)]))))
}

/// Text as it can be read, without the marks of special tokens.
fn shown(bytes: &[u8]) -> String {
    let text: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != SPECIAL).collect();
    format!("{:?}", String::from_utf8_lossy(&text))
}

/// Stands before a tag that is a special token. No text has this byte.
const SPECIAL: u8 = 0xff;

/// The answer's text, each special token marked.
fn spelled(answer: &Answer<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &token in answer.tokens {
        if answer.tokenizer.is_special(TokenId(token)) {
            bytes.push(SPECIAL);
        }
        bytes.extend_from_slice(answer.tokenizer.token_bytes(TokenId(token)));
    }
    bytes
}

/// What is left of an answer.
struct Rest<'a> {
    answer: &'a Answer<'a>,
    bytes: &'a [u8],
}

/// What is wrong, as what was expected.
enum Wrong {
    /// Nothing but that the answer is over.
    Cut(String),
    Breach(String),
}

type Form<T> = Result<T, Wrong>;

fn breach_of<T>(expected: String) -> Form<T> {
    Err(Wrong::Breach(expected))
}

impl Rest<'_> {
    fn calls(&mut self) -> Form<()> {
        let open = self.tag(CALL);
        if self.answer.tools.choice == ToolChoice::Auto {
            match position(self.bytes, &open) {
                None => return Ok(()),
                Some(text) => self.drop(text),
            }
        }
        self.take(&open)?;
        loop {
            let (tool, arguments) = match self.answer.format {
                Format::Json => self.json_call()?,
                Format::Tagged => self.tagged_call()?,
            };
            fits(&Value::Object(arguments), &tool.parameters)
                .map_err(|wrong| Wrong::Breach(format!("a call of `{}` by its schema: {wrong}", tool.name)))?;
            if self.bytes.is_empty() {
                return Ok(());
            }
            if !self.answer.tools.parallel {
                return breach_of("nothing after the one call that the request allows".to_owned());
            }
            self.text("\n")?;
            self.take(&open)?;
        }
    }

    fn json_call(&mut self) -> Form<(Tool, Map<String, Value>)> {
        self.text("\n")?;
        let call = self.json()?;
        self.text("\n")?;
        self.take(&self.tag(END_CALL))?;
        let object = call.as_object().filter(|object| object.len() == 2);
        let name = object.and_then(|object| object.get("name")?.as_str());
        let arguments = object.and_then(|object| object.get("arguments")?.as_object());
        match (name, arguments) {
            (Some(name), Some(arguments)) => Ok((self.tool_named(name)?, arguments.clone())),
            _ => breach_of(format!("an object with `name`, a string, and `arguments`, an object, and not {call}")),
        }
    }

    fn tagged_call(&mut self) -> Form<(Tool, Map<String, Value>)> {
        self.text("\n")?;
        self.take(&self.tag(FUNCTION))?;
        let name = self.until(b">\n")?;
        let tool = self.tool_named(&name)?;
        let mut arguments = Map::new();
        loop {
            match self.take(&self.tag(PARAMETER)) {
                Ok(()) => {}
                Err(Wrong::Cut(expected)) => return Err(Wrong::Cut(expected)),
                Err(Wrong::Breach(_)) => break,
            }
            let key = self.until(b">\n")?;
            let schema = parameter(&tool, &key)
                .ok_or_else(|| Wrong::Breach(format!("a parameter of `{name}`, and not `{key}`")))?;
            let value = if is_text(schema) { Value::from(self.tagged_text(schema)?) } else { self.tagged_json()? };
            if arguments.insert(key.clone(), value).is_some() {
                return breach_of(format!("parameter `{key}` once"));
            }
        }
        self.take(&self.tag(END_FUNCTION))?;
        self.text("\n")?;
        self.take(&self.tag(END_CALL))?;
        Ok((tool, arguments))
    }

    fn tagged_json(&mut self) -> Form<Value> {
        let value = self.json()?;
        self.text("\n")?;
        self.take(&self.tag(END_PARAMETER))?;
        self.text("\n")?;
        Ok(value)
    }

    /// Free text up to its end; before a special token, a line break is text, too.
    fn tagged_text(&mut self, schema: &Value) -> Form<String> {
        let close = self.tag(END_PARAMETER);
        let is_free = schema.get("enum").is_none();
        let break_before: &[u8] = if is_free && close[0] == SPECIAL { b"" } else { b"\n" };
        self.until(&[break_before, &close, b"\n"].concat())
    }

    fn json(&mut self) -> Form<Value> {
        let mut values = serde_json::Deserializer::from_slice(self.bytes).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(error)) if !error.is_eof() => return breach_of(format!("JSON ({error})")),
            Some(Err(_)) | None => return Err(Wrong::Cut("JSON".to_owned())),
        };
        let length = values.byte_offset();
        self.drop(length);
        Ok(value)
    }

    fn tool_named(&self, name: &str) -> Form<Tool> {
        let tools = self.answer.tools;
        let is_callable = match &tools.choice {
            ToolChoice::Named(chosen) => chosen == name,
            _ => true,
        };
        let tool = tools.tools.iter().find(|tool| tool.name == name && is_callable);
        tool.cloned().ok_or_else(|| Wrong::Breach(format!("a tool that may be called, and not {name:?}")))
    }

    /// How the tokenizer spells a tag.
    fn tag(&self, text: &str) -> Vec<u8> {
        let tokenizer = self.answer.tokenizer;
        let is_special = tokenizer.token_id(text).is_some_and(|token| tokenizer.is_special(token));
        is_special.then_some(SPECIAL).into_iter().chain(text.bytes()).collect()
    }

    fn text(&mut self, expected: &str) -> Form<()> {
        self.take(expected.as_bytes())
    }

    fn take(&mut self, expected: &[u8]) -> Form<()> {
        if self.bytes.starts_with(expected) {
            self.drop(expected.len());
            return Ok(());
        }
        let wrong = if expected.starts_with(self.bytes) { Wrong::Cut } else { Wrong::Breach };
        Err(wrong(shown(expected)))
    }

    /// What stands before `end`, which is taken, too.
    fn until(&mut self, end: &[u8]) -> Form<String> {
        let at = position(self.bytes, end).ok_or_else(|| Wrong::Cut(format!("{} somewhere", shown(end))))?;
        let text = String::from_utf8_lossy(&self.bytes[..at]).into_owned();
        self.drop(at + end.len());
        Ok(text)
    }

    fn drop(&mut self, count: usize) {
        self.bytes = &self.bytes[count..];
    }
}

fn position(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}
