use super::super::{Endpoint, RequestLine, read_lines};
use super::chat;

fn lines(file: &str) -> Vec<RequestLine> {
    read_lines(file.as_bytes()).expect("a file with requests")
}

/// The refusals of a file, by line.
fn refusals(file: &str) -> Vec<String> {
    lines(file).into_iter().filter_map(|line| line.request.err()).map(|error| error.to_string()).collect()
}

#[test]
fn an_empty_file_is_refused() {
    for file in ["", "\n \r\n\t\n"] {
        let error = read_lines(file.as_bytes()).expect_err("no request");
        assert_eq!(error.to_string(), "the file holds no request; expected one JSON object per line");
    }
}

#[test]
fn one_bad_line_is_told_with_line_and_column_and_the_others_run() {
    let mut file = vec![chat(""); 9];
    file[6] = r#"{"messages": [}"#.to_owned();
    let read = lines(&file.join("\n"));
    assert_eq!(read.iter().filter(|line| line.request.is_ok()).count(), 8);
    let error = read[6].request.as_ref().expect_err("line 7 is broken");
    assert_eq!(error.to_string(), "line 7: not valid JSON at column 15: expected value; expected one JSON object");
    assert_eq!(error.line, Some(7));
    assert_eq!(read[6].body, file[6]);
}

#[test]
fn faults_tell_the_line_of_the_file() {
    let file = format!("{}\n\n{}\r\n", chat(""), chat(r#""temperature": -1"#));
    let expected = "line 3: `temperature`: accepted: 0 (greedy), or a number from 0.01 to 100; found: -1";
    assert_eq!(refusals(&file), [expected]);
}

#[test]
fn two_requests_in_a_line_are_refused() {
    let file = format!("{} {}", r#"{"prompt": "a"}"#, r#"{"prompt": "b"}"#);
    let expected = "line 1: more text follows the request, from column 17; expected one JSON object per line";
    assert_eq!(refusals(&file), [expected]);
    assert_eq!(refusals("[1]"), ["line 1: expected a JSON object, found the array [1]"]);
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let read = read_lines(b"{\"prompt\": \"\xff\"}\n{\"prompt\": \"a\"}").expect("a file with requests");
    let error = read[0].request.as_ref().expect_err("not UTF-8");
    assert_eq!(error.to_string(), "line 1: byte 12 of the line is not UTF-8");
    assert!(read[1].request.is_ok());
}

#[test]
fn a_batch_line_keeps_its_id_and_its_body_as_it_stands() {
    let file =
        r#"{"custom_id": "a-1", "method": "POST", "url": "/v1/completions", "body": {"prompt":  "x", "seed":1e0}}"#;
    let read = &lines(file)[0];
    assert_eq!(read.custom_id.as_deref(), Some("a-1"));
    assert_eq!(read.body, r#"{"prompt":  "x", "seed":1e0}"#);
    assert!(read.request.is_err(), "1e0 is no whole number as JSON is read");
    let file = file.replace("1e0", "1");
    let read = &lines(&file)[0];
    assert_eq!(read.request.as_ref().expect("a request").endpoint(), Endpoint::Completions);
    assert_eq!(read.body, r#"{"prompt":  "x", "seed":1}"#);
}

#[test]
fn batch_lines_are_checked() {
    let ok = r#""custom_id": "a", "url": "/v1/chat/completions""#;
    let body = chat("");
    for (line, expected) in [
        (
            format!(r#"{{"custom_id": "a", "url": "/v1/embeddings", "body": {body}}}"#),
            "`url`: accepted: \"/v1/chat/completions\" or \"/v1/completions\"; found: \"/v1/embeddings\"",
        ),
        (
            format!(r#"{{{ok}, "method": "GET", "body": {body}}}"#),
            "`method`: accepted: \"POST\"; found: the string \"GET\"",
        ),
        (format!("{{{ok}}}"), "`body` is missing; accepted: an object: the request's body"),
        (
            format!(r#"{{{ok}, "body": "x"}}"#),
            "`body`: accepted: an object: the request's body; found: the string \"x\"",
        ),
        (
            format!(r#"{{"url": "/v1/chat/completions", "body": {body}}}"#),
            "`custom_id` is missing; accepted: a string that no other line has",
        ),
        (format!(r#"{{{ok}, "bodi": 1, "body": {body}}}"#), "`bodi` is not a known field; did you mean `body`?"),
        (
            format!(r#"{{{ok}, "temperature": 1, "body": {body}}}"#),
            "`temperature` is not a known field; accepted: `custom_id`, `method`, `url`, `body`",
        ),
        (
            r#"{"custom_id": "a", "url": "/v1/completions", "body": {"messages": []}}"#.to_owned(),
            "`messages`: accepted: nothing here: it is a field of /v1/chat/completions; found: an empty array",
        ),
    ] {
        assert_eq!(refusals(&line), [format!("line 1: {expected}")]);
    }
}

#[test]
fn a_refused_batch_line_keeps_its_id() {
    let read = &lines(r#"{"custom_id": "a-1", "url": "/v1/completions", "body": {"prompt": "x", "top_p": 0}}"#)[0];
    assert_eq!(read.custom_id.as_deref(), Some("a-1"));
    assert!(read.request.is_err());
}

#[test]
fn the_second_of_two_equal_ids_is_refused() {
    let line = r#"{"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "x"}}"#;
    let expected = "line 2: `custom_id`: accepted: a string that no other line has (line 1 has it); found: \"a\"";
    assert_eq!(refusals(&format!("{line}\n{line}")), [expected]);
}
