//! The calls that an answer spells, whatever it was asked for.
//!
//! After an opening tag stands a call in the format's form, and its closing tag; white space between these is free. What is
//! in that form and calls nothing that there is, or has a free text that spells a tag, is no call. What is not in that form
//! is none either, and the next opening tag after its own begins anew.

use serde_json::{Map, Value, json};

use super::spelled::{Rest, Spelled};
use super::{
    CALL, Callable, END_CALL, END_FUNCTION, END_PARAMETER, FUNCTION, Format, PARAMETER, is_text, parameter,
    spells_a_tag,
};

/// The calls of an answer, as JSON: names, and arguments as compact JSON text.
pub(in crate::replay) fn calls_json(answer: &Spelled<'_>, format: Format, tools: &Callable<'_>) -> Value {
    let mut calls = Vec::new();
    let mut rest = answer.whole();
    while rest.until_tag(CALL).is_some() {
        let mut inside = rest;
        let read = match format {
            Format::Json => json_call(&mut inside, tools),
            Format::Tagged => tagged_call(&mut inside, tools),
        };
        if let Some(call) = read {
            rest = inside;
            calls.extend(call);
        }
    }
    Value::Array(calls)
}

/// A call as it is told.
pub(super) fn call_json(name: &str, arguments: Map<String, Value>) -> Value {
    json!({"name": name, "arguments": Value::Object(arguments).to_string()})
}

/// `None` for what is not in the form, and no call for what calls nothing that there is.
fn json_call(rest: &mut Rest<'_>, tools: &Callable<'_>) -> Option<Option<Value>> {
    let object = value(rest)?;
    rest.skip_space();
    rest.take_tag(END_CALL)?;
    let name = object.get("name").and_then(Value::as_str).filter(|name| tools.contains(name));
    let arguments = object.get("arguments").and_then(Value::as_object);
    Some(name.zip(arguments).map(|(name, arguments)| call_json(name, arguments.clone())))
}

fn tagged_call(rest: &mut Rest<'_>, tools: &Callable<'_>) -> Option<Option<Value>> {
    rest.skip_space();
    rest.take_tag(FUNCTION)?;
    let tool = tools.named(rest.until(">")?)?;
    let (mut arguments, mut is_broken) = (Map::new(), false);
    loop {
        rest.skip_space();
        if rest.take_tag(END_FUNCTION).is_some() {
            break;
        }
        rest.take_tag(PARAMETER)?;
        let key = rest.until(">")?;
        let value = if is_text(parameter(tool, key)?) {
            let text = text(rest)?;
            is_broken |= spells_a_tag(text);
            Value::from(text)
        } else {
            let value = value(rest)?;
            rest.skip_space();
            rest.take_tag(END_PARAMETER)?;
            value
        };
        if arguments.contains_key(key) {
            return None;
        }
        arguments.insert(key.to_owned(), value);
    }
    rest.skip_space();
    rest.take_tag(END_CALL)?;
    Some((!is_broken).then(|| call_json(&tool.name, arguments)))
}

/// Free text, between line breaks that are no part of it. Its closing tag is a special token, or stands on a line of its own.
fn text<'a>(rest: &mut Rest<'a>) -> Option<&'a str> {
    // The line break of the opening tag; models leave it out.
    let _ = rest.take("\n");
    if rest.is_special(END_PARAMETER) {
        let text = rest.until_tag(END_PARAMETER)?;
        return Some(text.strip_suffix('\n').unwrap_or(text));
    }
    rest.until(&format!("\n{END_PARAMETER}\n"))
}

fn value(rest: &mut Rest<'_>) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(rest.text()).into_iter();
    let value = values.next()?.ok()?;
    rest.drop(values.byte_offset());
    Some(value)
}
