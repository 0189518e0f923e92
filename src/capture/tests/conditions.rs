//! What a step record does not say is unknown, and is never counted as nothing.

use super::support::*;
use crate::capture::Encoding;
use crate::capture::conditions::{Conditions, Values};
use crate::capture::records::*;
use crate::capture::upgrade::FormatVersion;

/// A condition of a step, as text; `None` is unknown.
fn condition(step: &StepRecord, format_version: u32, name: &str) -> Option<String> {
    let mut conditions = Conditions::of_format(format_version);
    conditions.push(step);
    let (_, values) = conditions.columns().find(|(condition, _)| condition.name == name).unwrap();
    match values {
        Values::Small(column) => column.values()[0].map(|value| value.to_string()),
        Values::Large(column) => column.values()[0].map(|value| value.to_string()),
        Values::Truth(column) => column.values()[0].map(|value| value.to_string()),
        Values::Word(column) => column.values()[0].map(str::to_owned),
    }
}

const OF_ROWS: [&str; 7] = [
    "rows",
    "rows_masked",
    "rows_forced",
    "rows_misranked",
    "rows_invalid",
    "least_mask_population",
    "worst_forced_rank",
];

/// Those of the conditions of rows, in that order.
fn of_rows(step: &StepRecord, format_version: u32) -> [Option<u32>; 7] {
    OF_ROWS.map(|name| condition(step, format_version, name).map(|value| value.parse().unwrap()))
}

/// A row that the scheduler's mask allows `population` tokens in, if it has one and the row was judged.
fn masked(population: Option<u32>) -> RowRecord {
    let mut row = row(0, 0);
    row.scheduler_mask = Some([1; 32]);
    row.applied_mask = population.map(|_| [1; 32]);
    row.mask_population = population;
    row.token = population.and(row.token);
    row
}

fn forced(rank: Option<u32>) -> RowRecord {
    RowRecord { forced: Some(ForcedToken { token: 7, rank, margin: None }), ..masked(Some(1)) }
}

fn constrained(rows: Vec<RowRecord>) -> StepRecord {
    let grammar = Some(GrammarStep { before: 3, after: 4, terminated: false, reasoning: false });
    StepRecord { grammar, ..step(1, 0, rows) }
}

#[test]
fn a_recorder_of_the_core_alone_leaves_the_rest_unknown() {
    let core = br#"{"step":"1","request":"0","choice":0,"first_position":2,"drafts":[3,-1],"emitted":[3,4]}"#;
    for (version, number) in [(FormatVersion::V1, 1), (FormatVersion::V2, 2), (FormatVersion::V3, 3)] {
        let step: StepRecord = version.decode(Encoding::Json, core).unwrap();
        let mut conditions = Conditions::of_format(number);
        conditions.push(&step);
        let known: Vec<&str> = conditions
            .columns()
            .map(|(known, _)| known.name)
            .filter(|name| condition(&step, number, name).is_some())
            .collect();
        assert_eq!(known, ["step", "request", "choice", "first_position", "drafts", "emitted"], "version {number}");
    }
}

#[test]
fn a_chunk_within_the_prompt_has_no_rows() {
    let chunk = StepRecord { path: Some(StepPath::Prefill), emitted: vec![], ..step(1, 0, vec![]) };
    assert_eq!(of_rows(&chunk, 3), [Some(0), Some(0), Some(0), Some(0), Some(0), None, None]);
    let end = StepRecord { emitted: vec![7], ..chunk.clone() };
    let failed = StepRecord { stop: Some(StopReason::Failed("no".into())), ..chunk };
    assert_eq!((of_rows(&end, 3), of_rows(&failed, 3)), ([None; 7], [None; 7]));
}

#[test]
fn version_1_does_not_know_which_tokens_were_forced() {
    let step = constrained(vec![masked(Some(1)), masked(Some(5))]);
    let bytes = FormatVersion::V1.encode(Encoding::Bincode, &step.into()).unwrap();
    let step: StepRecord = FormatVersion::V1.decode(Encoding::Bincode, &bytes).unwrap();
    assert_eq!(of_rows(&step, 1), [Some(2), Some(2), None, None, Some(0), Some(1), None]);
    assert_eq!(of_rows(&step, 2), [Some(2), Some(2), Some(0), Some(0), Some(0), Some(1), None]);
}

#[test]
fn rows_without_a_mask_are_known_where_the_grammar_is() {
    let unmasked = vec![row(0, 0)];
    assert_eq!(of_rows(&constrained(unmasked.clone()), 3), [Some(1), Some(0), Some(0), Some(0), Some(0), None, None]);
    assert_eq!(of_rows(&step(1, 0, unmasked), 3), [Some(1), None, None, None, Some(0), None, None]);
}

#[test]
fn one_unknown_row_makes_the_count_unknown() {
    let known = constrained(vec![forced(Some(0)), forced(Some(4)), masked(Some(9)), masked(None)]);
    assert_eq!(of_rows(&known, 3), [Some(4), Some(4), Some(2), Some(1), Some(0), Some(1), Some(4)]);
    let no_rank = constrained(vec![forced(Some(4)), forced(None)]);
    assert_eq!(of_rows(&no_rank, 3), [Some(2), Some(2), Some(2), None, Some(0), Some(1), None]);
    let no_population = RowRecord { mask_population: None, ..masked(Some(3)) };
    let no_population = constrained(vec![masked(Some(9)), no_population]);
    assert_eq!(of_rows(&no_population, 3)[5], None);
    let no_applied_mask = RowRecord { token: Some(7), ..masked(None) };
    assert_eq!(of_rows(&constrained(vec![masked(Some(9)), no_applied_mask]), 3)[5], None);
    let no_statistics = RowRecord { statistics: None, ..masked(Some(9)) };
    assert_eq!(of_rows(&constrained(vec![no_statistics, masked(Some(9))]), 3)[4], None);
    let no_scheduler_mask = RowRecord { scheduler_mask: None, ..masked(Some(9)) };
    assert_eq!(of_rows(&constrained(vec![no_scheduler_mask]), 3)[2..4], [None, None]);
}

#[test]
fn lines_of_a_step_say_the_same() {
    let mut conditions = Conditions::of_format(FORMAT_VERSION);
    conditions.push_lines(&step(5, 0, vec![]), 3);
    conditions.push(&step(6, 0, vec![]));
    let first = |conditions: &Conditions| match conditions.columns().next() {
        Some((_, Values::Large(steps))) => steps.values().to_vec(),
        _ => vec![],
    };
    assert_eq!((conditions.len(), first(&conditions)), (4, vec![Some(5), Some(5), Some(5), Some(6)]));
    conditions.forget(2);
    assert_eq!((conditions.len(), first(&conditions)), (2, vec![Some(5), Some(6)]));
    assert_eq!((conditions.take().len(), conditions.is_empty()), (2, true));
}
