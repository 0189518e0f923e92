//! Whether an answer is what a request with tools asked for, without the grammar that was to see to it, and what it calls.
//!
//! The form is the documented one, to the byte: a call stands on lines of its own between its tags, further calls follow on
//! the next line, and nothing comes after the last. An answer that was cut short has to be the beginning of such a one.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::arguments::Judge;
use super::calls::call_json;
use super::spelled::{Rest, Spelled};
use super::{
    CALL, Callable, END_CALL, END_FUNCTION, END_PARAMETER, FUNCTION, Format, PARAMETER, is_text, listed_texts,
    parameter, spells_a_tag,
};
use crate::capture::records::{Admission, StopReason};
use crate::tools::{Tool, ToolChoice, ToolUse};

/// An answer, and what was asked for.
pub(in crate::replay) struct Answer<'a> {
    /// Its tokens, without the one that ended it.
    pub(in crate::replay) spelled: &'a Spelled<'a>,
    /// Whether it came to its end, and was not cut short.
    pub(in crate::replay) is_complete: bool,
    pub(in crate::replay) tools: &'a ToolUse,
    pub(in crate::replay) callable: &'a Callable<'a>,
    pub(in crate::replay) format: Format,
}

/// The tokens of a choice without what ended it: an end token is no part of an answer, whatever else ended it there, and a
/// stop token is none where it did.
pub(crate) fn without_end<'a>(emitted: &'a [u32], end_tokens: &[u32], stop: Option<&StopReason>) -> &'a [u32] {
    match emitted.split_last() {
        Some((last, told)) if end_tokens.contains(last) || matches!(stop, Some(StopReason::StopToken(_))) => told,
        _ => emitted,
    }
}

/// Where the answer begins: at once, or after a reasoning section; `None` if the choice ended before.
pub(crate) fn begins(admission: &Admission, emitted: &[u32]) -> Option<usize> {
    match admission.constraint.as_ref().and_then(|constraint| constraint.begins_after) {
        None => Some(0),
        Some(end) => emitted.iter().position(|token| *token == end).map(|index| index + 1),
    }
}

/// What an answer comes to.
#[derive(Debug)]
pub(in crate::replay) enum Judgement {
    /// It is what was asked for, as far as it goes.
    AsAsked {
        /// What it calls, as it is told; `None` of an answer that was cut short.
        calls: Option<Value>,
        /// What was not judged of it, in words; empty if all was.
        not_judged: BTreeSet<String>,
    },
    /// It is not.
    Breach {
        /// What was expected where it goes wrong.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// It has what this reader cannot read, in words.
    Beyond(String),
}

/// Judges an answer.
pub(in crate::replay) fn judge(answer: &Answer<'_>) -> Judgement {
    let mut reader = Reader {
        answer,
        rest: answer.spelled.whole(),
        judge: Judge::new(),
        calls: Vec::new(),
        not_judged: BTreeSet::new(),
    };
    let read = reader.calls();
    let Reader { rest, calls, mut not_judged, .. } = reader;
    match read {
        Ok(()) => {
            let calls = answer.is_complete.then_some(Value::Array(calls));
            Judgement::AsAsked { calls, not_judged }
        }
        Err(Stop::Cut(_, not_judged_there)) if !answer.is_complete => {
            not_judged.extend(not_judged_there.map(str::to_owned));
            Judgement::AsAsked { calls: None, not_judged }
        }
        Err(Stop::Cut(expected, _) | Stop::Breach(expected)) => {
            Judgement::Breach { expected, found: format!("{:?} there", beginning(rest.text())) }
        }
        Err(Stop::Beyond(what)) => Judgement::Beyond(what),
    }
}

fn beginning(text: &str) -> &str {
    const SHOWN: usize = 60;
    &text[..text.floor_char_boundary(SHOWN)]
}

/// Why there is nothing further to read.
enum Stop {
    /// The answer is over. With what was expected, and what of its last call was not judged.
    Cut(String, Option<&'static str>),
    /// Something else stands there than was expected.
    Breach(String),
    /// What stands there is more than this reader reads.
    Beyond(String),
}

type Form<T> = Result<T, Stop>;

fn breach<T>(expected: String) -> Form<T> {
    Err(Stop::Breach(expected))
}

struct Reader<'a> {
    answer: &'a Answer<'a>,
    rest: Rest<'a>,
    judge: Judge,
    calls: Vec<Value>,
    not_judged: BTreeSet<String>,
}

/// A call, and whether a text in it spells a tag, so that nobody reads it.
struct Read<'a> {
    tool: &'a Tool,
    arguments: Map<String, Value>,
    is_broken: bool,
}

