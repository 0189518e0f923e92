//! From the run with the fault to its cause: the condition of its bad steps, and the operation that went wrong.

use std::path::Path;

use anyhow::Context as _;

use crate::cli::correlate::{Wanted, read};
use crate::forensics::correlate::{Counts, Label, Settings, correlate};
use crate::forensics::localize::{Job, Localized, localize};
use crate::replay::CaptureRecording;
use crate::replay::forward::PlainModel;

/// What a capture tells of the cause.
pub(super) struct Cause {
    /// The condition that goes with most of the steps in which a token that had to come was misranked; `None` if none does.
    pub(super) condition: Option<Condition>,
    /// Where the earliest difference is.
    pub(super) localized: Localized,
}

/// A condition, and steps by whether it holds and whether they are bad.
pub(super) struct Condition {
    pub(super) predicate: String,
    pub(super) counts: Counts,
}

/// Looks for the cause in a capture, which `plain` is the model of.
///
/// # Errors
/// If the capture cannot be read, or the model is not its.
pub(super) fn cause(capture: &Path, recording: &CaptureRecording, plain: &PlainModel<'_>) -> anyhow::Result<Cause> {
    let wanted = Wanted {
        captures: &[capture.to_owned()],
        label: &Label::ForcedMisrank,
        model: None,
        expected: None,
        replay: None,
        every_step: false,
        with_end_tokens: false,
    };
    let input = read(&wanted, &mut |_| {})?;
    let correlation = correlate(&input.table, Settings { permutations: 0, seed: 0 });
    let first = correlation.ranked.into_iter().next();
    let name = &capture.display().to_string();
    let job = Job { name, recording, plain, request: None, step: None, progress: &|| {} };
    Ok(Cause {
        condition: first.map(|first| Condition { predicate: first.predicate, counts: first.counts }),
        localized: localize(&job).with_context(|| format!("localize in {name}"))?,
    })
}
