//! The calls that an answer's text spells.
//!
//! A call stands between `<tool_call>` and the next `</tool_call>`; one that another opening tag interrupts is none. What
//! is between the tags and does not have the format's form is no call either.

use serde_json::{Map, Value, json};

use super::{CALL, END_CALL, END_FUNCTION, END_PARAMETER, FUNCTION, Format, PARAMETER, is_text, parameter};
use crate::tools::Tool;

/// The calls of a text in which special tokens are spelled out, as JSON: names, and arguments as compact JSON text.
pub(in crate::replay) fn calls_json(text: &str, format: Format, tools: &[Tool]) -> Value {
    let mut calls = Vec::new();
    let mut text = Text(text);
    let mut opened = text.until(CALL).is_some();
    while opened {
        // As far as the next opening tag, this call has to be closed.
        let stretch = match text.until(CALL) {
            Some(stretch) => stretch,
            None => {
                opened = false;
                text.0
            }
        };
        let Some(inside) = Text(stretch).until(END_CALL) else { continue };
        let call = match format {
            Format::Json => json_call(inside, tools),
            Format::Tagged => tagged_call(inside, tools),
        };
        calls.extend(call);
    }
    Value::Array(calls)
}

fn call(name: &str, arguments: Map<String, Value>) -> Value {
    json!({"name": name, "arguments": Value::Object(arguments).to_string()})
}

fn named<'a>(name: &str, tools: &'a [Tool]) -> Option<&'a Tool> {
    tools.iter().find(|tool| tool.name == name)
}

fn json_call(inside: &str, tools: &[Tool]) -> Option<Value> {
    let Ok(Value::Object(mut object)) = serde_json::from_str(inside) else { return None };
    let Some(Value::Object(arguments)) = object.remove("arguments") else { return None };
    let tool = named(object.get("name")?.as_str()?, tools)?;
    Some(call(&tool.name, arguments))
}

/// Reads tag by tag; between tags stands white space alone.
fn tagged_call(inside: &str, tools: &[Tool]) -> Option<Value> {
    let mut text = Text(inside);
    text.skip_space();
    text.take(FUNCTION)?;
    let tool = named(text.until(">")?, tools)?;
    let mut arguments = Map::new();
    loop {
        text.skip_space();
        if text.take(END_FUNCTION).is_some() {
            text.skip_space();
            return text.0.is_empty().then(|| call(&tool.name, arguments));
        }
        text.take(PARAMETER)?;
        let key = text.until(">")?;
        let schema = parameter(tool, key)?;
        let mut value = text.until(END_PARAMETER)?;
        // The tags stand on lines of their own.
        value = value.strip_prefix('\n').unwrap_or(value);
        value = value.strip_suffix('\n').unwrap_or(value);
        let value = if is_text(schema) { Value::from(value) } else { serde_json::from_str(value).ok()? };
        if arguments.contains_key(key) {
            return None;
        }
        arguments.insert(key.to_owned(), value);
    }
}

/// What is left of a text.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn take(&mut self, expected: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// What stands before the next `end`; it is taken, too.
    fn until(&mut self, end: &str) -> Option<&'a str> {
        let (before, after) = self.0.split_once(end)?;
        self.0 = after;
        Some(before)
    }
}
