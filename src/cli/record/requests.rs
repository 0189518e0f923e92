//! From a line of the request file to what the engine takes.

use std::path::Path;

use anyhow::Context;

use super::outputs::OutputLine;
use crate::engine::{Received, Submission};
use crate::exchange::Preparation;
use crate::params::{Request, RequestError, RequestFault, RequestLine, read_lines};

/// Reads a request file.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<RequestLine>> {
    let place = || format!("requests file {}", path.display());
    let bytes = std::fs::read(path).with_context(place)?;
    read_lines(&bytes).with_context(place)
}

/// A line that is ready for the engine, or refused.
pub(super) struct Line {
    /// What its output line needs.
    pub output: OutputLine,
    /// The request as it was received.
    pub received: Received,
    /// The request, or why it is refused.
    pub prepared: Result<Submission, RequestError>,
}

/// Resolves a line's parameters and tokenizes its prompt.
pub(super) fn prepare(preparation: &Preparation<'_>, line: RequestLine) -> Line {
    let RequestLine { line, custom_id, body, request } = line;
    let endpoint = request.as_ref().ok().map(Request::endpoint);
    let received = Received {
        client_id: custom_id.clone(),
        endpoint: endpoint.map(|endpoint| endpoint.path().to_owned()),
        body: Some(body),
    };
    let submission = |request: Request| {
        let request = whole(request)?;
        preparation.submission(&request, received.clone())
    };
    let prepared = request.and_then(|request| submission(request).map_err(|fault| fault.at_line(line)));
    Line { output: OutputLine::new(line, custom_id, endpoint), received, prepared }
}

/// A request whose answer may come as a whole.
fn whole(request: Request) -> Result<Request, RequestFault> {
    match request.stream {
        None => Ok(request),
        Some(_) => Err(RequestFault::NotSupported {
            field: "stream".to_owned(),
            why: "a request file is answered as a whole; leave it out".to_owned(),
        }),
    }
}
