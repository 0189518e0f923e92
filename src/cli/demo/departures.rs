//! What is otherwise than the incident was.

use super::Story;
use super::runs::Run;
use super::table::{Split, Steps};
use crate::cli::Outcome;
use crate::forensics::localize::{Difference, How};
use crate::replay::CheckName;

/// Calls of the clean run that may be others than those that were asked for: the models are small.
const MISUNDERSTOOD: usize = 2;
/// Calls that have to break where the incident happens.
const BROKEN: usize = 15;
/// The condition of the fault, and the operation that it zeroes.
const CONDITION: &str = "prev_accepted > q_len";
const OPERATION: &str = "short_convolution";
/// Settings that only together make them break.
const MINIMAL: [&str; 2] = ["drafts", "scheduling"];

/// In words; none if the incident came out as it should.
pub(super) fn departures(story: &Story) -> Vec<String> {
    let mut departures: Vec<String> = story.runs.iter().flat_map(|run| of_run(run, story.requests)).collect();
    let condition = story.cause.condition.as_ref().map(|condition| condition.predicate.as_str());
    if condition != Some(CONDITION) {
        departures.push(format!("`{CONDITION}` should go with the misranked tokens, and not {condition:?}"));
    }
    match &story.cause.localized.difference {
        Some(Difference { layer: Some(0), operation, how: How::Zeroed, .. }) if operation == OPERATION => {}
        other => {
            let found = other.as_ref().map(|found| (found.layer, &found.operation, found.how.name()));
            departures.push(format!("{OPERATION} of layer 0 should be zeroed, and not {found:?}"));
        }
    }
    let settings: Vec<&str> = story.minimal.iter().map(|found| found.setting.as_str()).collect();
    if settings != MINIMAL {
        departures.push(format!("{MINIMAL:?} should make the difference to `defaults`, and not {settings:?}"));
    }
    departures
}

fn of_run(run: &Run, requests: usize) -> Vec<String> {
    let setup = run.setup;
    let (broken, report, table) = (run.broken(), &run.report, run.table);
    let mut departures = Vec::new();
    let mut expect = |holds: bool, words: String| {
        if !holds {
            departures.push(format!("{}: {words}", setup.name));
        }
    };
    expect(
        run.summary.outcome() == Outcome::Clean,
        "requests were refused or failed, or payloads were dropped".to_owned(),
    );
    expect(run.outcomes.len() == requests, format!("{} of {requests} requests have an outcome", run.outcomes.len()));
    for (check, tally) in &report.checks {
        let may_find = *check == CheckName::Forward && setup.has_fault && setup.shrinks;
        expect(tally.findings == 0 || may_find, format!("{} findings of `{check}`", tally.findings));
        expect(tally.findings > 0 || !may_find, format!("`{check}` found nothing of the fault"));
        expect(tally.checked > 0, format!("`{check}` had nothing to look at"));
        let missing = tally.reasons.iter().filter(|(skip, _)| skip.missing);
        missing.for_each(|(skip, count)| expect(false, format!("`{check}` missed {count}: {}", skip.reason)));
    }
    report.damage.iter().for_each(|damage| expect(false, damage.clone()));
    let forward = report.checks.get(&CheckName::Forward).map_or(0, |tally| tally.checked);
    expect(forward == report.rows, format!("the whole model was run for {forward} of {} rows", report.rows));

    let misranked = |split: Split| split.other.misranked + split.shrunk.misranked;
    match (setup.has_fault, setup.shrinks, setup.name) {
        (false, ..) => {
            expect(broken <= MISUNDERSTOOD, format!("{broken} calls are not those that were asked for"));
            expect(misranked(table.tokens) == 0, "tokens that had to come were misranked".to_owned());
        }
        (true, false, _) => {
            expect(broken == 0, format!("{broken} calls broke"));
            let shrunk = table.tokens.shrunk.all + table.end.shrunk.all;
            expect(shrunk == 0, format!("{shrunk} steps had a shorter query than the step before accepted"));
        }
        (true, true, "faulty") => {
            expect(broken >= BROKEN, format!("{broken} calls broke"));
            let Split { shrunk, other } = table.tokens;
            let words = |Steps { misranked, all }| format!("{misranked} of {all} steps with a misranked token");
            expect(shrunk.all > 0 && shrunk.misranked * 2 >= shrunk.all, format!("shrunken: {}", words(shrunk)));
            expect(other.all > 0 && other.misranked * 50 <= other.all, format!("otherwise: {}", words(other)));
        }
        (true, true, _) => {}
    }
    departures
}
