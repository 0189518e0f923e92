//! What can be wrong with a request, and what is worth a warning.

use std::fmt;

use thiserror::Error;

/// A request that is refused: where, what is accepted there, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// Line of the request file, counted from 1; `None` for a request that came alone.
    pub line: Option<usize>,
    /// What is wrong.
    pub fault: RequestFault,
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestFault {
    /// The file holds no request.
    #[error("the file holds no request; expected one JSON object per line")]
    Empty,
    /// The bytes are not text.
    #[error("byte {offset} of the line is not UTF-8")]
    NotText {
        /// Offset in the line, from 0.
        offset: usize,
    },
    /// The text is not JSON.
    #[error("not valid JSON at {}: {message}; expected one JSON object", place(.line, .column))]
    Syntax {
        /// Line in the text that was parsed (1 for a line of a request file).
        line: usize,
        /// Column in that line, from 1.
        column: usize,
        /// The parser's words.
        message: String,
    },
    /// A second value follows the first one.
    #[error("more text follows the request, from {}; expected one JSON object per line", place(.line, .column))]
    SecondValue {
        /// Line of what follows in the text that was parsed (1 for a line of a request file).
        line: usize,
        /// Column in that line, from 1.
        column: usize,
    },
    /// The text is JSON, but no object.
    #[error("expected a JSON object, found {found}")]
    NotAnObject {
        /// What stands there.
        found: String,
    },
    /// A field stands there twice.
    #[error("`{field}` stands there twice; expected each field once")]
    Duplicate {
        /// The field.
        field: String,
    },
    /// No such field.
    #[error("`{field}` is not a known field{}", did_you_mean(.suggestion, .accepted))]
    UnknownField {
        /// The field.
        field: String,
        /// The known field that is spelled most alike, if one is close.
        suggestion: Option<String>,
        /// Every accepted field, where the list is short enough to be told.
        accepted: Vec<String>,
    },
    /// A field is missing.
    #[error("`{field}` is missing; accepted: {accepted}")]
    Missing {
        /// The field.
        field: String,
        /// What is accepted.
        accepted: String,
    },
    /// A field's value is not accepted.
    #[error("`{field}`: accepted: {accepted}; found: {found}")]
    Value {
        /// The field, with the path inside it, e.g. `messages[1].role`.
        field: String,
        /// What is accepted.
        accepted: String,
        /// What stands there.
        found: String,
    },
    /// The field is part of the protocol, and this build cannot honour it.
    #[error("`{field}` is not supported yet: {why}")]
    NotSupported {
        /// The field.
        field: String,
        /// What can be done instead.
        why: String,
    },
    /// The output cannot be constrained as the field asks.
    #[error("`{field}`: {message}")]
    Constraint {
        /// The field.
        field: String,
        /// What cannot be done, and where in its value.
        message: String,
    },
    /// Two fields contradict each other.
    #[error("`{first}` and `{second}` contradict each other: {why}")]
    Conflict {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// What is accepted.
        why: String,
    },
}

/// Something that was accepted but is likely not what its author meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Warning {
    /// The field changes nothing here.
    #[error("`{field}` has no effect here and is ignored")]
    NoEffect {
        /// The field.
        field: String,
    },
    /// The `developer` role was read as `system`.
    #[error("`messages[{index}].role`: `developer` is read as `system`; chat templates of open models know no other")]
    DeveloperRole {
        /// Index of the message.
        index: usize,
    },
    /// A greedy request on a model that was tuned to be sampled.
    #[error(
        "temperature 0 (from the {origin}) is greedy, but the model's generation config recommends sampling \
         ({recommendation}); greedy decoding of such a model tends to repeat itself"
    )]
    GreedyAgainstRecommendation {
        /// The layer that set temperature 0.
        origin: String,
        /// What the model's authors recommend.
        recommendation: String,
    },
    /// A seed without sampling.
    #[error("`seed` has no effect at temperature 0: nothing is sampled")]
    SeedWithoutSampling,
    /// A negative seed, which other servers read as "no seed".
    #[error("`seed` {seed} is taken as a fixed seed; leave it out to get a fresh one")]
    NegativeSeed {
        /// The seed as it was written.
        seed: i64,
    },
}

impl RequestFault {
    /// A value that is not accepted.
    pub(crate) fn value(field: impl Into<String>, accepted: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Value { field: field.into(), accepted: accepted.into(), found: found.into() }
    }

    /// The same fault of an unknown field that stands inside the value of another one.
    pub(crate) fn inside(self, path: &str) -> Self {
        match self {
            Self::UnknownField { field, suggestion, accepted } => {
                Self::UnknownField { field: format!("{path}.{field}"), suggestion, accepted }
            }
            fault => fault,
        }
    }

    /// The field that the fault is about, if it is about one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Empty | Self::NotText { .. } | Self::Syntax { .. } => None,
            Self::SecondValue { .. } | Self::NotAnObject { .. } => None,
            Self::Duplicate { field }
            | Self::UnknownField { field, .. }
            | Self::Missing { field, .. }
            | Self::Value { field, .. }
            | Self::NotSupported { field, .. }
            | Self::Constraint { field, .. }
            | Self::Conflict { first: field, .. } => Some(field),
        }
    }

    /// The fault of a request that came alone.
    pub fn alone(self) -> RequestError {
        RequestError { line: None, fault: self }
    }

    /// The fault of the request in a line of a file.
    pub fn at_line(self, line: usize) -> RequestError {
        RequestError { line: Some(line), fault: self }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "line {line}: {}", self.fault),
            None => self.fault.fmt(formatter),
        }
    }
}

impl std::error::Error for RequestError {}

/// A place in the text that was parsed.
fn place(line: &usize, column: &usize) -> String {
    if *line == 1 { format!("column {column}") } else { format!("line {line}, column {column}") }
}

/// The end of an unknown field's message.
fn did_you_mean(suggestion: &Option<String>, accepted: &[String]) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `{name}`?"),
        None if accepted.is_empty() => String::new(),
        None => {
            format!("; accepted: {}", accepted.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        }
    }
}
