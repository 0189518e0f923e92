//! What makes a request of a run a bad one.

use std::collections::BTreeMap;

use super::Tally;
use crate::capture::{CaptureError, CaptureReader};
use crate::forensics::correlate::{Judge, Judgement, Label};
use crate::forensics::outcome::{ExpectedCalls, outcomes};
use crate::model::Tokenizer;
use crate::replay::Report;
use crate::types::RequestId;

/// Requests with a broken call in one of their choices. `tokenizer` is that of the recorded model.
///
/// # Errors
/// If the capture cannot be read.
pub fn broken(reader: &CaptureReader, tokenizer: &Tokenizer, expected: &ExpectedCalls) -> Result<Tally, CaptureError> {
    let mut requests = Requests::of(reader);
    for choice in outcomes(reader, tokenizer, expected)? {
        requests.add(choice.sequence.request, Judgement::of_outcome(choice.outcome));
    }
    Ok(requests.tally())
}

/// Requests in which a token that had to come was not the best of its row, end tokens apart, which are misranked nearly always after
/// something went wrong. They are those that the capture's header names.
///
/// # Errors
/// If a step cannot be read.
pub fn misranked(reader: &CaptureReader) -> Result<Tally, CaptureError> {
    let ends = reader.header().model.as_ref().and_then(|model| model.end_tokens.clone()).unwrap_or_default();
    let mut judge = Judge::new(&Label::ForcedMisrank, reader, ends);
    let mut requests = Requests::of(reader);
    for sequence in reader.sequences() {
        judge.begin();
        for step in reader.steps(sequence) {
            requests.add(sequence.request, judge.judge(&step?));
        }
    }
    Ok(requests.tally())
}

/// Requests in which replay found a fault.
///
/// # Errors
/// In words: if replay lacked something, for what it would have found is not known, and if it found what is of no request.
pub fn with_findings(report: &Report, requests: impl IntoIterator<Item = RequestId>) -> Result<Tally, String> {
    let (damage, tallies) = (&report.damage, &report.checks);
    let mut reasons = tallies.iter().flat_map(|(check, tally)| tally.reasons.keys().map(move |skip| (check, skip)));
    if let Some(words) = damage.first() {
        return Err(format!("replay found the capture damaged: {words}"));
    }
    if let Some((check, skip)) = reasons.find(|(_, skip)| skip.missing) {
        return Err(format!("replay's check `{check}` lacked something: {}", skip.reason));
    }
    if let Some(finding) = report.findings.iter().find(|finding| finding.request.is_none()) {
        let (check, fact) = (finding.check, &finding.fact);
        return Err(format!("replay's check `{check}` has a finding of no single request: {fact}"));
    }
    let found = |request: RequestId| report.requests_with_findings.values().any(|found| found.contains(&request.0));
    Ok(Tally::of(requests.into_iter().map(|request| match found(request) {
        true => Judgement::Failing,
        false => Judgement::Passing,
    })))
}

/// What is said of each request: the greatest of what is said of its parts.
struct Requests(BTreeMap<RequestId, Judgement>);

impl Requests {
    /// Nothing is said of any.
    fn of(reader: &CaptureReader) -> Self {
        Self(reader.requests().map(|request| (request, Judgement::NoSite)).collect())
    }

    fn add(&mut self, request: RequestId, part: Judgement) {
        let whole = self.0.entry(request).or_insert(part);
        *whole = part.max(*whole);
    }

    fn tally(self) -> Tally {
        Tally::of(self.0.into_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{CheckName, Finding, Skip};

    fn report() -> Report {
        let mut report = Report::new("a", CheckName::ALL);
        report.requests_with_findings.entry("a".to_owned()).or_default().extend([1, 3]);
        report
    }

    fn told(report: &Report) -> Result<Tally, String> {
        with_findings(report, (0..5).map(RequestId))
    }

    #[test]
    fn requests_with_findings_are_bad_and_the_others_are_not() {
        assert_eq!(told(&report()), Ok(Tally { bad: 2, judged: 5, nothing: 0, unknown: 0 }));
    }

    #[test]
    fn what_replay_lacks_keeps_it_from_being_told() {
        let mut damaged = report();
        damaged.damage.push("a step is gone".to_owned());
        assert!(told(&damaged).unwrap_err().contains("a step is gone"));
        let lacking = |skip: Skip| {
            let mut report = report();
            report.checks.entry(CheckName::Drafts).or_default().reasons.insert(skip, 1);
            told(&report)
        };
        assert!(
            lacking(Skip::missing("no draft model")).unwrap_err().contains("`drafts` lacked something: no draft model")
        );
        // What was never meant to be recorded is no lack.
        assert!(lacking(Skip::not_recorded("nothing is drafted")).is_ok());
        let mut of_none = report();
        of_none.findings.push(Finding {
            capture: "a".to_owned(),
            check: CheckName::Commit,
            request: None,
            client_id: None,
            choice: None,
            step: None,
            row: None,
            fact: "messages of loss records".to_owned(),
            expected: "0".to_owned(),
            found: "1".to_owned(),
        });
        assert!(told(&of_none).unwrap_err().contains("of no single request: messages of loss records"));
    }
}
