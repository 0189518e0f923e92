//! What a replay found, summed over requests and captures.

use std::collections::{BTreeMap, BTreeSet};

use super::preflight::Guarantee;
use super::remarks::{FreeDraw, REMARKS_KEPT, Remark};
use super::verdict::{CheckName, Skip, Verdict};

/// Findings that a report keeps in full; the rest are counted. Bounds the memory of a replay of a broken capture.
pub const FINDINGS_KEPT: usize = 10_000;

/// Where a subject stands in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// The request; `None` for a subject that belongs to the whole capture.
    pub request: Option<u64>,
    /// The client's id for it.
    pub client_id: Option<&'a str>,
    /// The choice.
    pub choice: Option<u32>,
    /// The step.
    pub step: Option<u64>,
    /// Index into the step record's rows.
    pub row: Option<u32>,
}

/// A recorded fact that does not follow from the recorded inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the capture, as given.
    pub capture: String,
    /// The check that found it.
    pub check: CheckName,
    /// The request; `None` for a fact of the whole capture.
    pub request: Option<u64>,
    /// The client's id for it.
    pub client_id: Option<String>,
    /// The choice.
    pub choice: Option<u32>,
    /// The step.
    pub step: Option<u64>,
    /// Index into the step record's rows.
    pub row: Option<u32>,
    /// The fact, as the records name it.
    pub fact: String,
    /// What the re-computation gives.
    pub expected: String,
    /// What the capture says.
    pub found: String,
}

/// The verdicts of one check, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Subjects of which at least one fact was compared.
    pub checked: u64,
    /// Subjects of which none could be.
    pub skipped: u64,
    /// Facts that do not hold.
    pub findings: u64,
    /// Why facts were not compared, and how many; also of subjects that were checked otherwise.
    pub reasons: BTreeMap<Skip, u64>,
}

/// Reasons that a tally tells apart; whatever comes after them is counted together.
const REASONS_KEPT: usize = 1_000;

impl Tally {
    fn count(&mut self, skip: Skip, count: u64) {
        let is_full = self.reasons.len() >= REASONS_KEPT && !self.reasons.contains_key(&skip);
        let skip = if is_full { Skip { reason: "other reasons".into(), ..skip } } else { skip };
        *self.reasons.entry(skip).or_default() += count;
    }
}

/// Everything a replay has to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The captures, as named on the command line.
    pub captures: Vec<String>,
    /// Request and step records that were read.
    pub records: u64,
    /// Logits rows among the step records.
    pub rows: u64,
    /// Logits rows that a loss record says were dropped.
    pub lost_rows: u64,
    /// One entry per check that was asked for.
    pub checks: BTreeMap<CheckName, Tally>,
    /// The first [`FINDINGS_KEPT`] findings, by capture, request, choice and step.
    pub findings: Vec<Finding>,
    /// Requests with a finding, kept or not, by capture.
    pub requests_with_findings: BTreeMap<String, BTreeSet<u64>>,
    /// What may be expected here of each check, per capture.
    pub guarantees: Vec<Guarantee>,
    /// What is missing or damaged in the captures themselves, in words.
    pub damage: Vec<String>,
    /// The first [`REMARKS_KEPT`] things that are worth a look and no finding.
    pub remarks: Vec<Remark>,
    /// How many more there are.
    pub more_remarks: u64,
    /// Answers that should hardly ever be the same.
    pub(super) free_draws: Vec<FreeDraw>,
}

impl Report {
    /// An empty report about one capture, with a tally for each check.
    pub fn new(capture: &str, checks: impl IntoIterator<Item = CheckName>) -> Self {
        Self {
            captures: vec![capture.to_owned()],
            checks: checks.into_iter().map(|check| (check, Tally::default())).collect(),
            ..Self::default()
        }
    }

