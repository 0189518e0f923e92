//! A capture file as a recording.

use super::recording::{RecordedRequest, Recording, RequestFault, RowId};
use crate::capture::records::{EventRecord, Header, LogitsPayload, LossRecord, StepRecord};
use crate::capture::{CaptureError, CaptureReader, IssueKind, RequestRecords};
use crate::types::{ChoiceIndex, RequestId, SequenceId, StepId};

/// An open capture with what replay asks for again and again.
pub struct CaptureRecording {
    reader: CaptureReader,
    losses: Vec<LossRecord>,
    events: Vec<EventRecord>,
    records: u64,
}

impl CaptureRecording {
    /// Reads the loss and event records of `reader`, and counts its records.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn new(reader: CaptureReader) -> Result<Self, CaptureError> {
        let losses = reader.losses().collect::<Result<_, _>>()?;
        let events = reader.events().collect::<Result<_, _>>()?;
        let mut records = reader.sequences().map(|sequence| reader.step_count(sequence)).sum::<usize>();
        for request in reader.requests() {
            let RequestRecords { admission, refusal, completions } = reader.request(request)?;
            records += usize::from(admission.is_some()) + usize::from(refusal.is_some()) + completions.len();
        }
        Ok(Self { reader, losses, events, records: records as u64 })
    }

    fn sequence(request: u64, choice: u32) -> SequenceId {
        SequenceId { request: RequestId(request), choice: ChoiceIndex(choice) }
    }
}

impl Recording for CaptureRecording {
    fn header(&self) -> &Header {
        self.reader.header()
    }

    fn requests(&self) -> Vec<u64> {
        let mut requests: Vec<u64> = self.reader.requests().map(|request| request.0).collect();
        requests.extend(self.reader.sequences().map(|sequence| sequence.request.0));
        requests.sort_unstable();
        requests.dedup();
        requests
    }

    fn record_count(&self) -> u64 {
        self.records
    }

    fn request(&self, request: u64) -> Result<RecordedRequest, RequestFault> {
        let unreadable = |error: CaptureError| RequestFault::Unreadable(error.to_string());
        let records = self.reader.request(RequestId(request)).map_err(unreadable)?;
        let mut recorded = match (records.admission, records.refusal) {
            (Some(admission), _) => RecordedRequest::new(admission),
            (None, Some(_)) => return Err(RequestFault::Refused),
            (None, None) => return Err(RequestFault::NotAdmitted),
        };
        for completion in records.completions {
            recorded.sequence_mut(completion.choice).completions.push(completion);
        }
        let choices = self.reader.sequences().filter(|sequence| sequence.request.0 == request);
        for SequenceId { choice: ChoiceIndex(choice), .. } in choices {
            let steps = self.reader.steps(Self::sequence(request, choice)).collect::<Result<_, _>>();
            recorded.sequence_mut(choice).steps = steps.map_err(unreadable)?;
        }
        Ok(recorded)
    }

    fn payload(&self, row: RowId) -> Result<Option<LogitsPayload>, String> {
        let sequence = Self::sequence(row.request, row.choice);
        self.reader.logits(StepId(row.step), sequence, row.row).map_err(|error| error.to_string())
    }

    fn losses(&self) -> &[LossRecord] {
        &self.losses
    }

    fn events(&self) -> &[EventRecord] {
        &self.events
    }

    fn damage(&self) -> Vec<String> {
        self.issues(|kind| kind != IssueKind::Duplicate && kind != IssueKind::Contradiction)
    }

    fn contradictions(&self) -> Vec<String> {
        self.issues(|kind| kind == IssueKind::Duplicate || kind == IssueKind::Contradiction)
    }

    fn visit_steps(&self, visit: &mut dyn FnMut(&StepRecord)) -> Result<(), String> {
        for sequence in self.reader.sequences() {
            for step in self.reader.steps(sequence) {
                visit(&step.map_err(|error| error.to_string())?);
            }
        }
        Ok(())
    }
}

impl CaptureRecording {
    fn issues(&self, wanted: impl Fn(IssueKind) -> bool) -> Vec<String> {
        self.reader.issues().iter().filter(|issue| wanted(issue.kind)).map(|issue| issue.to_string()).collect()
    }
}
