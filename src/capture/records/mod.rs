//! The records of a capture, as they are written to a file: one file per channel.
//!
//! `docs/capture-format.md` is the normative text: field order here is wire order. A recorder inside another engine
//! knows less than Stepscope's own: whatever is an `Option` may be unknown, and unknown is never zero or false.

mod columns;
mod event;
mod header;
mod logits;
mod loss;
mod mask;
mod request;
mod row;
mod sketch;
mod step;
pub mod v1;

pub use columns::ColumnsRecord;
pub use event::EventRecord;
pub use header::{
    Component, Device, Header, KernelIdentity, LabelledHash, LogitsTier, ModelIdentity, Recorder, Redaction, Setting,
};
pub use logits::{LogitsPayload, LogitsRecord};
pub use loss::LossRecord;
pub use mask::MaskRecord;
pub use request::{
    Admission, Completion, ConstraintRecord, ParamSource, Refusal, RequestRecord, ResolvedField, StopReason,
};
pub use row::{ForcedToken, RowRecord, RowStatistics};
pub use sketch::SketchRecord;
pub use step::{
    BatchPlace, DraftVerdict, GrammarStep, SchedulerMode, StateRead, StepPath, StepRecord, Timings, VerdictReason,
    WithheldDraft, WithheldReason,
};

/// Most drafts per step and sequence that Stepscope's engine verifies, and that replay believes a header of.
pub const MOST_DRAFTS: usize = 64;

/// The version of the capture format. Every change of a record bumps it and adds an upgrader.
pub const FORMAT_VERSION: u32 = 3;
