//! What replay needs of a capture, request by request.

use crate::capture::records::{
    Admission, Completion, EventRecord, Header, LogitsPayload, LossRecord, MaskRecord, SketchRecord, StepRecord,
};

/// A source of recorded requests, such as a capture file.
pub trait Recording: Sync {
    /// The header.
    fn header(&self) -> &Header;

    /// The requests that any record speaks of, by number, each once.
    fn requests(&self) -> Vec<u64>;

    /// Request and step records that could be read.
    fn record_count(&self) -> u64;

    /// Everything recorded of one request, without step records that cannot be read: [`Self::visit_steps`] tells of them.
    ///
    /// # Errors
    /// If it was not admitted, or its records cannot be read or are too many.
    fn request(&self, request: u64) -> Result<RecordedRequest, RequestFault>;

    /// The payload of one row; `None` if the capture has none.
    ///
    /// # Errors
    /// If it cannot be read; the text says where and why.
    fn payload(&self, row: RowId) -> Result<Option<LogitsPayload>, String>;

    /// The sketches of what one row passed through, in file order.
    ///
    /// # Errors
    /// If they cannot be read; the text says where and why.
    fn sketches(&self, row: RowId) -> Result<Vec<SketchRecord>, String>;

    /// The mask with that hash; `None` if the capture has none.
    ///
    /// # Errors
    /// If it cannot be read; the text says where and why.
    fn mask(&self, hash: &[u8; 32]) -> Result<Option<MaskRecord>, String>;

    /// What the recorder dropped.
    fn losses(&self) -> &[LossRecord];

    /// What the recorder thought worth a person's attention.
    fn events(&self) -> &[EventRecord];

    /// What is damaged or cut off in the capture itself, in words; empty for a whole one.
    fn damage(&self) -> Vec<String>;

    /// Records that cannot both be true, in words: what is recorded twice, or recorded of what is not there.
    fn contradictions(&self) -> Vec<String>;

    /// Visits every step record once, in any order. For one that cannot be read, the text says where and why.
    fn visit_steps(&self, visit: &mut dyn FnMut(Result<&StepRecord, String>));
}

/// Why a request cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// It was refused, and so ran no step.
    #[error("the request was refused")]
    Refused {
        /// The client's id for it.
        client_id: Option<String>,
        /// Its body, where that is recorded.
        body: Option<String>,
    },
    /// It was refused, and yet records speak of its steps or its end.
    #[error("the request was refused, and yet it ran")]
    RefusedYetRan,
    /// Records speak of it, and none says that it was admitted.
    #[error("the request has records, but was never admitted")]
    NotAdmitted,
    /// Its records cannot be read.
    #[error("the request's records cannot be read: {0}")]
    Unreadable(String),
    /// Its records take more memory than replay gives to one request.
    #[error(
        "the request's step records take more than {budget} bytes, which is the most that replay holds of one request"
    )]
    TooLarge {
        /// The most that is held.
        budget: usize,
    },
}

/// One row of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId {
    /// The step.
    pub step: u64,
    /// The request.
    pub request: u64,
    /// The choice.
    pub choice: u32,
    /// Index into the step record's rows.
    pub row: u32,
}

/// One request with its choices.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The request as received and resolved.
    pub admission: Admission,
    /// The words of a refusal that is recorded beside the admission: both cannot be true.
    pub refusal: Option<String>,
    /// Its choices, ascending.
    pub sequences: Vec<RecordedSequence>,
}

/// What is recorded of one choice.
#[derive(Clone, Debug, Default)]
pub struct RecordedSequence {
    /// Which one.
    pub choice: u32,
    /// Its steps, in the order in which they were recorded.
    pub steps: Vec<StepRecord>,
    /// Its ends; a sequence has exactly one.
    pub completions: Vec<Completion>,
}

impl RecordedSequence {
    /// Every token that was emitted, in order.
    pub fn emitted(&self) -> Vec<u32> {
        self.steps.iter().flat_map(|step| &step.emitted).copied().collect()
    }
}

impl RecordedRequest {
    /// A request without choices yet.
    pub fn new(admission: Admission) -> Self {
        Self { admission, refusal: None, sequences: Vec::new() }
    }

    /// The choice, made if it is new.
    pub fn sequence_mut(&mut self, choice: u32) -> &mut RecordedSequence {
        let index = match self.sequences.binary_search_by_key(&choice, |sequence| sequence.choice) {
            Ok(index) => index,
            Err(index) => {
                self.sequences.insert(index, RecordedSequence { choice, ..RecordedSequence::default() });
                index
            }
        };
        &mut self.sequences[index]
    }
}
