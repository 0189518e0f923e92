//! What there is to say about single requests: on stderr for people, in the summary for programs.

use serde::Serialize;

use super::Submitted;

/// A sentence about one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Notice {
    /// Its line in the request file, from 1.
    pub line: usize,
    /// The `custom_id` of its line.
    pub custom_id: Option<String>,
    /// The field of the request that it is about, if it is about one.
    pub field: Option<String>,
    /// In words.
    pub message: String,
}

/// Tells why requests are refused, each by itself, and what is worth a warning, equal ones together.
pub(super) fn tell(submitted: &[Submitted]) {
    for notice in submitted.iter().filter_map(Submitted::refusal) {
        eprintln!("refused: {}", notice.message);
    }
    let warnings: Vec<Notice> = submitted.iter().flat_map(Submitted::warnings).collect();
    for text in grouped(&warnings) {
        eprintln!("warning: {text}");
    }
}

/// One text for all warnings that say the same, in the order of the first of them.
fn grouped(warnings: &[Notice]) -> Vec<String> {
    let mut groups: Vec<(&Notice, usize)> = Vec::new();
    for warning in warnings {
        match groups.iter_mut().find(|(first, _)| first.message == warning.message) {
            Some((_, count)) => *count += 1,
            None => groups.push((warning, 1)),
        }
    }
    let text = |(Notice { line, message, .. }, count): (&Notice, usize)| match count {
        1 => format!("line {line}: {message}"),
        count => format!("line {line} and {} more: {message}", count - 1),
    };
    groups.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_warnings_are_told_once() {
        let notice = |line, message: &str| Notice { line, custom_id: None, field: None, message: message.to_owned() };
        let warnings = [notice(1, "a"), notice(1, "b"), notice(2, "a"), notice(7, "a")];
        assert_eq!(grouped(&warnings), ["line 1 and 2 more: a", "line 1: b"]);
    }
}
