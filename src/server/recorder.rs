//! What records the engine of a server.

use crate::capture::tap::CaptureTap;
use crate::capture::{CaptureError, Ring, Snapshot, WriteSummary};
use crate::engine::Tap;

/// What records the engine.
pub enum Recorder {
    /// Everything goes into one capture.
    Always(Box<CaptureTap>),
    /// The last seconds stay in memory, and are written when something asks for it.
    Ring(Box<CaptureTap<Ring>>),
}

impl Recorder {
    /// The tap that records.
    pub(super) fn tap(&mut self) -> &mut dyn Tap {
        match self {
            Self::Always(tap) => tap.as_mut(),
            Self::Ring(tap) => tap.as_mut(),
        }
    }

    /// Why recording has stopped, if it has.
    pub(super) fn take_error(&mut self) -> Option<CaptureError> {
        match self {
            Self::Always(tap) => tap.take_error(),
            Self::Ring(tap) => tap.take_error(),
        }
    }

    /// What is in memory; `None` where everything is written.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        match self {
            Self::Always(_) => None,
            Self::Ring(tap) => Some(tap.sink().snapshot()),
        }
    }

    /// Finishes the capture, if one is written.
    pub(super) fn finish(self) -> Option<Result<WriteSummary, CaptureError>> {
        match self {
            Self::Always(tap) => Some(tap.finish()),
            Self::Ring(_) => None,
        }
    }
}
