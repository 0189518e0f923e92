//! The `tojson` filter, which writes what Python's `json.dumps` writes.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::Value as Json;

/// `value | tojson(indent=, separators=, ensure_ascii=, sort_keys=)`.
pub(super) fn to_json(state: &State, value: Value, options: Kwargs) -> Result<Value, Error> {
    let indent = options.get::<Option<usize>>("indent")?;
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (item_separator, key_separator) = match (separators.as_deref(), indent) {
        (Some([item, key]), _) => (item.clone(), key.clone()),
        (Some(_), _) => {
            let detail = "tojson: expected two separators, for items and for keys";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        (None, Some(_)) => (",".to_owned(), ": ".to_owned()),
        (None, None) => (", ".to_owned(), ": ".to_owned()),
    };
    let writer = Writer {
        item_separator,
        key_separator,
        indent,
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    check(state, &value, DEEPEST)?;
    let json = serde_json::to_value(&value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, "tojson: not a JSON value").with_source(error))?;
    let mut out = String::new();
    writer.value(&json, 0, &mut out);
    Ok(Value::from_safe_string(out))
}

/// Deepest nesting of what is written; that of a request has the same bound.
const DEEPEST: usize = 128;

/// Refuses what is nested too deep, and charges for every value: a template can make two values of one, again and again.
pub(super) fn check(state: &State, value: &Value, levels: usize) -> Result<(), Error> {
    state.consume_fuel(1)?;
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
        return Ok(());
    }
    let Some(levels) = levels.checked_sub(1) else {
        let detail = format!("tojson: the value is nested more than {DEEPEST} deep");
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    };
    let is_map = value.kind() == ValueKind::Map;
    value.try_iter()?.try_for_each(|item| check(state, &if is_map { value.get_item(&item)? } else { item }, levels))
}

/// How the text is laid out.
struct Writer {
    item_separator: String,
    key_separator: String,
    /// Spaces per level; everything on one line without.
    indent: Option<usize>,
    ascii: bool,
    sort_keys: bool,
}

impl Writer {
    fn value(&self, value: &Json, level: usize, out: &mut String) {
        match value {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) => out.push_str(&python_float(float)),
                None => out.push_str(&number.to_string()),
            },
            Json::String(text) => self.text(text, out),
            Json::Array(items) => {
                let write = |item: &Json, out: &mut String| self.value(item, level + 1, out);
                self.collection(['[', ']'], items.iter(), write, level, out);
            }
            Json::Object(fields) => {
                let mut fields = fields.iter().collect::<Vec<_>>();
                if self.sort_keys {
                    fields.sort_by_key(|(name, _)| *name);
                }
                let write = |(name, value): (&String, &Json), out: &mut String| {
                    self.text(name, out);
                    out.push_str(&self.key_separator);
                    self.value(value, level + 1, out);
                };
                self.collection(['{', '}'], fields.into_iter(), write, level, out);
            }
        }
    }

    fn collection<T>(
        &self,
        [open, close]: [char; 2],
        items: impl ExactSizeIterator<Item = T>,
        write: impl Fn(T, &mut String),
        level: usize,
        out: &mut String,
    ) {
        out.push(open);
        let empty = items.len() == 0;
        for (index, item) in items.enumerate() {
            if index > 0 {
                out.push_str(&self.item_separator);
            }
            self.new_line(level + 1, out);
            write(item, out);
        }
        if !empty {
            self.new_line(level, out);
        }
        out.push(close);
    }

    fn new_line(&self, level: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent.saturating_mul(level).min(LONGEST_INDENT)));
        }
    }

    fn text(&self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\0'..='\u{1f}' => push_escaped(character, out),
                '\u{7f}'.. if self.ascii && character != '\u{7f}' => push_escaped(character, out),
                _ => out.push(character),
            }
        }
        out.push('"');
    }
}

/// A template cannot make us write more than this many spaces for one line.
const LONGEST_INDENT: usize = 1 << 10;

fn push_escaped(character: char, out: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// Python's `repr` of a float: the shortest digits, in scientific form from 1e16 on and below 1e-4.
fn python_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent = exponent.parse::<i32>().unwrap_or(0);
    if number == 0.0 || (-4..16).contains(&exponent) {
        let plain = number.to_string();
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (number, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456.789, "123456.789"),
        ] {
            assert_eq!(python_float(number), text);
        }
    }
}
