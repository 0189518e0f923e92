//! A capture file as a recording.

use super::budget::{self, Budget, Memory};
use super::recording::{RecordedRequest, Recording, RequestFault, RowId};
use crate::capture::records::{
    EventRecord, Header, LogitsPayload, LossRecord, MaskRecord, Refusal, SketchRecord, StepRecord,
};
use crate::capture::{CaptureError, CaptureReader, IssueKind, Issues, RequestRecords};
use crate::types::{ChoiceIndex, RequestId, SequenceId, StepId};

/// An open capture with what replay asks for again and again.
pub struct CaptureRecording {
    reader: CaptureReader,
    /// In order.
    sequences: Vec<SequenceId>,
    losses: Vec<LossRecord>,
    events: Vec<EventRecord>,
    records: u64,
    /// What is damaged where opening does not look.
    damage: Issues,
    /// What could not be had, in words.
    unread: Vec<String>,
    request_budget: usize,
}

impl CaptureRecording {
    /// Reads the loss and event records of `reader`, counts its records, and looks for damage in all of the file: a payload
    /// that is not found must be known to be absent. What cannot be read is damage.
    pub fn new(reader: CaptureReader) -> Self {
        Self::with_budgets(reader, budget::NOTES, budget::REQUEST)
    }

    /// As [`Self::new`]; `notes` bytes of losses and of events are held at most, and `request` bytes of one request's
    /// step records.
    fn with_budgets(reader: CaptureReader, notes: usize, request: usize) -> Self {
        let mut unread = Vec::new();
        let losses = read_up_to(notes, reader.losses(), "loss records", &mut unread);
        let events = read_up_to(notes, reader.events(), "events", &mut unread);
        let damage = match reader.survey() {
            Ok(survey) => survey.damage,
            Err(error) => {
                unread.push(in_words(&error));
                Issues::default()
            }
        };
        let sequences: Vec<SequenceId> = reader.sequences().collect();
        let mut records = sequences.iter().map(|sequence| reader.step_count(*sequence)).sum::<usize>();
        for request in reader.requests() {
            if let Ok(RequestRecords { admission, refusal, completions }) = reader.request(request) {
                records += usize::from(admission.is_some()) + usize::from(refusal.is_some()) + completions.len();
            }
        }
        Self { reader, sequences, losses, events, records: records as u64, damage, unread, request_budget: request }
    }

    fn sequence(request: u64, choice: u32) -> SequenceId {
        SequenceId { request: RequestId(request), choice: ChoiceIndex(choice) }
    }

    fn choices(&self, request: u64) -> impl Iterator<Item = u32> {
        let start = self.sequences.partition_point(|sequence| sequence.request.0 < request);
        let rest = self.sequences.get(start..).unwrap_or_default();
        rest.iter().take_while(move |sequence| sequence.request.0 == request).map(|sequence| sequence.choice.0)
    }

    fn issues(&self, wanted: impl Fn(IssueKind) -> bool) -> Vec<String> {
        self.reader.issues().iter().filter(|issue| wanted(issue.kind)).map(|issue| issue.to_string()).collect()
    }
}

/// Records up to a number of bytes; what is left out, or cannot be read, is told in `unread`.
fn read_up_to<T: Memory>(
    bytes: usize,
    records: impl Iterator<Item = Result<T, CaptureError>>,
    what: &str,
    unread: &mut Vec<String>,
) -> Vec<T> {
    let mut budget = Budget::new(bytes);
    let mut read = Vec::new();
    let mut unreadable = 0_u64;
    for record in records {
        match record {
            Ok(record) if budget.take(record.bytes()) => read.push(record),
            Ok(_) => {
                unread.push(format!("its {what} take more than {bytes} bytes, the most that replay holds of them"));
                break;
            }
            Err(error) => {
                unreadable += 1;
                if unreadable == 1 {
                    unread.push(in_words(&error));
                }
            }
        }
    }
    if unreadable > 1 {
        unread.push(format!("{} more {what} cannot be read", unreadable - 1));
    }
    read
}

impl Recording for CaptureRecording {
    fn header(&self) -> &Header {
        self.reader.header()
    }

    fn requests(&self) -> Vec<u64> {
        let mut requests: Vec<u64> = self.reader.requests().map(|request| request.0).collect();
        requests.extend(self.sequences.iter().map(|sequence| sequence.request.0));
        requests.sort_unstable();
        requests.dedup();
        requests
    }

    fn record_count(&self) -> u64 {
        self.records
    }

