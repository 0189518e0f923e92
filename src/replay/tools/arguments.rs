//! Whether arguments are what a tool's schema asks for: a plain check of the common keywords of JSON Schema.
//!
//! What it does not know (references, patterns, formats) it does not judge, and says so.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Number, Value};

/// Most comparisons of a value with a schema that are spent on one answer: a file can ask for very many.
const MOST_WORK: u64 = 10_000_000;

/// Says that they are spent.
const TOO_MUCH: &str = "what takes more comparisons than replay spends on an answer";

/// Keywords that ask for nothing.
const ANNOTATIONS: [&str; 13] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "$defs",
    "definitions",
];

/// Judges arguments, and counts what it takes.
pub(crate) struct Judge {
    work: u64,
}

/// What was not judged of a value that fits as far as was judged: keywords, or [`TOO_MUCH`].
pub(crate) type NotJudged<'a> = BTreeSet<&'a str>;

/// What a value does not fit, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Wrong<'a> {
    /// From the inside to the outside.
    path: Vec<&'a str>,
    expected: Expected<'a>,
    found: &'a Value,
}

#[derive(Debug, PartialEq)]
enum Expected<'a> {
    Nothing,
    Const(&'a Value),
    Enum(&'a Value),
    Type(&'a Value),
    AnyOf,
    OneOf(usize),
    Key(&'a str),
    NoKey(&'a str),
    Bound(&'a str, &'a Value),
}

type Judged<'a> = Result<NotJudged<'a>, Wrong<'a>>;

impl Judge {
    pub(crate) fn new() -> Self {
        Self { work: 0 }
    }

    /// Comparisons so far.
    #[cfg(test)]
    pub(super) fn work(&self) -> u64 {
        self.work
    }

    /// Whether a value fits a schema.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn fits<'a>(&mut self, value: &'a Value, schema: &'a Value) -> Judged<'a> {
        if !self.spend(1) {
            return Ok(NotJudged::from([TOO_MUCH]));
        }
        let wrong = |expected| Err(Wrong { path: Vec::new(), expected, found: value });
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => return wrong(Expected::Nothing),
            _ => return Ok(NotJudged::new()),
        };
        // Whether keywords beside a reference count depends on the draft.
        if keywords.contains_key("$ref") {
            return Ok(NotJudged::from(["$ref"]));
        }
        let mut not_judged = NotJudged::new();
        for (keyword, asked) in keywords {
            let judged = match (keyword.as_str(), asked) {
                ("const", asked) if !self.same(asked, value) => return wrong(Expected::Const(asked)),
                ("enum", Value::Array(choices)) if !choices.iter().any(|choice| self.same(choice, value)) => {
                    return wrong(Expected::Enum(asked));
                }
                ("type", kind) if !is_one_of(value, kind) => return wrong(Expected::Type(kind)),
                ("const", _) | ("enum", Value::Array(_)) | ("type", Value::String(_) | Value::Array(_)) => continue,
                ("allOf", Value::Array(schemas)) => {
                    for schema in schemas {
                        not_judged.extend(self.fits(value, schema)?);
                    }
                    continue;
                }
                ("anyOf" | "oneOf", Value::Array(schemas)) => self.some_of(value, schemas, keyword == "oneOf"),
                ("required", Value::Array(keys)) => required(value, keys),
                ("properties", Value::Object(_)) => self.members(value, keywords),
                ("additionalProperties", asked) if !keywords.contains_key("properties") && is_schema(asked) => {
                    self.members(value, keywords)
                }
                ("additionalProperties", asked) if is_schema(asked) => continue,
                ("items", asked) if is_schema(asked) && !keywords.contains_key("prefixItems") => {
                    self.items(value, asked)
                }
                (_, Value::Number(bound)) => match bounded(value, keyword, bound) {
                    Some(true) => continue,
                    Some(false) => return wrong(Expected::Bound(keyword, asked)),
                    None => Ok(NotJudged::from([keyword.as_str()])),
                },
                (keyword, _) if ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-") => continue,
                _ => Ok(NotJudged::from([keyword.as_str()])),
            };
            not_judged.extend(judged?);
        }
        // Once everything is spent, what was not compared counts as equal.
        if self.is_spent() {
            not_judged.insert(TOO_MUCH);
        }
        Ok(not_judged)
    }

    fn some_of<'a>(&mut self, value: &'a Value, schemas: &'a [Value], only_one: bool) -> Judged<'a> {
        let (mut fitting, mut not_judged) = (0, NotJudged::new());
        for schema in schemas {
            match self.fits(value, schema) {
                Ok(unknown) if unknown.is_empty() && !only_one => return Ok(unknown),
                Ok(unknown) if unknown.is_empty() => fitting += 1,
                Ok(unknown) => not_judged.extend(unknown),
                Err(_) => {}
            }
        }
        let is_right = if only_one { fitting == 1 } else { fitting > 0 };
        match is_right || (fitting == 0 && !not_judged.is_empty()) {
            true => Ok(not_judged),
            false => {
                let expected = if only_one { Expected::OneOf(fitting) } else { Expected::AnyOf };
                Err(Wrong { path: Vec::new(), expected, found: value })
            }
        }
    }

    /// Each member by the schema of its key, or by the one of all others. Where keys have patterns too, which one it is is not
    /// known.
    fn members<'a>(&mut self, value: &'a Value, keywords: &'a Map<String, Value>) -> Judged<'a> {
        let mut not_judged = NotJudged::new();
        let named = keywords.get("properties").and_then(Value::as_object);
        let other = keywords.get("additionalProperties").filter(|_| !keywords.contains_key("patternProperties"));
        for (key, member) in value.as_object().into_iter().flatten() {
            let schema = named.and_then(|named| named.get(key));
            match (schema, other) {
                (None, Some(Value::Bool(false))) => {
                    return Err(Wrong { path: Vec::new(), expected: Expected::NoKey(key), found: value });
                }
                (Some(schema), _) | (None, Some(schema)) => {
                    let judged = self.fits(member, schema).map_err(|wrong| wrong.within(key));
                    not_judged.extend(judged?);
                }
                (None, None) => {}
            }
        }
        Ok(not_judged)
    }

    fn items<'a>(&mut self, value: &'a Value, schema: &'a Value) -> Judged<'a> {
        let mut not_judged = NotJudged::new();
        for item in value.as_array().into_iter().flatten() {
            not_judged.extend(self.fits(item, schema)?);
        }
        Ok(not_judged)
    }

    /// Whether there is no work left, so that what is equal or fits may not be.
    pub(crate) fn is_spent(&self) -> bool {
        self.work >= MOST_WORK
    }

    /// Equality of JSON values: numbers by value. Everything is equal once there is no work left.
    pub(crate) fn same(&mut self, a: &Value, b: &Value) -> bool {
        if !self.spend(1) {
            return true;
        }
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => order(a, b).is_none_or(Ordering::is_eq),
            (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same(a, b)),
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| self.same(a, b)))
            }
            (a, b) => a == b,
        }
    }

    fn spend(&mut self, work: u64) -> bool {
        let is_left = self.work < MOST_WORK;
        self.work += work;
        is_left
    }
}