    /// Enters the verdict of a check on one subject; ignored for a check that was not asked for.
    pub fn enter(&mut self, check: CheckName, place: Place<'_>, verdict: Verdict) {
        let Some(tally) = self.checks.get_mut(&check) else { return };
        if verdict.is_checked() {
            tally.checked += 1;
        } else {
            tally.skipped += 1;
        }
        for skip in verdict.skips() {
            tally.count(skip.clone(), 1);
        }
        tally.findings += verdict.wrong();
        let room = FINDINGS_KEPT.saturating_sub(self.findings.len());
        let capture = self.captures.first().cloned().unwrap_or_default();
        if let Some(request) = place.request.filter(|_| verdict.wrong() > 0) {
            self.requests_with_findings.entry(capture.clone()).or_default().insert(request);
        }
        self.findings.extend(verdict.mismatches().iter().take(room).map(|mismatch| Finding {
            capture: capture.clone(),
            check,
            request: place.request,
            client_id: place.client_id.map(str::to_owned),
            choice: place.choice,
            step: place.step,
            row: place.row,
            fact: mismatch.fact.clone().into_owned(),
            expected: mismatch.expected.clone(),
            found: mismatch.found.clone(),
        }));
    }

    /// Adds a remark.
    pub fn remark(&mut self, remark: Remark) {
        if self.remarks.len() < REMARKS_KEPT {
            self.remarks.push(remark);
        } else {
            self.more_remarks += 1;
        }
    }

    /// Whether a check was asked for.
    pub fn wants(&self, check: CheckName) -> bool {
        self.checks.contains_key(&check)
    }

    /// Adds what another report says, after what this one says.
    pub fn merge(&mut self, other: Report) {
        let Report { captures, records, rows, lost_rows, checks, findings, guarantees, damage, .. } = other;
        for (capture, requests) in other.requests_with_findings {
            self.requests_with_findings.entry(capture).or_default().extend(requests);
        }
        self.more_remarks += other.more_remarks;
        other.remarks.into_iter().for_each(|remark| self.remark(remark));
        self.free_draws.extend(other.free_draws);
        for capture in captures {
            if !self.captures.contains(&capture) {
                self.captures.push(capture);
            }
        }
        self.records += records;
        self.rows += rows;
        self.lost_rows += lost_rows;
        for (check, tally) in checks {
            let sum = self.checks.entry(check).or_default();
            sum.checked += tally.checked;
            sum.skipped += tally.skipped;
            sum.findings += tally.findings;
            for (skip, count) in tally.reasons {
                sum.count(skip, count);
            }
        }
        let room = FINDINGS_KEPT.saturating_sub(self.findings.len());
        self.findings.extend(findings.into_iter().take(room));
        self.guarantees.extend(guarantees);
        self.damage.extend(damage);
    }

    /// Facts that do not hold, kept or not.
    pub fn finding_count(&self) -> u64 {
        self.checks.values().map(|tally| tally.findings).sum()
    }

    /// Whether something that should be there was not.
    pub fn is_missing_data(&self) -> bool {
        !self.damage.is_empty() || self.checks.values().any(|tally| tally.reasons.keys().any(|skip| skip.missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_with_a_finding_is_known_though_not_every_finding_is_kept() {
        let of_request = |request: u64, findings: usize| {
            let mut report = Report::new("a", [CheckName::Forward]);
            let mut verdict = Verdict::new();
            (0..findings).for_each(|_| verdict.equal("row", 0, 1));
            for _ in 0..FINDINGS_KEPT {
                report.enter(CheckName::Forward, Place { request: Some(request), ..Place::default() }, verdict.clone());
            }
            report
        };
        let mut report = of_request(0, 1);
        report.merge(of_request(1, 0));
        report.merge(of_request(2, 1));
        assert_eq!(report.findings.len(), FINDINGS_KEPT);
        assert_eq!(report.requests_with_findings, BTreeMap::from([("a".to_owned(), BTreeSet::from([0, 2]))]));
    }
}
