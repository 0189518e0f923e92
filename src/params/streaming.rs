//! `stream` and `stream_options`.

use serde_json::Value;

use super::error::RequestFault;
use super::{known, read};

/// How an answer comes in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streaming {
    /// Whether a last piece says how many tokens were read and written.
    pub include_usage: bool,
}

/// The fields of streaming.
pub(super) const STREAM_FIELDS: &[&str] = &["stream", "stream_options"];

const OPTIONS: &[&str] = &["include_usage", "include_obfuscation", "continuous_usage_stats"];
/// Options that ask for nothing where they are `false`, and cannot be honoured otherwise.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("include_obfuscation", "pieces are as long as their text; leave it out"),
    ("continuous_usage_stats", "usage comes with the last piece; use `include_usage`"),
];

/// Reads both fields; `None` where the answer comes as a whole.
pub(super) fn streaming<'a>(field: impl Fn(&str) -> Option<&'a Value>) -> Result<Option<Streaming>, RequestFault> {
    let stream = field("stream").map(|value| read::boolean("stream", value)).transpose()?.unwrap_or(false);
    let options = field("stream_options");
    if !stream {
        return match options {
            None => Ok(None),
            Some(value) => {
                Err(RequestFault::value("stream_options", "nothing without `stream`: true", read::found(value)))
            }
        };
    }
    let include_usage = options.map(include_usage).transpose()?.unwrap_or(false);
    Ok(Some(Streaming { include_usage }))
}

fn include_usage(options: &Value) -> Result<bool, RequestFault> {
    let accepted = "an object with `include_usage`";
    let object =
        options.as_object().ok_or_else(|| RequestFault::value("stream_options", accepted, read::found(options)))?;
    for (name, value) in object {
        if !OPTIONS.contains(&name.as_str()) {
            return Err(known::unknown(name, OPTIONS.iter().copied(), OPTIONS).inside("stream_options"));
        }
        let is_asked = !value.is_null() && read::boolean(&format!("stream_options.{name}"), value)?;
        if let Some((_, why)) = UNSUPPORTED.iter().find(|(unsupported, _)| is_asked && unsupported == name) {
            let field = format!("stream_options.{name}");
            return Err(RequestFault::NotSupported { field, why: (*why).to_owned() });
        }
    }
    Ok(object.get("include_usage") == Some(&Value::Bool(true)))
}

#[cfg(test)]
mod tests {
    use crate::params::{Request, Streaming};

    fn read(fields: &str) -> Result<Option<Streaming>, String> {
        let request = Request::parse(&format!(r#"{{"prompt": "x", {fields}}}"#), None);
        request.map(|request| request.stream).map_err(|fault| fault.to_string())
    }

    #[test]
    fn usage_is_told_when_it_is_asked_for() {
        let streaming = |include_usage| Ok(Some(Streaming { include_usage }));
        assert_eq!(read(r#""stream": true"#), streaming(false));
        assert_eq!(read(r#""stream": true, "stream_options": {"include_usage": true}"#), streaming(true));
        assert_eq!(read(r#""stream": true, "stream_options": {"include_obfuscation": false}"#), streaming(false));
        assert_eq!(read(r#""stream": false"#), Ok(None));
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for (fields, start) in [
            (r#""stream": 1"#, "`stream`: accepted: true or false"),
            (r#""stream_options": {"include_usage": true}"#, "`stream_options`: accepted: nothing without `stream`"),
            (r#""stream": true, "stream_options": {"usage": true}"#, "`stream_options.usage` is not a known field"),
            (
                r#""stream": true, "stream_options": {"continuous_usage_stats": true}"#,
                "`stream_options.continuous_usage_stats` is not supported yet",
            ),
        ] {
            let message = read(fields).unwrap_err();
            assert!(message.starts_with(start), "{message}");
        }
    }
}
