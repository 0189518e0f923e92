//! Tables that are built step by step, and what is found in them.

use super::*;
use crate::capture::records::{FORMAT_VERSION, GrammarStep, StateRead, StepPath, StepRecord};
use crate::types::{ChoiceIndex, RequestId, SequenceId};

fn step(request: u64, step: u64) -> StepRecord {
    let bare = r#"{"step":"0","request":"0","choice":0,"first_position":2,"drafts":[],"emitted":[3]}"#;
    StepRecord { step, request, path: Some(StepPath::Decode), ..serde_json::from_str(bare).unwrap() }
}

fn sequence(request: u64) -> SequenceId {
    SequenceId { request: RequestId(request), choice: ChoiceIndex(0) }
}

/// Steps of a sequence, each with how it is judged; and how the sequence is, as a whole.
type Judged = (Option<Judgement>, Vec<(StepRecord, Judgement)>);

/// A table of sequences.
fn table(unit: UnitOfTable, is_censored: bool, sequences: Vec<Judged>) -> Table {
    let mut builder = TableBuilder::new(unit, is_censored, &[]);
    for (request, (whole, steps)) in (0..).zip(sequences) {
        builder.begin(0, sequence(request), FORMAT_VERSION, whole);
        steps.iter().for_each(|(step, judgement)| builder.add(step, *judgement));
    }
    builder.finish()
}

fn settings(permutations: usize) -> Settings {
    Settings { permutations, seed: 1 }
}

/// The counts of a predicate by its text, known of the table.
fn truth(table: &Table, text: &str) -> predicate::Truth {
    let all = predicate::Predicate::all(table);
    let found = all.iter().find(|predicate| predicate.text(table) == text);
    found.unwrap_or_else(|| panic!("no `{text}`")).truth(table)
}

#[test]
fn the_first_failure_counts_and_what_comes_after_does_not() {
    use Judgement::{Failing, NoSite, Passing, Unknown};
    let judgements = [Passing, NoSite, Failing, Passing, Failing, Unknown];
    let steps =
        || judgements.iter().enumerate().map(|(index, judgement)| (step(0, index as u64), *judgement)).collect();
    let censored = table(UnitOfTable::Step, true, vec![(None, steps()), (None, vec![(step(1, 9), Passing)])]);
    let reading = censored.reading;
    assert_eq!((reading.failing, reading.passing, reading.censored), (1, 2, 2));
    assert_eq!((reading.no_site, reading.unknown, reading.steps, reading.failing_sequences), (1, 1, 7, 1));
    assert_eq!(censored.sequences, [0..4, 4..5]);
    assert_eq!(censored.places.iter().map(|place| place.step).collect::<Vec<_>>(), [0, 2, 3, 4, 9]);
    assert_eq!(censored.counted.iter().collect::<Vec<_>>(), [0, 1, 4]);
    assert_eq!(censored.failing.iter().collect::<Vec<_>>(), [1]);
    let every = table(UnitOfTable::Step, false, vec![(None, steps())]).reading;
    assert_eq!((every.failing, every.passing, every.censored), (2, 2, 0));
}

