//! The calls that should come, for a capture.

use std::path::Path;

use anyhow::bail;

use crate::capture::CaptureReader;
use crate::forensics::outcome::ExpectedCalls;

/// Expected calls, of which the capture must have a request at least.
///
/// # Errors
/// If they cannot be read, or are those of other requests.
pub(super) fn expected_calls(path: &Path, reader: &CaptureReader) -> anyhow::Result<ExpectedCalls> {
    let expected = ExpectedCalls::open(path)?;
    let mut ids = reader.requests().filter_map(|request| reader.request(request).ok()?.admission?.client_id);
    if !ids.any(|id| expected.get(&id).is_some()) {
        bail!("--expected {}: it has calls for none of the requests of {}", path.display(), reader.path().display());
    }
    Ok(expected)
}
