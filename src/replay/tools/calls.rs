//! The calls that an answer spells, whatever it was asked for.
//!
//! After an opening tag stands a call in the format's form, and its closing tag; white space between these is free. What is
//! in that form and calls nothing that there is, or has a free text that spells a tag, is no call. What is not in that form
//! is none either, and the next opening tag after its own begins anew.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::answer::is_limit;
use super::spelled::{Rest, Spelled};
use super::{
    CALL, Callable, END_CALL, END_FUNCTION, END_PARAMETER, FUNCTION, Format, PARAMETER, is_text, parameter,
    spells_a_tag,
};
use crate::tools::Tool;

/// What an opening tag opens.
pub(crate) struct Opened<'t> {
    pub(crate) follows: Follows<'t>,
    /// From after the opening tag to before the closing one, in bytes of the answer's text; empty of what has not the form.
    pub(crate) inside: Range<usize>,
    /// Where values of its arguments stand, or all of its JSON, as far as it could be read: of the last one there may be the
    /// beginning alone.
    pub(crate) values: Vec<Range<usize>>,
}

/// What follows an opening tag.
pub(crate) enum Follows<'t> {
    /// A call of a tool that there is, with its arguments.
    Call(&'t Tool, Map<String, Value>),
    /// What is in the form of a call, and is none.
    NoCall,
    /// What is not in the form of a call.
    Unformed(Unread),
}

/// Why it could not be read in the form of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The answer ends inside of its JSON.
    Cut,
    /// It has JSON that is past a limit of this reader.
    Beyond,
    /// It has not the form.
    Other,
}

/// The calls of an answer, as JSON: names, and arguments as compact JSON text.
pub(in crate::replay) fn calls_json(answer: &Spelled<'_>, format: Format, tools: &Callable<'_>) -> Value {
    let calls = opened(answer, format, tools).into_iter().filter_map(|opened| match opened.follows {
        Follows::Call(tool, arguments) => Some(call_json(&tool.name, arguments)),
        Follows::NoCall | Follows::Unformed(_) => None,
    });
    Value::Array(calls.collect())
}

/// A call as it is told.
pub(super) fn call_json(name: &str, arguments: Map<String, Value>) -> Value {
    json!({"name": name, "arguments": Value::Object(arguments).to_string()})
}

/// Everything that is opened as a call, in order; opening tags inside of what is in the form of a call open nothing.
pub(crate) fn opened<'t>(answer: &Spelled<'_>, format: Format, tools: &Callable<'t>) -> Vec<Opened<'t>> {
    let mut found = Vec::new();
    let mut rest = answer.whole();
    while rest.until_tag(CALL).is_some() {
        let start = rest.at();
        let mut reader = Reader { rest, values: Vec::new() };
        let read = match format {
            Format::Json => reader.json_call(tools),
            Format::Tagged => reader.tagged_call(tools),
        };
        let (follows, end) = match read {
            Ok(follows) => {
                rest = reader.rest;
                (follows, rest.at() - END_CALL.len())
            }
            Err(unread) => (Follows::Unformed(unread), start),
        };
        found.push(Opened { follows, inside: start..end, values: reader.values });
    }
    found
}

/// A place inside of a call, and the values before it.
struct Reader<'a> {
    rest: Rest<'a>,
    values: Vec<Range<usize>>,
}

type Read<T> = Result<T, Unread>;

impl<'a> Reader<'a> {
    fn json_call<'t>(&mut self, tools: &Callable<'t>) -> Read<Follows<'t>> {
        let object = self.json()?;
        self.rest.skip_space();
        self.tag(END_CALL)?;
        let tool = object.get("name").and_then(Value::as_str).and_then(|name| tools.named(name));
        let arguments = object.get("arguments").and_then(Value::as_object);
        Ok(match tool.zip(arguments) {
            Some((tool, arguments)) => Follows::Call(tool, arguments.clone()),
            None => Follows::NoCall,
        })
    }

    fn tagged_call<'t>(&mut self, tools: &Callable<'t>) -> Read<Follows<'t>> {
        self.rest.skip_space();
        self.tag(FUNCTION)?;
        let tool = tools.named(self.name()?).ok_or(Unread::Other)?;
        let (mut arguments, mut is_broken) = (Map::new(), false);
        loop {
            self.rest.skip_space();
            if self.rest.take_tag(END_FUNCTION).is_some() {
                break;
            }
            self.tag(PARAMETER)?;
            let key = self.name()?;
            let value = if is_text(parameter(tool, key).ok_or(Unread::Other)?) {
                let text = self.text()?;
                is_broken |= spells_a_tag(text);
                Value::from(text)
            } else {
                let value = self.json()?;
                self.rest.skip_space();
                self.tag(END_PARAMETER)?;
                value
            };
            if arguments.contains_key(key) {
                return Err(Unread::Other);
            }
            arguments.insert(key.to_owned(), value);
        }
        self.rest.skip_space();
        self.tag(END_CALL)?;
        Ok(if is_broken { Follows::NoCall } else { Follows::Call(tool, arguments) })
    }

    fn tag(&mut self, tag: &str) -> Read<()> {
        self.rest.take_tag(tag).ok_or(Unread::Other)
    }

    /// The rest of a tag that has a name in it.
    fn name(&mut self) -> Read<&'a str> {
        self.rest.until(">").ok_or(Unread::Other)
    }

    /// Free text, between line breaks that are no part of it. Its closing tag is a special token, or stands on a line of its
    /// own.
    fn text(&mut self) -> Read<&'a str> {
        // The line break of the opening tag; models leave it out.
        let _ = self.rest.take("\n");
        let start = self.rest.at();
        if !self.rest.is_special(END_PARAMETER) {
            let text = self.rest.until(&format!("\n{END_PARAMETER}\n")).ok_or(Unread::Other)?;
            self.values.push(start..start + text.len());
            return Ok(text);
        }
        let all = self.rest.text().len();
        let text = self.rest.until_tag(END_PARAMETER).map(|text| text.strip_suffix('\n').unwrap_or(text));
        self.values.push(start..start + text.map_or(all, str::len));
        text.ok_or(Unread::Other)
    }

    fn json(&mut self) -> Read<Value> {
        let (start, text) = (self.rest.at(), self.rest.text());
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        match values.next() {
            Some(Ok(value)) => {
                let length = values.byte_offset();
                self.rest.drop(length);
                self.values.push(start..start + length);
                Ok(value)
            }
            Some(Err(error)) => {
                self.values.push(start..start + json_before(&error, text));
                Err(match error.is_eof() {
                    true => Unread::Cut,
                    false if is_limit(&error) => Unread::Beyond,
                    false => Unread::Other,
                })
            }
            None => Err(Unread::Cut),
        }
    }
}

/// How many bytes of a text are the beginning of JSON, by the error that ended it. In these, `<` stands in strings alone.
fn json_before(error: &serde_json::Error, text: &str) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let bytes = lines.map(str::len).sum::<usize>() + error.column();
    text.floor_char_boundary(bytes)
}