#[test]
fn the_step_before_is_that_of_the_same_sequence_judged_or_not() {
    let with = |request, number, q_len: Option<u32>| StepRecord { q_len, ..step(request, number) };
    let mut builder = TableBuilder::new(UnitOfTable::Step, true, &[]);
    builder.begin(0, sequence(0), FORMAT_VERSION, None);
    builder.add(&with(0, 0, Some(7)), Judgement::NoSite);
    builder.add(&with(0, 1, Some(3)), Judgement::Passing);
    builder.unreadable();
    builder.add(&with(0, 3, Some(4)), Judgement::Passing);
    builder.add(&with(0, 4, Some(7)), Judgement::Passing);
    builder.begin(0, sequence(1), FORMAT_VERSION, None);
    builder.add(&with(1, 5, Some(7)), Judgement::Passing);
    builder.add(&with(1, 6, None), Judgement::Passing);
    let table = builder.finish();
    let shrunk = truth(&table, "q_len < previous.q_len");
    // Known of the second and the fourth: an unreadable step, the first of a sequence and an unknown value have none.
    assert_eq!(shrunk.known.iter().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(shrunk.holds.iter().collect::<Vec<_>>(), [0]);
    assert_eq!(table.reading.unreadable, 1);
}

#[test]
fn a_condition_holds_of_an_answer_that_holds_in_one_of_its_steps() {
    let with = |q_len| (StepRecord { q_len, ..step(0, 0) }, Judgement::NoSite);
    let sequences = vec![
        (Some(Judgement::Failing), vec![with(Some(1)), with(Some(5))]),
        (Some(Judgement::Passing), vec![with(Some(1)), with(Some(1))]),
        (Some(Judgement::NoSite), vec![with(Some(5))]),
        (Some(Judgement::Passing), vec![with(Some(1)), with(None)]),
        (Some(Judgement::Passing), vec![with(Some(5)), with(None)]),
    ];
    let table = table(UnitOfTable::Sequence, true, sequences);
    assert_eq!((table.len(), table.failing.count(), table.reading.no_site), (4, 1, 1));
    let five = truth(&table, "q_len == 5");
    assert_eq!(five.holds.iter().collect::<Vec<_>>(), [0, 3]);
    assert_eq!(
        five.known.iter().collect::<Vec<_>>(),
        [0, 1, 3],
        "unknown in one step and false in the others is unknown"
    );
}

/// Numbers that follow from nothing.
fn scramble(number: u64) -> u64 {
    crate::arith::scalar::mix(number)
}

/// Steps of many requests with a condition or two, and their judgement.
fn many(requests: u64, fails: impl Fn(&StepRecord) -> bool) -> Table {
    some(requests, true, fails)
}

fn some(requests: u64, is_censored: bool, fails: impl Fn(&StepRecord) -> bool) -> Table {
    let steps = |request: u64| -> Judged {
        let of_request = (0..10).map(|number| {
            let noise = scramble(request * 10 + number);
            let value = |shift: u32, bound: u64| (noise >> shift) % bound;
            let step = StepRecord {
                q_len: Some(value(0, 6) as u32 + 1),
                prev_accepted: Some(value(8, 6) as u32 + 1),
                state: Some(StateRead { slot: value(16, 5) as u32, column: value(24, 6) as u32 }),
                cached_prefix: Some(value(32, 2) as u32),
                grammar: Some(GrammarStep {
                    before: number,
                    after: number,
                    terminated: false,
                    reasoning: value(40, 4) == 0,
                }),
                ..step(request, number)
            };
            let judgement = if fails(&step) { Judgement::Failing } else { Judgement::Passing };
            (step, judgement)
        });
        (None, of_request.collect())
    };
    table(UnitOfTable::Step, is_censored, (0..requests).map(steps).collect())
}

#[test]
fn two_conditions_are_found_one_after_the_other() {
    let table = many(200, |step| step.prev_accepted.unwrap() > step.q_len.unwrap() || step.state.unwrap().slot == 2);
    let correlation = correlate(&table, settings(0));
    let names: Vec<&str> = correlation.ranked.iter().map(|ranked| ranked.predicate.as_str()).collect();
    assert_eq!(names, ["prev_accepted > q_len", "state_slot == 2"]);
    let explained: u64 = correlation.ranked.iter().map(|ranked| ranked.explains.len() as u64).sum();
    assert_eq!((explained, correlation.not_explained), (table.failing.count(), 0));
}

#[test]
fn two_conditions_together_are_told_where_they_beat_both() {
    let table = many(200, |step| step.cached_prefix == Some(1) && step.state.unwrap().slot == 2);
    let correlation = correlate(&table, settings(0));
    let predicate = correlation.ranked[0].predicate.as_str();
    assert!(
        ["state_slot == 2 and cached_prefix > 0", "cached_prefix > 0 and state_slot == 2"].contains(&predicate),
        "{predicate}"
    );
    assert_eq!((correlation.ranked[0].counts.failing_false, correlation.not_explained), (0, 0));
}

#[test]
fn a_conjunction_that_adds_nothing_is_not_told() {
    let table =
        many(100, |step| step.cached_prefix == Some(1) && scramble(step.step + step.request * 77).is_multiple_of(3));
    let correlation = correlate(&table, settings(0));
    assert_eq!(correlation.ranked[0].predicate, "cached_prefix > 0", "{:?}", correlation.ranked);
    assert!(correlation.ranked[0].equivalents.contains(&"cached_prefix == 1".to_owned()));
    assert_eq!(correlation.ranked.len(), 1, "{:?}", correlation.ranked);
}

#[test]
fn what_holds_in_every_first_step_is_told_from_requests_by_the_steps_after_it() {
    let fails = |step: &StepRecord| step.step == 0 && !step.request.is_multiple_of(5);
    // Four requests of five may fail whatever they do, and then they do so at once.
    let censored = correlate(&some(60, true, fails), settings(0));
    assert!(censored.ranked.is_empty() && censored.unable > 0, "{:?}", censored.ranked);
    let every = correlate(&some(60, false, fails), settings(50));
    assert_eq!(every.ranked[0].predicate, "grammar_before == 0", "{:?}", every.ranked);
    assert_eq!(every.ranked[0].way, Way::WithinRequests);
    assert!(every.permutations_reporting <= 5, "{}", every.permutations_reporting);
}

#[test]
fn what_grows_or_shrinks_along_requests_of_which_some_fail_more_is_no_condition() {
    let reports = |salt: u64, grows: bool| {
        let steps = |request: u64| -> Judged {
            let is_hard = request.is_multiple_of(2);
            let of_request = (0..16).map(|number| {
                let along = if grows { number } else { 16 - number } as u32;
                // The hard ones begin further on, for reasons of their own: going on, the others come there, too.
                let start = if is_hard && grows { 8 } else { 0 };
                let step = StepRecord { cached_prefix: Some(along + start), ..step(request, number) };
                let fails =
                    scramble(salt ^ scramble(number + request * 77)).is_multiple_of(if is_hard { 8 } else { 200 });
                (step, if fails { Judgement::Failing } else { Judgement::Passing })
            });
            (None, of_request.collect())
        };
        let table = table(UnitOfTable::Step, true, (0..80).map(steps).collect());
        !correlate(&table, settings(0)).ranked.is_empty()
    };
    for grows in [true, false] {
        let reporting = (0..40).filter(|salt| reports(*salt, grows)).count();
        assert!(reporting <= 4, "{reporting} of 40, grows: {grows}");
    }
}

#[test]
fn the_control_censors_as_the_labels_are_censored() {
    let table = many(60, |step| scramble(step.step + step.request * 77).is_multiple_of(6));
    let real = testing::Bench::new(&table).real;
    for arm in control::arms(&table, &real, 5, 1) {
        let counted = arm.counted.expect("a censored table");
        for units in &table.sequences {
            let first = arm.failing.first_in(units);
            assert_eq!(arm.failing.count_in(units), table.failing.count_in(units));
            assert_eq!(counted.count_in(units), (first.map_or(units.end, |unit| unit + 1) - units.start) as u64);
        }
        assert!(arm.failing != table.failing);
    }
}

#[test]
fn nothing_goes_with_failures_by_chance() {
    let reports = |salt: u64| {
        let table = many(60, |step| scramble(salt ^ scramble(step.step + step.request * 77)).is_multiple_of(20));
        !correlate(&table, settings(0)).ranked.is_empty()
    };
    let reporting = (0..40).filter(|salt| reports(*salt)).count();
    assert!(reporting <= 4, "{reporting} of 40");
}

#[test]
fn too_few_failures_tell_nothing() {
    let table = many(50, |step| step.request == 3 && step.step == 5);
    let correlation = correlate(&table, settings(10));
    assert!(correlation.ranked.is_empty() && correlation.not_explained == 1);
    let empty = correlate(&table_of_nothing(), settings(10));
    assert!(empty.ranked.is_empty() && empty.tested == 0 && empty.permutations_reporting == 0);
}

fn table_of_nothing() -> Table {
    table(UnitOfTable::Step, true, vec![])
}

/// A measurement: `cargo test --lib a_million_steps -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement of half a minute"]
fn a_million_steps() {
    let table = a_million();
    for permutations in [0, 200] {
        let start = std::time::Instant::now();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let correlation = pool.install(|| correlate(&table, settings(permutations)));
        let first = correlation.ranked.first().map(|ranked| ranked.predicate.as_str());
        let (made, tested) = (correlation.predicates, correlation.tested);
        let time = start.elapsed();
        println!(
            "{made} predicates of {} steps, {tested} tested, {permutations} permutations, one thread: {time:?}, {first:?}",
            table.len()
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("no peak known"));
}

/// 100,000 requests of ten steps, none of them left out.
fn a_million() -> Table {
    let mut builder = TableBuilder::new(UnitOfTable::Step, false, &[]);
    for request in 0..100_000 {
        builder.begin(0, sequence(request), FORMAT_VERSION, None);
        for number in 0..10 {
            let noise = scramble(request * 10 + number);
            let value = |shift: u32, bound: u64| (noise >> shift) % bound;
            let (q_len, prev_accepted) = (value(0, 6) as u32 + 1, value(8, 6) as u32 + 1);
            let step = StepRecord {
                q_len: Some(q_len),
                prev_accepted: Some(prev_accepted),
                state: Some(StateRead { slot: value(16, 5) as u32, column: prev_accepted - 1 }),
                cached_prefix: Some(value(32, 2) as u32),
                grammar: Some(GrammarStep { before: number, after: number + 1, terminated: false, reasoning: false }),
                ..step(request, number)
            };
            let fails = scramble(noise).is_multiple_of(if prev_accepted > q_len { 10 } else { 300 });
            builder.add(&step, if fails { Judgement::Failing } else { Judgement::Passing });
        }
    }
    builder.finish()
}
