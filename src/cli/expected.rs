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
    let (mut known, mut unknown) = (0_u64, 0_u64);
    for request in reader.requests() {
        let id = reader.request(request).ok().and_then(|records| records.admission?.client_id);
        match id.is_some_and(|id| expected.get(&id).is_some()) {
            true => known += 1,
            false => unknown += 1,
        }
    }
    let (path, capture) = (path.display(), reader.path().display());
    if known == 0 {
        bail!("--expected {path}: it has calls for none of the requests of {capture}");
    }
    if unknown > 0 {
        eprintln!(
            "warning: --expected {path}: it has calls for {known} of the {} requests of {capture}; the others' calls are \
             judged by their form and their tool's schema alone",
            known + unknown
        );
    }
    Ok(expected)
}
