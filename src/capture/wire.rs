//! How values that JSON cannot carry as they are stand in the three message encodings.
//!
//! Records mark such fields with `#[serde(with = "wire")]`. In the binary encodings they are what serde makes of them,
//! but for numeric arrays, which are little-endian bytes; in JSON (the only human-readable one) 64-bit integers are
//! strings, floats may be strings, arrays are base64 and hashes hexadecimal. docs/capture-format.md is normative.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A type with a form of its own on the wire.
pub(super) trait Wire: Sized {
    fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// For `#[serde(with = "wire")]`.
pub(super) fn serialize<T: Wire, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_wire(serializer)
}

/// For `#[serde(with = "wire")]`.
pub(super) fn deserialize<'de, T: Wire, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::from_wire(deserializer)
}

struct Outgoing<'a, T>(&'a T);

impl<T: Wire> Serialize for Outgoing<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.to_wire(serializer)
    }
}

struct Incoming<T>(T);

impl<'de, T: Wire> Deserialize<'de> for Incoming<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::from_wire(deserializer).map(Self)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => serializer.serialize_some(&Outgoing(value)),
            None => serializer.serialize_none(),
        }
    }

    fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Incoming<T>>::deserialize(deserializer)?.map(|value| value.0))
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (Outgoing(&self.0), Outgoing(&self.1)).serialize(serializer)
    }

    fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (Incoming(first), Incoming(second)) = Deserialize::deserialize(deserializer)?;
        Ok((first, second))
    }
}

impl<A: Wire, B: Wire> Wire for Vec<(A, B)> {
    fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Outgoing))
    }

    fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Incoming<(A, B)>>::deserialize(deserializer)?.into_iter().map(|pair| pair.0).collect())
    }
}

impl Wire for u32 {
    fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self)
    }

    fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// What a JSON scalar may be.
struct Scalar<T>(PhantomData<T>);

impl Wire for u64 {
    fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { serializer.serialize_u64(*self) }
    }

    fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Scalar::<u64>(PhantomData))
        } else {
            Self::deserialize(deserializer)
        }
    }
}

impl Visitor<'_> for Scalar<u64> {
    type Value = u64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an unsigned 64-bit integer, as a string or a number")
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
        // `parse` alone would also accept a leading plus sign.
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = if digits { text.parse().ok() } else { None };
        value.ok_or_else(|| E::custom(format_args!("expected an unsigned 64-bit integer, found {text:?}")))
    }
}

/// A float; JSON has strings for what its numbers cannot say.
macro_rules! wire_float {
    ($float:ty, $serialize:ident, $name:literal, $as_number:expr) => {
        impl Wire for $float {
            fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if !serializer.is_human_readable() || ($as_number && self.is_finite()) {
                    return serializer.$serialize(*self);
                }
                match self {
                    value if value.is_nan() => serializer.serialize_str("NaN"),
                    value if value.is_infinite() && *value > 0.0 => serializer.serialize_str("Infinity"),
                    value if value.is_infinite() => serializer.serialize_str("-Infinity"),
                    value => serializer.collect_str(value),
                }
            }

            fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    deserializer.deserialize_any(Scalar::<$float>(PhantomData))
                } else {
                    Self::deserialize(deserializer)
                }
            }
        }

        impl Visitor<'_> for Scalar<$float> {
            type Value = $float;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(concat!($name, ", as a number or a string"))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<$float, E> {
                let narrowed = value as $float;
                if narrowed.is_finite() {
                    return Ok(narrowed);
                }
                Err(E::custom(format_args!("expected {}, found {value}, which is beyond its range", $name)))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<$float, E> {
                Ok(value as $float)
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<$float, E> {
                Ok(value as $float)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$float, E> {
                let spelled = match text {
                    "NaN" => Some(<$float>::NAN),
                    "Infinity" => Some(<$float>::INFINITY),
                    "-Infinity" => Some(<$float>::NEG_INFINITY),
                    _ => text.parse().ok().filter(|value: &$float| value.is_finite()),
                };
                spelled.ok_or_else(|| E::custom(format_args!("expected {}, found {text:?}", $name)))
            }
        }
    };
}

wire_float!(f32, serialize_f32, "a binary32 number", true);
// A JSON parser may be one unit off in the last place of a binary64 number; `str::parse` is exact.
wire_float!(f64, serialize_f64, "a binary64 number", false);

/// Bytes: a byte string in the binary encodings, base64 in JSON.
impl Wire for Vec<u8> {
    fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&BASE64.encode(self))
        } else {
            serializer.serialize_bytes(self)
        }
    }

    fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            BASE64.decode(&text).map_err(|error| D::Error::custom(format_args!("expected base64: {error}")))
        } else {
            serde_bytes::ByteBuf::deserialize(deserializer).map(serde_bytes::ByteBuf::into_vec)
        }
    }
}

/// Numeric arrays are their elements' little-endian bytes, in every encoding.
macro_rules! wire_array {
    ($($element:ty),*) => {$(
        impl Wire for Vec<$element> {
            fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let bytes: Vec<u8> = self.iter().flat_map(|element| element.to_le_bytes()).collect();
                bytes.to_wire(serializer)
            }

            fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let bytes = Vec::<u8>::from_wire(deserializer)?;
                let (elements, rest) = bytes.as_chunks();
                if !rest.is_empty() {
                    let (length, size) = (bytes.len(), size_of::<$element>());
                    return Err(D::Error::custom(format_args!(
                        "expected an array of {size}-byte elements, found {length} bytes"
                    )));
                }
                Ok(elements.iter().map(|element| <$element>::from_le_bytes(*element)).collect())
            }
        }
    )*};
}

wire_array!(i8, u32, f32);

/// A hash: 32 bytes, hexadecimal in JSON.
impl Wire for [u8; 32] {
    fn to_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&blake3::Hash::from_bytes(*self).to_hex())
        } else {
            serializer.serialize_bytes(self)
        }
    }

    fn from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            let hash = blake3::Hash::from_hex(&text);
            hash.map(Self::from).map_err(|_| D::Error::custom("expected a hash of 64 hexadecimal digits"))
        } else {
            let bytes = serde_bytes::ByteBuf::deserialize(deserializer)?.into_vec();
            bytes.try_into().map_err(|bytes: Vec<u8>| {
                D::Error::custom(format_args!("expected a hash of 32 bytes, found {}", bytes.len()))
            })
        }
    }
}