impl<'a> Reader<'a> {
    fn calls(&mut self) -> Form<()> {
        if self.answer.tools.choice == ToolChoice::Auto {
            let mut text = self.rest;
            match text.until_tag(CALL) {
                None => return Ok(()),
                Some(text) => self.rest.drop(text.len()),
            }
        }
        self.tag(CALL)?;
        loop {
            let Read { tool, arguments, is_broken } = match self.answer.format {
                Format::Json => self.json_call()?,
                Format::Tagged => self.tagged_call()?,
            };
            let arguments = Value::Object(arguments);
            let fits = self.judge.fits(&arguments, &tool.parameters);
            let unknown =
                fits.map_err(|wrong| Stop::Breach(format!("a call of `{}` by its schema: {wrong}", tool.name)))?;
            self.not_judged.extend(unknown.into_iter().map(str::to_owned));
            if let (Value::Object(arguments), false) = (arguments, is_broken) {
                self.calls.push(call_json(&tool.name, arguments));
            }
            if self.rest.text().is_empty() {
                return Ok(());
            }
            if !self.answer.tools.parallel {
                return breach("nothing after the one call that the request allows".to_owned());
            }
            self.text("\n")?;
            self.tag(CALL)?;
        }
    }

    fn json_call(&mut self) -> Form<Read<'a>> {
        self.text("\n")?;
        let begins = self.rest.text();
        let call = match self.json() {
            Err(Stop::Cut(expected, _)) => {
                // The name comes first, and what there is of it has to be that of a tool.
                if let Some(name) = name_so_far(begins) {
                    self.one_of(name, "\"", self.names(), "a tool that may be called")?;
                }
                return Err(Stop::Cut(expected, Some("the JSON of a call that was cut short")));
            }
            call => call?,
        };
        self.text("\n")?;
        self.tag(END_CALL)?;
        let object = call.as_object().filter(|object| object.len() == 2);
        let name = object.and_then(|object| object.get("name")?.as_str());
        let arguments = object.and_then(|object| object.get("arguments")?.as_object());
        match (name, arguments) {
            (Some(name), Some(arguments)) => {
                Ok(Read { tool: self.tool_named(name)?, arguments: arguments.clone(), is_broken: false })
            }
            _ => breach(format!(
                "an object with `name`, a string, and `arguments`, an object, and not {}",
                beginning(&call.to_string())
            )),
        }
    }

    fn tagged_call(&mut self) -> Form<Read<'a>> {
        self.text("\n")?;
        self.tag(FUNCTION)?;
        let name = self.name(">\n", self.names(), "a tool that may be called")?;
        let tool = self.tool_named(name)?;
        let (mut arguments, mut is_broken) = (Map::new(), false);
        loop {
            match self.tag(PARAMETER) {
                Ok(()) => {}
                Err(Stop::Breach(_)) => break,
                Err(stop) => return Err(stop),
            }
            let keys = tool.parameters["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
            let key = self.name(">\n", keys, "a parameter of the tool")?;
            let schema = parameter(tool, key)
                .ok_or_else(|| Stop::Breach(format!("a parameter of `{name}`, and not {:?}", beginning(key))))?;
            let value = if is_text(schema) {
                let text = self.tagged_text(schema)?;
                is_broken |= spells_a_tag(text);
                Value::from(text)
            } else {
                self.tagged_json()?
            };
            if arguments.insert(key.to_owned(), value).is_some() {
                return breach(format!("parameter `{key}` once"));
            }
        }
        self.tag(END_FUNCTION)?;
        self.text("\n")?;
        self.tag(END_CALL)?;
        Ok(Read { tool, arguments, is_broken })
    }

    fn tagged_json(&mut self) -> Form<Value> {
        let value = self.json().map_err(|stop| match stop {
            Stop::Cut(expected, _) => Stop::Cut(expected, Some("the JSON of a parameter that was cut short")),
            stop => stop,
        })?;
        self.text("\n")?;
        self.tag(END_PARAMETER)?;
        self.text("\n")?;
        Ok(value)
    }

    /// Text up to its closing tag. The line break before the tag is no part of it; where the text is free and the tag is a
    /// special token, there may be none.
    fn tagged_text(&mut self, schema: &Value) -> Form<&'a str> {
        if !self.rest.is_special(END_PARAMETER) {
            let end = format!("\n{END_PARAMETER}\n");
            return match listed_texts(schema) {
                Some(texts) => self.name(&end, texts, "one of the texts that the parameter lists"),
                None => self.rest.until(&end).ok_or_else(|| Stop::Cut(format!("{end:?} somewhere"), None)),
            };
        }
        let Some(text) = self.rest.until_tag(END_PARAMETER) else {
            return Err(Stop::Cut(format!("{END_PARAMETER:?} somewhere"), None));
        };
        self.text("\n")?;
        match (text.strip_suffix('\n'), listed_texts(schema)) {
            (Some(text), _) => Ok(text),
            (None, None) => Ok(text),
            (None, Some(_)) => breach(format!("a line break before {END_PARAMETER:?}")),
        }
    }

    fn json(&mut self) -> Form<Value> {
        let mut values = serde_json::Deserializer::from_str(self.rest.text()).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let length = values.byte_offset();
                self.rest.drop(length);
                Ok(value)
            }
            Some(Err(error)) if error.is_eof() => Err(Stop::Cut("JSON".to_owned(), None)),
            None => Err(Stop::Cut("JSON".to_owned(), None)),
            Some(Err(error)) if is_limit(&error) => Err(Stop::Beyond(format!("JSON ({error})"))),
            Some(Err(error)) => breach(format!("JSON ({error})")),
        }
    }

    fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let Answer { tools, callable, .. } = self.answer;
        callable.names().filter(|name| may_call(tools, name))
    }

    fn tool_named(&self, name: &str) -> Form<&'a Tool> {
        let Answer { tools, callable, .. } = self.answer;
        let tool = callable.named(name).filter(|_| may_call(tools, name));
        tool.ok_or_else(|| Stop::Breach(format!("a tool that may be called, and not {:?}", beginning(name))))
    }

    /// What stands before `end`, which is taken, too; what was cut short has to be the beginning of one of `names`.
    fn name<'n>(&mut self, end: &str, names: impl IntoIterator<Item = &'n str>, what: &str) -> Form<&'a str> {
        match self.rest.until(end) {
            Some(name) => Ok(name),
            None => {
                self.one_of(self.rest.text(), end, names, what)?;
                Err(Stop::Cut(format!("{end:?} somewhere"), None))
            }
        }
    }

    /// Whether a text that was cut short begins as one of `names` with `end` after it.
    fn one_of<'n>(&self, begun: &str, end: &str, names: impl IntoIterator<Item = &'n str>, what: &str) -> Form<()> {
        let begins = |name: &str| match begun.strip_prefix(name) {
            Some(after) => end.starts_with(after) || after.starts_with(end),
            None => name.starts_with(begun),
        };
        match names.into_iter().any(begins) {
            true => Ok(()),
            false => breach(format!("{what}, and not {:?}", beginning(begun))),
        }
    }

    fn tag(&mut self, tag: &str) -> Form<()> {
        match self.rest.take_tag(tag) {
            Some(()) => Ok(()),
            // A special token is there or it is not.
            None if self.rest.is_special(tag) => self.otherwise("", tag),
            None => self.otherwise(tag, tag),
        }
    }

    fn text(&mut self, expected: &str) -> Form<()> {
        match self.rest.take(expected) {
            Some(()) => Ok(()),
            None => self.otherwise(expected, expected),
        }
    }

    /// Something else than `expected` stands there: the end of the answer, unless it cannot go on to be `text`.
    fn otherwise(&self, text: &str, expected: &str) -> Form<()> {
        let rest = self.rest.text();
        let expected = format!("{expected:?}");
        Err(if text.starts_with(rest) { Stop::Cut(expected, None) } else { Stop::Breach(expected) })
    }
}

/// Whether the request allows a tool of this name to be called, if there is one.
pub(crate) fn may_call(tools: &ToolUse, name: &str) -> bool {
    match &tools.choice {
        ToolChoice::Named(chosen) => chosen == name,
        _ => true,
    }
}

/// Whether JSON is refused for a limit of the library's, and not for its form.
pub(super) fn is_limit(error: &serde_json::Error) -> bool {
    let message = error.to_string();
    ["number out of range", "recursion limit exceeded"].iter().any(|limit| message.starts_with(limit))
}

/// What there is of the name in JSON that was cut short; `None` if it does not begin with a name.
fn name_so_far(json: &str) -> Option<&str> {
    let json = json.trim_start().strip_prefix('{')?.trim_start().strip_prefix("\"name\"")?;
    json.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')
}
