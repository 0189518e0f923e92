//! The three message encodings, all strict: a message is exactly one value, or an error that says why not.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::limits::{MAX_MESSAGE_BYTES, shortened};

/// How the messages of a channel are encoded; the name stands in the channel record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// bincode 2 `standard()`: Stepscope's own.
    Bincode,
    /// MessagePack, structures as maps.
    MessagePack,
    /// JSON.
    Json,
}

/// Why a record could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It is longer than readers accept.
    #[error("the message has {0} bytes, more than the {MAX_MESSAGE_BYTES} a capture may hold in one")]
    TooLong(usize),
    /// The encoder refused it.
    #[error("cannot encode as {encoding}: {message}")]
    Refused {
        /// The encoding.
        encoding: &'static str,
        /// The encoder's words.
        message: String,
    },
}

/// Why a message could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is longer than accepted.
    #[error("the message has {0} bytes, more than the {MAX_MESSAGE_BYTES} accepted")]
    TooLong(usize),
    /// It is no such value.
    #[error("no valid {encoding}: {message}")]
    Invalid {
        /// The encoding.
        encoding: &'static str,
        /// The decoder's words.
        message: String,
    },
    /// The value ends before the message does.
    #[error("the value takes {used} of the message's {length} bytes; nothing may follow it")]
    Trailing {
        /// Bytes that belong to the value.
        used: u64,
        /// Bytes of the message.
        length: usize,
    },
}

impl Encoding {
    /// The name in a channel record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bincode => "bincode",
            Self::MessagePack => "msgpack",
            Self::Json => "json",
        }
    }

    /// The encoding of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Bincode, Self::MessagePack, Self::Json].into_iter().find(|encoding| encoding.name() == name)
    }
}

/// The frozen configuration of bincode, with a limit on what a length may claim.
fn bincode_config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_MESSAGE_BYTES>()
}

/// Encodes one value.
pub fn encode<T: Serialize>(encoding: Encoding, value: &T) -> Result<Vec<u8>, EncodeError> {
    let refused = |message: String| EncodeError::Refused { encoding: encoding.name(), message };
    let bytes = match encoding {
        Encoding::Bincode => bincode::serde::encode_to_vec(value, bincode::config::standard())
            .map_err(|error| refused(error.to_string()))?,
        Encoding::MessagePack => rmp_serde::to_vec_named(value).map_err(|error| refused(error.to_string()))?,
        Encoding::Json => serde_json::to_vec(value).map_err(|error| refused(error.to_string()))?,
    };
    if bytes.len() > MAX_MESSAGE_BYTES { Err(EncodeError::TooLong(bytes.len())) } else { Ok(bytes) }
}

/// Decodes one value that takes up all of `bytes`.
pub fn decode<T: DeserializeOwned>(encoding: Encoding, bytes: &[u8]) -> Result<T, DecodeError> {
    let (value, used) = decode_prefix(encoding, bytes)?;
    if used != bytes.len() as u64 {
        return Err(DecodeError::Trailing { used, length: bytes.len() });
    }
    Ok(value)
}

/// Decodes one value at the start of `bytes` and says how many bytes it takes.
///
/// In bincode a structure's first fields are a prefix of it, so a reader can pick keys without reading the rest.
pub(super) fn decode_prefix<T: DeserializeOwned>(encoding: Encoding, bytes: &[u8]) -> Result<(T, u64), DecodeError> {
    if bytes.len() > MAX_MESSAGE_BYTES {
        return Err(DecodeError::TooLong(bytes.len()));
    }
    // A decoder may quote the message, which may be long.
    let invalid = |message: String| DecodeError::Invalid { encoding: encoding.name(), message: shortened(message) };
    match encoding {
        Encoding::Bincode => {
            let (value, used) = bincode::serde::decode_from_slice(bytes, bincode_config())
                .map_err(|error| invalid(error.to_string()))?;
            Ok((value, used as u64))
        }
        Encoding::MessagePack => {
            let mut decoder = rmp_serde::Deserializer::new(std::io::Cursor::new(bytes));
            let value = T::deserialize(&mut decoder).map_err(|error| invalid(error.to_string()))?;
            Ok((value, decoder.position()))
        }
        Encoding::Json => {
            let mut values = serde_json::Deserializer::from_slice(bytes).into_iter();
            let value = values.next().ok_or_else(|| invalid("the message is empty".to_owned()))?;
            let value = value.map_err(|error| invalid(error.to_string()))?;
            // White space may stand around a JSON value.
            let used = values.byte_offset();
            let rest = bytes.get(used..).unwrap_or_default();
            let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            Ok((value, (used + space) as u64))
        }
    }
}