impl<'a> Wrong<'a> {
    fn within(mut self, key: &'a str) -> Self {
        self.path.push(key);
        self
    }
}

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.iter().rev().try_for_each(|key| write!(formatter, "`{key}`: "))?;
        let found = self.found;
        match self.expected {
            Expected::Nothing => write!(formatter, "nothing at all, and not {found}"),
            Expected::Const(expected) | Expected::Type(expected) => write!(formatter, "{expected}, and not {found}"),
            Expected::Enum(choices) => write!(formatter, "one of {choices}, and not {found}"),
            Expected::AnyOf => write!(formatter, "one of the schemas of `anyOf`, and not {found}"),
            Expected::OneOf(count) => {
                write!(formatter, "one of the schemas of `oneOf`, and not {found}, which fits {count} of them")
            }
            Expected::Key(key) => write!(formatter, "the required key `{key}`"),
            Expected::NoKey(key) => write!(formatter, "no key `{key}`"),
            Expected::Bound(keyword, bound) => write!(formatter, "`{keyword}` {bound}, and not {found}"),
        }
    }
}

fn required<'a>(value: &'a Value, keys: &'a [Value]) -> Judged<'a> {
    let Value::Object(members) = value else { return Ok(NotJudged::new()) };
    match keys.iter().filter_map(Value::as_str).find(|key| !members.contains_key(*key)) {
        Some(key) => Err(Wrong { path: Vec::new(), expected: Expected::Key(key), found: value }),
        None => Ok(NotJudged::new()),
    }
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// Whether a value keeps to a bound; `None` for what is no bound, or cannot be told.
fn bounded(value: &Value, keyword: &str, bound: &Number) -> Option<bool> {
    let at_least = |order: Ordering| order.is_ge();
    let at_most = |order: Ordering| order.is_le();
    let number = |holds: fn(Ordering) -> bool| match value {
        Value::Number(number) => order(number, bound).map(holds),
        _ => Some(true),
    };
    let count = |count: Option<usize>, holds: fn(Ordering) -> bool| match count {
        Some(count) => order(&Number::from(count), bound).map(holds),
        None => Some(true),
    };
    let characters = || value.as_str().map(|text| text.chars().count());
    let items = || value.as_array().map(Vec::len);
    match keyword {
        "minimum" => number(at_least),
        "maximum" => number(at_most),
        "exclusiveMinimum" => number(Ordering::is_gt),
        "exclusiveMaximum" => number(Ordering::is_lt),
        "minLength" => count(characters(), at_least),
        "maxLength" => count(characters(), at_most),
        "minItems" => count(items(), at_least),
        "maxItems" => count(items(), at_most),
        _ => None,
    }
}

/// Which of two numbers is the greater; `None` where binary64 cannot tell.
fn order(a: &Number, b: &Number) -> Option<Ordering> {
    const EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return Some(a.cmp(&b));
    }
    let (a, b) = (a.as_f64()?, b.as_f64()?);
    match a.partial_cmp(&b) {
        Some(Ordering::Equal) if a.abs() >= EXACT => None,
        order => order,
    }
}

fn is_one_of(value: &Value, kind: &Value) -> bool {
    match kind {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(|kind| is_a(value, kind)),
        Value::String(kind) => is_a(value, kind),
        _ => true,
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
