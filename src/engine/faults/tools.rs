//! Faults of reading calls.

use serde_json::{Map, Value};

use super::Fault;
use crate::tools::{Parsed, ToolCall};

/// Reads the calls of an answer wrongly.
pub fn misread(fault: Fault, mut parsed: Parsed) -> Parsed {
    let wrong: fn(Value) -> Value = match fault {
        Fault::TOOL_CALL_DROPPED => {
            parsed.calls.pop();
            return parsed;
        }
        Fault::ARGUMENTS_ESCAPED_TWICE => escaped,
        Fault::ARGUMENTS_AS_TEXT => as_text,
        _ => return parsed,
    };
    parsed.calls.iter_mut().for_each(|call| change(call, wrong));
    parsed
}

fn change(call: &mut ToolCall, wrong: fn(Value) -> Value) {
    if let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        let arguments: Map<String, Value> = arguments.into_iter().map(|(key, value)| (key, wrong(value))).collect();
        call.arguments = Value::Object(arguments).to_string();
    }
}

fn escaped(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.escape_default().to_string()),
        value => value,
    }
}

fn as_text(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text),
        value => Value::String(value.to_string()),
    }
}
