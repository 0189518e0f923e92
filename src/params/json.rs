//! JSON objects whose members are seen as they were written: each with its text, and twice if it stands there twice.

use serde::de::Deserialize;
use serde_json::Value;

use super::error::RequestFault;
use super::read;

/// A JSON object, member by member.
#[derive(Debug)]
pub(super) struct Object<'a> {
    members: Vec<Member<'a>>,
}

/// One member of an object.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// Its name.
    pub name: String,
    /// Its value as written.
    pub text: &'a str,
    /// Its value.
    pub value: Value,
}

impl<'a> Object<'a> {
    /// Reads a text that is to hold one object and nothing else.
    pub fn parse(text: &'a str) -> Result<Self, RequestFault> {
        check_syntax(text)?;
        let object = text.trim_ascii();
        if !object.starts_with('{') {
            let value: Value = serde_json::from_str(text).map_err(syntax)?;
            return Err(RequestFault::NotAnObject { found: read::found(&value) });
        }
        let mut members: Vec<Member<'_>> = Vec::new();
        for (name, value) in raw_members(object) {
            let name: String = serde_json::from_str(name).map_err(syntax)?;
            if members.iter().any(|member| member.name == name) {
                return Err(RequestFault::Duplicate { field: name });
            }
            members.push(Member { name, text: value, value: serde_json::from_str(value).map_err(syntax)? });
        }
        Ok(Self { members })
    }

    /// The members in the order in which they stand.
    pub fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    /// The member of that name.
    pub fn get(&self, name: &str) -> Option<&Member<'a>> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The value of that name, unless it is `null`.
    pub fn given(&self, name: &str) -> Option<&Value> {
        self.get(name).map(|member| &member.value).filter(|value| !value.is_null())
    }
}

fn check_syntax(text: &str) -> Result<(), RequestFault> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // As a value, since the check for numbers out of range is made where a number is used.
    Value::deserialize(&mut deserializer).map_err(syntax)?;
    deserializer.end().map_err(|error| RequestFault::SecondValue { line: error.line(), column: error.column() })
}

fn syntax(error: serde_json::Error) -> RequestFault {
    let message = error.to_string();
    // The position is told by the fault itself.
    let message = message.rsplit_once(" at line ").map_or(message.clone(), |(words, _)| words.to_owned());
    RequestFault::Syntax { line: error.line(), column: error.column(), message }
}

/// Splits a well-formed object into the texts of its members.
fn raw_members(object: &str) -> Vec<(&str, &str)> {
    let mut members = Vec::new();
    let mut depth = 0;
    let mut in_string = false;
    let mut escaped = false;
    let (mut start, mut colon) = (1, None);
    for (index, byte) in object.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b':' if depth == 1 && colon.is_none() => colon = Some(index),
            b',' | b'}' | b']' => {
                if depth == 1
                    && let Some(colon) = colon.take()
                {
                    members.push((object[start..colon].trim_ascii(), object[colon + 1..index].trim_ascii()));
                    start = index + 1;
                }
                depth -= i32::from(byte != b',');
            }
            _ => {}
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_text() {
        let object = Object::parse(r#" {"a": 1.50, "b" :{"c":[1, "},{"]} ,"\u0064":"\\\"" } "#).unwrap();
        let texts: Vec<_> = object.members().iter().map(|member| (member.name.as_str(), member.text)).collect();
        assert_eq!(texts, [("a", "1.50"), ("b", r#"{"c":[1, "},{"]}"#), ("d", r#""\\\"""#)]);
    }

    #[test]
    fn an_empty_object_has_no_members() {
        assert!(Object::parse("{ }").unwrap().members().is_empty());
    }

    #[test]
    fn a_name_that_stands_there_twice_is_refused_even_when_it_is_spelled_differently() {
        let fault = Object::parse(r#"{"temperature": 0, "t\u0065mperature": 1}"#).unwrap_err();
        assert_eq!(fault, RequestFault::Duplicate { field: "temperature".to_owned() });
    }

    #[test]
    fn other_json_is_refused() {
        assert!(matches!(Object::parse("[1]"), Err(RequestFault::NotAnObject { .. })));
        assert_eq!(Object::parse("{} {}").unwrap_err(), RequestFault::SecondValue { line: 1, column: 4 });
        assert!(matches!(Object::parse(r#"{"a": NaN}"#), Err(RequestFault::Syntax { line: 1, column: 7, .. })));
        assert!(matches!(Object::parse(&"[".repeat(100_000)), Err(RequestFault::Syntax { .. })));
    }
}