    fn request(&self, request: u64) -> Result<RecordedRequest, RequestFault> {
        let unreadable = |error: CaptureError| RequestFault::Unreadable(in_words(&error));
        let records = self.reader.request(RequestId(request)).map_err(unreadable)?;
        let ran = || !records.completions.is_empty() || self.choices(request).next().is_some();
        let mut recorded = match (records.admission, records.refusal) {
            (Some(admission), refusal) => {
                RecordedRequest { refusal: refusal.map(|refusal| refusal.error), ..RecordedRequest::new(admission) }
            }
            (None, Some(_)) if ran() => return Err(RequestFault::RefusedYetRan),
            (None, Some(Refusal { client_id, body, .. })) => return Err(RequestFault::Refused { client_id, body }),
            (None, None) => return Err(RequestFault::NotAdmitted),
        };
        for completion in records.completions {
            recorded.sequence_mut(completion.choice).completions.push(completion);
        }
        let mut budget = Budget::new(self.request_budget);
        for choice in self.choices(request) {
            let steps = &mut recorded.sequence_mut(choice).steps;
            for step in self.reader.steps(Self::sequence(request, choice)) {
                match step {
                    Ok(step) if budget.take(step.bytes()) => steps.push(step),
                    Ok(_) => return Err(RequestFault::TooLarge { budget: self.request_budget }),
                    Err(error @ CaptureError::Io { .. }) => return Err(unreadable(error)),
                    // Told of by `visit_steps`.
                    Err(_) => {}
                }
            }
        }
        Ok(recorded)
    }

    fn sketches(&self, row: RowId) -> Result<Vec<SketchRecord>, String> {
        let sequence = Self::sequence(row.request, row.choice);
        self.reader.sketches(StepId(row.step), sequence, row.row).map_err(|error| in_words(&error))
    }

    fn payload(&self, row: RowId) -> Result<Option<LogitsPayload>, String> {
        let sequence = Self::sequence(row.request, row.choice);
        self.reader.logits(StepId(row.step), sequence, row.row).map_err(|error| in_words(&error))
    }

    fn mask(&self, hash: &[u8; 32]) -> Result<Option<MaskRecord>, String> {
        self.reader.mask(hash).map_err(|error| in_words(&error))
    }

    fn losses(&self) -> &[LossRecord] {
        &self.losses
    }

    fn events(&self) -> &[EventRecord] {
        &self.events
    }

    fn damage(&self) -> Vec<String> {
        let mut damage = self.issues(|kind| kind != IssueKind::Duplicate && kind != IssueKind::Contradiction);
        damage.extend(self.damage.iter().map(ToString::to_string));
        damage.extend(self.unread.iter().cloned());
        let untold = self.reader.issues().untold() + self.damage.untold();
        if untold > 0 {
            damage.push(format!("{untold} more issues, not told one by one"));
        }
        damage
    }

    fn contradictions(&self) -> Vec<String> {
        self.issues(|kind| kind == IssueKind::Duplicate || kind == IssueKind::Contradiction)
    }

    fn visit_steps(&self, visit: &mut dyn FnMut(Result<&StepRecord, String>)) {
        for &sequence in &self.sequences {
            for step in self.reader.steps(sequence) {
                visit(step.as_ref().map_err(|error| format!("a step of request {sequence}: {}", in_words(error))));
            }
        }
    }
}

/// An error without the file's name, which reports give by themselves.
fn in_words(error: &CaptureError) -> String {
    match error {
        CaptureError::Message { topic, place, source, .. } => format!("`{topic}` message {place}: {source}"),
        CaptureError::Damaged { offset, what, .. } => format!("byte {offset}: {what}"),
        CaptureError::Io { action, source, .. } => format!("cannot {action}: {source}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn sample() -> CaptureReader {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("captures/defaults");
        let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
        let captures = files.filter(|file| file.extension().is_some_and(|extension| extension == "mcap"));
        CaptureReader::open(&captures.min().unwrap()).unwrap()
    }

    #[test]
    fn a_request_past_its_budget_is_refused_with_the_budget() {
        let recording = CaptureRecording::with_budgets(sample(), budget::NOTES, 1_000);
        let request = recording.sequences[0].request.0;
        let fault = recording.request(request).unwrap_err();
        assert_eq!(fault, RequestFault::TooLarge { budget: 1_000 });
        assert!(fault.to_string().contains("1000 bytes"), "{fault}");
        assert!(CaptureRecording::new(sample()).request(request).is_ok());
    }

    #[test]
    fn notes_past_their_budget_are_left_out_and_told() {
        let loss = LossRecord {
            time_ns: 0,
            channel: "step".to_owned(),
            messages: None,
            bytes: None,
            steps: None,
            reason: String::new(),
        };
        let bytes = 2 * loss.bytes();
        let mut unread = Vec::new();
        let read = read_up_to(bytes, std::iter::repeat_with(|| Ok(loss.clone())), "loss records", &mut unread);
        assert_eq!(read.len(), 2);
        assert_eq!(
            unread,
            [format!("its loss records take more than {bytes} bytes, the most that replay holds of them")]
        );
    }
}
