//! One recorded fact is changed at a time, chunk checksums made valid again: replay must name the right check, at the
//! right request and step, for every kind of field.
//!
//! The table is complete by construction: every record is taken apart without `..`, so that a new field does not
//! compile until it stands here, with the check that guards it or with the reason why nothing can.

#[path = "support/mutations/mod.rs"]
mod mutations;
#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::sync::OnceLock;

use mutations::{Expected, Mutation, Place};
use recorded::{Recorded, USUAL, record, replay_file};
use stepscope::arith::Isa;
use stepscope::capture::Record;
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, Finding, ReplayError, Report, render};

/// A capture of a hybrid model, so that steps have recurrent state.
fn original() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| record(SyntheticModel::lfm2(11), USUAL))
}

#[test]
fn every_change_is_found_where_it_was_made() {
    let recorded = original();
    assert_all_found(recorded, &recorded.records, mutations::table());
}

#[test]
fn every_change_of_a_draft_is_found() {
    let settings =
        format!("{USUAL}drafter = \"random\"\ndrafts = 5\nscheduling = \"async\"\nverify-rule = \"rejection\"\n");
    let recorded = record(SyntheticModel::lfm2(11), &settings);
    assert_all_found(&recorded, &recorded.records, mutations::of_speculation());
}

#[test]
fn every_change_of_a_mask_is_found() {
    let reasoning = format!("reasoning-end = {:?}\n", recorded::REASONING_END);
    let settings = format!("{USUAL}{reasoning}drafter = \"random\"\ndrafts = 5\n");
    let recorded = recorded::record_constrained(SyntheticModel::lfm2(11), &settings);
    assert_all_found(&recorded, &recorded.records, mutations::of_grammars());
}

#[test]
fn every_change_of_an_event_is_found() {
    let recorded = recorded::record_poisoned(21);
    let is_event = |record: &&Record| matches!(record, Record::Event(_));
    assert!(recorded.records.iter().filter(is_event).count() > 0, "the poisoned prompt fails");
    assert_all_found(&recorded, &recorded.records, mutations::of_failures());
}

#[test]
fn every_change_of_a_loss_is_found() {
    let recorded = original();
    let mut records = recorded.records.clone();
    mutations::lose_a_payload(&mut records);
    assert_all_found(recorded, &records, mutations::of_losses());
}

/// Applies each mutation to `original`, which must be without findings.
fn assert_all_found(recorded: &Recorded, original: &[Record], table: Vec<Mutation>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.mcap");
    let replayed = |records: &[Record]| {
        recorded::write(records, &path);
        replay_file(&path, Some(&recorded.model), Isa::Scalar)
    };
    let baseline = replayed(original).unwrap();
    assert_eq!(baseline.finding_count(), 0, "{}", render::text(&baseline));
    let mut failures = Vec::new();
    for mutation in table {
        let mut records = original.to_vec();
        let place = (mutation.change)(&mut records);
        let judged = if records == original {
            Err("the mutation changes nothing".to_owned())
        } else {
            judge(&mutation, place, &baseline, replayed(&records))
        };
        if let Err(problem) = judged {
            failures.push(format!("{}: {problem}", mutation.field));
        }
    }
    assert!(failures.is_empty(), "{} changes went wrong:\n{}", failures.len(), failures.join("\n"));
}

/// Writing the records again changes nothing: what the other test finds, it finds because of the change.
#[test]
fn the_capture_written_again_is_clean() {
    let recorded = original();
    let path = recorded.folder.path().join("again.mcap");
    recorded::write(&recorded.records, &path);
    let report = replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap();
    assert_eq!(report.finding_count(), 0, "{}", render::text(&report));
    assert!(!report.is_missing_data(), "{}", render::text(&report));
}

/// Every kind of record that the format has is in the capture or is not written yet.
#[test]
fn the_capture_has_every_kind_of_record_that_is_written() {
    let has = |wanted: fn(&Record) -> bool| original().records.iter().any(wanted);
    assert!(has(|record| matches!(record, Record::Header(_))));
    assert!(has(|record| matches!(record, Record::Request(_))));
    assert!(has(|record| matches!(record, Record::Step(_))));
    assert!(has(|record| matches!(record, Record::Logits(_))));
}

/// What each check counted; the words of its reasons may repeat what was changed.
fn counts(report: &Report) -> Vec<(CheckName, [u64; 3])> {
    report.checks.iter().map(|(check, tally)| (*check, [tally.checked, tally.skipped, tally.findings])).collect()
}

fn judge(
    mutation: &Mutation,
    place: Place,
    baseline: &Report,
    report: Result<Report, ReplayError>,
) -> Result<(), String> {
    match (&mutation.expected, report) {
        (Expected::Refused(words), Err(error)) => {
            let error = error.to_string();
            if error.contains(words) { Ok(()) } else { Err(format!("expected `{words}` in `{error}`")) }
        }
        (Expected::Refused(_), Ok(report)) => Err(format!("expected a refusal, found {}", first(&report))),
        (_, Err(error)) => Err(format!("could not run: {error}")),
        (Expected::Finding(check), Ok(report)) => {
            let is_it = |finding: &&Finding| {
                finding.check == *check && finding.request == place.request && finding.step == place.step
            };
            let is_found = report.findings.iter().any(|finding| is_it(&finding));
            if is_found { Ok(()) } else { Err(format!("expected {check} at {place:?}, found {}", first(&report))) }
        }
        (Expected::Everywhere(check), Ok(report)) => {
            let is_found = report.findings.iter().any(|finding| finding.check == *check);
            if is_found { Ok(()) } else { Err(format!("expected {check} somewhere, found {}", first(&report))) }
        }
        (Expected::Skipped(check), Ok(report)) => {
            let skips = !report.checks[check].reasons.is_empty();
            if skips { Ok(()) } else { Err(format!("expected {check} to skip something, found {}", first(&report))) }
        }
        (Expected::Nothing(_), Ok(report)) if counts(&report) == counts(baseline) => Ok(()),
        (Expected::Nothing(reason), Ok(report)) => {
            Err(format!("expected nothing ({reason}), found {}", first(&report)))
        }
    }
}

fn first(report: &Report) -> String {
    let shown: Vec<String> = report
        .findings
        .iter()
        .take(4)
        .map(|finding| format!("{} {:?}.{:?} {}", finding.check, finding.request, finding.step, finding.fact))
        .collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join("; ") }
}
