//! Requests as clients send them: what is refused and how, what is read, and what decides.

mod layers;
mod lines;
mod output;
mod refusals;
mod requests;
mod resolution;
mod responses;
mod tools;

use super::{Defaults, Request, RequestFault};

/// A model with 1,000 tokens and a context of 2,048, and no defaults.
fn defaults() -> Defaults {
    Defaults { vocabulary_size: 1_000, context_length: 2_048, ..Defaults::default() }
}

fn parse(body: &str) -> Result<Request, RequestFault> {
    Request::parse(body, None)
}

/// A chat body with further fields.
fn chat(fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { ", " };
    format!(r#"{{"messages": [{{"role": "user", "content": "Hi"}}]{comma}{fields}}}"#)
}

/// A completions body with further fields.
fn completion(fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { ", " };
    format!(r#"{{"prompt": "Hi"{comma}{fields}}}"#)
}

/// The message of a refusal, by parsing or else by resolution.
fn refusal(body: &str) -> String {
    let fault = parse(body).and_then(|request| request.resolve(&defaults()).map(|_| ()));
    fault.expect_err(&format!("{body} is to be refused")).to_string()
}
