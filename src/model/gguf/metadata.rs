//! The key-value pairs at the head of a GGUF file.

use std::collections::BTreeMap;

use super::cursor::{Cursor, malformed};
use crate::model::error::Problem;
use crate::types::TokenId;

/// Bytes of the smallest pair: an empty key, a type and a one-byte value.
pub(super) const SMALLEST_PAIR: usize = 8 + 4 + 1;
/// Longest key that the format allows.
const LONGEST_KEY: usize = 65_535;
/// Most array elements in all of a file: several times the largest vocabularies with their merges, and a bound on the
/// memory that a hostile file can make us use.
const MOST_ELEMENTS: usize = 1 << 22;

/// A metadata value. Integers and floats are widened; which width a writer chose makes no difference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Array(Array),
}

/// An array of one type. Arrays of arrays, which no model uses, are refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Array {
    Unsigned(Vec<u64>),
    Signed(Vec<i64>),
    Float(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<String>),
}

/// All pairs of a file, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata(BTreeMap<String, Value>);

impl Metadata {
    pub(super) fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Self, Problem> {
        let mut pairs = BTreeMap::new();
        let mut elements_left = MOST_ELEMENTS;
        for _ in 0..count {
            let start = cursor.offset();
            let key = cursor.text("metadata key")?;
            if key.len() > LONGEST_KEY {
                return Err(malformed(start, "metadata key", format!("at most {LONGEST_KEY} bytes"), key.len()));
            }
            let value = read_value(cursor, key, &mut elements_left)?;
            if pairs.insert(key.to_owned(), value).is_some() {
                return Err(malformed(start, "metadata key", "each key once", format!("{key:?} again")));
            }
        }
        Ok(Self(pairs))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of `key` through `convert`; an error where it is there but of another type.
    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.get(key) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| Problem::setting(key, expected, value.describe()))
    }

    pub(crate) fn unsigned(&self, key: &str) -> Result<Option<u64>, Problem> {
        self.typed(key, "an unsigned integer", |value| match value {
            Value::Unsigned(number) => Some(*number),
            Value::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        })
    }

    pub(crate) fn size(&self, key: &str) -> Result<Option<usize>, Problem> {
        let Some(number) = self.unsigned(key)? else { return Ok(None) };
        usize::try_from(number).map(Some).map_err(|_| Problem::setting(key, "a size", number.to_string()))
    }

    pub(crate) fn token(&self, key: &str) -> Result<Option<TokenId>, Problem> {
        let Some(number) = self.unsigned(key)? else { return Ok(None) };
        let id = u32::try_from(number).map_err(|_| Problem::setting(key, "a token id", number.to_string()))?;
        Ok(Some(TokenId(id)))
    }

    pub(crate) fn float(&self, key: &str) -> Result<Option<f64>, Problem> {
        self.typed(key, "a number", |value| match value {
            Value::Float(number) => Some(*number),
            _ => None,
        })
    }

    pub(crate) fn boolean(&self, key: &str) -> Result<Option<bool>, Problem> {
        self.typed(key, "true or false", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, Problem> {
        self.typed(key, "a string", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Option<&[String]>, Problem> {
        self.typed(key, "an array of strings", |value| match value {
            Value::Array(Array::Text(texts)) => Some(texts.as_slice()),
            _ => None,
        })
    }

    /// An array of non-negative integers, of whatever integer type.
    pub(crate) fn sizes(&self, key: &str) -> Result<Option<Vec<usize>>, Problem> {
        self.typed(key, "an array of sizes", |value| match value {
            Value::Array(Array::Unsigned(numbers)) => {
                numbers.iter().map(|number| usize::try_from(*number).ok()).collect()
            }
            Value::Array(Array::Signed(numbers)) => {
                numbers.iter().map(|number| usize::try_from(*number).ok()).collect()
            }
            _ => None,
        })
    }
}

impl FromIterator<(String, Value)> for Metadata {
    fn from_iter<T: IntoIterator<Item = (String, Value)>>(pairs: T) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// An error for a key that has to be there.
pub(crate) fn required<T>(key: &str, expected: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::setting(key, expected, "no such key"))
}

impl Value {
    fn describe(&self) -> String {
        match self {
            Self::Unsigned(number) => number.to_string(),
            Self::Signed(number) => number.to_string(),
            Self::Float(number) => format!("the float {number}"),
            Self::Bool(value) => value.to_string(),
            Self::Text(text) => format!("the string {:?}", text.chars().take(40).collect::<String>()),
            Self::Array(_) => "an array of another type, or with elements out of range".to_owned(),
        }
    }
}

/// Numbers of the value types.
pub(super) mod type_id {
    pub(in super::super) const U8: u32 = 0;
    pub(in super::super) const I8: u32 = 1;
    pub(in super::super) const U16: u32 = 2;
    pub(in super::super) const I16: u32 = 3;
    pub(in super::super) const U32: u32 = 4;
    pub(in super::super) const I32: u32 = 5;
    pub(in super::super) const F32: u32 = 6;
    pub(in super::super) const BOOL: u32 = 7;
    pub(in super::super) const TEXT: u32 = 8;
    pub(in super::super) const ARRAY: u32 = 9;
    pub(in super::super) const U64: u32 = 10;
    pub(in super::super) const I64: u32 = 11;
    pub(in super::super) const F64: u32 = 12;
}

fn read_value(cursor: &mut Cursor<'_>, key: &str, elements_left: &mut usize) -> Result<Value, Problem> {
    let start = cursor.offset();
    let type_id = cursor.u32(key)?;
    match type_id {
        type_id::ARRAY => read_array(cursor, key, elements_left).map(Value::Array),
        type_id::U8 | type_id::U16 | type_id::U32 | type_id::U64 => {
            read_unsigned(cursor, key, type_id).map(Value::Unsigned)
        }
        type_id::I8 | type_id::I16 | type_id::I32 | type_id::I64 => {
            read_signed(cursor, key, type_id).map(Value::Signed)
        }
        type_id::F32 | type_id::F64 => read_float(cursor, key, type_id).map(Value::Float),
        type_id::BOOL => read_bool(cursor, key).map(Value::Bool),
        type_id::TEXT => Ok(Value::Text(cursor.text(key)?.to_owned())),
        _ => Err(malformed(start, key, "a value type from 0 to 12", type_id)),
    }
}

fn read_array(cursor: &mut Cursor<'_>, key: &str, elements_left: &mut usize) -> Result<Array, Problem> {
    let start = cursor.offset();
    let element_type = cursor.u32(key)?;
    let smallest = match element_type {
        type_id::U8 | type_id::I8 | type_id::BOOL => 1,
        type_id::U16 | type_id::I16 => 2,
        type_id::U32 | type_id::I32 | type_id::F32 => 4,
        type_id::U64 | type_id::I64 | type_id::F64 | type_id::TEXT => 8,
        _ => return Err(malformed(start, key, "an element type from 0 to 12 other than array", element_type)),
    };
    let start = cursor.offset();
    let count = cursor.count(key, smallest)?;
    let Some(left) = elements_left.checked_sub(count) else {
        let expected = format!("at most {MOST_ELEMENTS} array elements in all");
        return Err(malformed(start, key, expected, format!("{count} more")));
    };
    *elements_left = left;
    let elements = 0..count;
    Ok(match element_type {
        type_id::U8 | type_id::U16 | type_id::U32 | type_id::U64 => {
            Array::Unsigned(elements.map(|_| read_unsigned(cursor, key, element_type)).collect::<Result<_, _>>()?)
        }
        type_id::I8 | type_id::I16 | type_id::I32 | type_id::I64 => {
            Array::Signed(elements.map(|_| read_signed(cursor, key, element_type)).collect::<Result<_, _>>()?)
        }
        type_id::F32 | type_id::F64 => {
            Array::Float(elements.map(|_| read_float(cursor, key, element_type)).collect::<Result<_, _>>()?)
        }
        type_id::BOOL => Array::Bool(elements.map(|_| read_bool(cursor, key)).collect::<Result<_, _>>()?),
        _ => Array::Text(elements.map(|_| Ok(cursor.text(key)?.to_owned())).collect::<Result<_, Problem>>()?),
    })
}

fn read_unsigned(cursor: &mut Cursor<'_>, key: &str, type_id: u32) -> Result<u64, Problem> {
    match type_id {
        type_id::U8 => cursor.u8(key).map(u64::from),
        type_id::U16 => cursor.u16(key).map(u64::from),
        type_id::U32 => cursor.u32(key).map(u64::from),
        _ => cursor.u64(key),
    }
}

fn read_signed(cursor: &mut Cursor<'_>, key: &str, type_id: u32) -> Result<i64, Problem> {
    match type_id {
        type_id::I8 => cursor.u8(key).map(|bits| i64::from(bits.cast_signed())),
        type_id::I16 => cursor.u16(key).map(|bits| i64::from(bits.cast_signed())),
        type_id::I32 => cursor.u32(key).map(|bits| i64::from(bits.cast_signed())),
        _ => cursor.u64(key).map(u64::cast_signed),
    }
}

fn read_float(cursor: &mut Cursor<'_>, key: &str, type_id: u32) -> Result<f64, Problem> {
    match type_id {
        type_id::F32 => cursor.u32(key).map(|bits| f64::from(f32::from_bits(bits))),
        _ => cursor.u64(key).map(f64::from_bits),
    }
}

fn read_bool(cursor: &mut Cursor<'_>, key: &str) -> Result<bool, Problem> {
    let start = cursor.offset();
    match cursor.u8(key)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(malformed(start, key, "0 or 1 for a boolean", other)),
    }
}
