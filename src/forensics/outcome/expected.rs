//! The calls that should come: those of a clean run, or a list of them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::capture::records::StopReason;
use crate::capture::{CaptureError, CaptureReader};
use crate::forensics::repetition::Call;

/// Longest list of calls, in bytes.
const LONGEST_LIST: u64 = 64 << 20;

/// Expected calls by the client's id (`custom_id`) of the request that they answer. A request that is not among them is one of
/// which it is not known what should come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectedCalls(HashMap<String, Vec<Call>>);

/// Why a file of expected calls cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExpectedCallsError {
    /// The file cannot be read.
    #[error("{}: cannot read the expected calls", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is a capture that cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A line of it is no expected call.
    #[error("{place}, line {line}: expected an object with `custom_id`, `name` and `arguments`, found {found}")]
    Line {
        /// The file, or what the lines are.
        place: String,
        /// Counted from 1.
        line: usize,
        /// What stands there instead.
        found: String,
    },
    /// No request of it has an id and calls.
    #[error("{place}: it names no calls by `custom_id`, so that nothing could be held against it")]
    Empty {
        /// The file, or what the lines are.
        place: String,
    },
}

impl ExpectedCalls {
    /// Reads either kind of file: a capture of a clean run, or JSON lines.
    ///
    /// # Errors
    /// If it cannot be read, and if it expects nothing.
    pub fn open(path: &Path) -> Result<Self, ExpectedCallsError> {
        let place = path.display().to_string();
        match list(path) {
            Ok(Some(text)) => Self::of_lines(&text, &place),
            Ok(None) => Self::of_capture(&CaptureReader::open(path)?)?.or_empty(&place),
            Err(source) => Err(ExpectedCallsError::Io { path: path.to_owned(), source }),
        }
    }

    /// Reads lines that each have the `custom_id` of a request and the `name` and `arguments` of a call. A request may have
    /// several lines. `place` is what an error calls the text.
    ///
    /// # Errors
    /// If a line is none, and if there is none.
    pub fn of_lines(lines: &str, place: &str) -> Result<Self, ExpectedCallsError> {
        let filled = lines.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty());
        let calls = filled.map(|(text, line)| {
            read(text).map_err(|found| ExpectedCallsError::Line { place: place.to_owned(), line, found })
        });
        calls.collect::<Result<Self, _>>()?.or_empty(place)
    }

    /// What a capture's clients were told, of each request that has an id and one choice, which ended and had tools.
    ///
    /// # Errors
    /// If its records cannot be read.
    pub fn of_capture(reader: &CaptureReader) -> Result<Self, CaptureError> {
        let mut calls = HashMap::new();
        for request in reader.requests() {
            let records = reader.request(request)?;
            let Some(id) = records.admission.and_then(|admission| admission.client_id) else { continue };
            // Several choices of one request need not call the same.
            let [completion] = records.completions.as_slice() else { continue };
            let has_answered = !matches!(completion.stop, None | Some(StopReason::Failed(_) | StopReason::Cancelled));
            if has_answered && completion.tool_calls.is_some() {
                calls.insert(id, Call::told(completion.tool_calls.as_deref()));
            }
        }
        Ok(Self(calls))
    }

    /// What should come for a request; `None` where that is not known.
    pub fn get(&self, client_id: &str) -> Option<&[Call]> {
        self.0.get(client_id).map(Vec::as_slice)
    }

    /// Of how many requests it is known.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is known of none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn or_empty(self, place: &str) -> Result<Self, ExpectedCallsError> {
        if self.is_empty() { Err(ExpectedCallsError::Empty { place: place.to_owned() }) } else { Ok(self) }
    }
}

impl FromIterator<(String, Call)> for ExpectedCalls {
    fn from_iter<T: IntoIterator<Item = (String, Call)>>(calls: T) -> Self {
        let mut by_id: HashMap<String, Vec<Call>> = HashMap::new();
        calls.into_iter().for_each(|(id, call)| by_id.entry(id).or_default().push(call));
        Self(by_id)
    }
}

/// The text of a list of calls; `None` for a capture.
fn list(path: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(mcap::MAGIC.len() as u64).read_to_end(&mut bytes)?;
    if bytes == mcap::MAGIC {
        return Ok(None);
    }
    let mut text = String::new();
    File::open(path)?.take(LONGEST_LIST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_LIST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("a list of calls has at most {LONGEST_LIST} bytes"),
        ));
    }
    Ok(Some(text))
}

/// The id and the call of a line, or what stands there instead.
fn read(line: &str) -> Result<(String, Call), String> {
    let line: Value = serde_json::from_str(line).map_err(|error| format!("no JSON ({error})"))?;
    let Some(id) = line.get("custom_id").and_then(Value::as_str) else { return Err("no `custom_id`".to_owned()) };
    let call = Call::read(&line).ok_or_else(|| format!("no `name` and `arguments` for {id}"))?;
    Ok((id.to_owned(), call))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_calls_by_request() {
        let lines = "{\"custom_id\": \"a\", \"name\": \"look\", \"arguments\": {\"at\": 1}}\n\n\
                     {\"custom_id\": \"a\", \"name\": \"go\", \"arguments\": \"{}\"}\n\
                     {\"custom_id\": \"b\", \"name\": \"go\", \"arguments\": {}}\n";
        let expected = ExpectedCalls::of_lines(lines, "here").unwrap();
        let call = |name: &str, arguments| Call { name: name.to_owned(), arguments };
        assert_eq!(expected.len(), 2);
        assert_eq!(expected.get("a"), Some([call("look", json!({"at": 1})), call("go", json!({}))].as_slice()));
        assert_eq!(expected.get("b"), Some([call("go", json!({}))].as_slice()));
        assert_eq!(expected.get("c"), None);
    }

    #[test]
    fn a_line_that_is_no_call_is_named() {
        let good = r#"{"custom_id": "a", "name": "look", "arguments": {}}"#;
        let told = |line: &str| ExpectedCalls::of_lines(&format!("{good}\n{line}"), "here").unwrap_err().to_string();
        assert!(told("{").starts_with("here, line 2: "), "{}", told("{"));
        assert!(told(r#"{"name": "look", "arguments": {}}"#).ends_with("found no `custom_id`"));
        assert!(told(r#"{"custom_id": "b", "name": "look"}"#).ends_with("found no `name` and `arguments` for b"));
        let nothing = ExpectedCalls::of_lines("\n", "here").unwrap_err();
        assert!(matches!(nothing, ExpectedCallsError::Empty { .. }), "{nothing}");
    }
}
