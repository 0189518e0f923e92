//! A row that must not become a token ends its request, takes what its owner computed with it, and nothing else.

use super::super::fake::{Planted, VOCABULARY};
use super::*;

const GREEDY: &str = r#""max_tokens": 20, "temperature": 0"#;
const SAMPLED: &str = r#""max_tokens": 20, "temperature": 1.0, "seed": 7"#;
const WARM: &str = r#""max_tokens": 20, "temperature": 0.6, "seed": 0, "top_p": 0.9, "min_p": 0.05"#;

/// The incident's rows: of 64 elements, NaN, +infinity, or nothing above -infinity.
fn invalid_rows() -> Vec<(&'static str, Vec<f32>)> {
    let with = |value: f32| {
        let mut row: Vec<f32> = (0..VOCABULARY).map(|id| id as f32 / 8.0).collect();
        row[19] = value;
        row
    };
    vec![
        ("a NaN", with(f32::NAN)),
        ("a +infinity", with(f32::INFINITY)),
        ("all NaN", vec![f32::NAN; VOCABULARY]),
        ("all -infinity", vec![f32::NEG_INFINITY; VOCABULARY]),
    ]
}

fn in_session(job: Job, session: &'static str) -> Job {
    Job { session: Some(session), ..job }
}

fn plant(shared: &Mutex<Shared>, job: &Job, emitted: usize, row: Vec<f32>) {
    let length = job.prompt.len() + emitted;
    shared.lock().unwrap().planted.push(Planted { first_token: job.prompt[0], length, row });
}

#[test]
fn an_invalid_row_never_becomes_a_token() {
    for recurrent in [false, true] {
        for fields in [GREEDY, SAMPLED, WARM] {
            for (name, row) in invalid_rows() {
                for emitted in [0, 5] {
                    let (mut engine, shared) = Setup::new(recurrent).engine();
                    let (before, bad, after) = (job(1, 40, fields), job(2, 40, fields), job(3, 70, fields));
                    plant(&shared, &bad, emitted, row.clone());
                    let requests = [&before, &bad, &after].map(|job| submit(&mut engine, job));
                    let finished = run(&mut engine);
                    let failed = &finished[&first_choice(requests[1])];
                    assert!(
                        matches!(&failed.reason, FinishReason::Failed(why) if why.contains("invalid logits row")),
                        "{name}"
                    );
                    assert_eq!(failed.tokens, bad.expected(recurrent)[0][..emitted], "{name}: what came before stands");
                    assert_eq!(engine.tap.events, [(EventKind::InvalidRow, first_choice(requests[1]))], "{name}");
                    assert_eq!(tokens_of(&finished, requests[0]), before.expected(recurrent), "{name}");
                    assert_eq!(tokens_of(&finished, requests[2]), after.expected(recurrent), "{name}");
                    let again = submit(&mut engine, &bad);
                    assert_eq!(
                        tokens_of(&run(&mut engine), again),
                        bad.expected(recurrent),
                        "{name}: the next cold request"
                    );
                }
            }
        }
    }
}

#[test]
fn a_mask_with_a_finite_winner_is_legal() {
    let mut row = vec![f32::NEG_INFINITY; VOCABULARY];
    (row[1], row[3]) = (2.0, 1.0);
    for fields in [r#""max_tokens": 1, "temperature": 0"#, r#""max_tokens": 1, "temperature": 1.0, "seed": 5"#] {
        let (mut engine, shared) = Setup::new(false).engine();
        let job = job(1, 40, fields);
        plant(&shared, &job, 0, row.clone());
        let request = submit(&mut engine, &job);
        let token = tokens_of(&run(&mut engine), request)[0][0];
        assert!([TokenId(1), TokenId(3)].contains(&token), "{token}");
    }
}

#[test]
fn parameters_that_leave_nothing_fail_their_request_alone() {
    let mut row = vec![f32::NEG_INFINITY; VOCABULARY];
    row[5] = 0.0;
    let (mut engine, shared) = Setup::new(false).engine();
    let masked = job(1, 4, r#""max_tokens": 9, "min_tokens": 9, "stop_token_ids": [5], "temperature": 0"#);
    let other = job(2, 4, GREEDY);
    plant(&shared, &masked, 0, row);
    let requests = [&masked, &other].map(|job| submit(&mut engine, job));
    let finished = run(&mut engine);
    assert!(matches!(finished[&first_choice(requests[0])].reason, FinishReason::Failed(_)));
    assert_eq!(engine.tap.events, [(EventKind::NothingToSample, first_choice(requests[0]))]);
    assert_eq!(tokens_of(&finished, requests[1]), other.expected(false));
}

#[test]
fn a_failed_choice_ends_all_choices_of_its_request() {
    for (max_batch, begun) in [(8, 4), (1, 1)] {
        let (mut engine, shared) = Setup { max_batch, ..Setup::new(true) }.engine();
        let several = job(1, 40, r#""max_tokens": 20, "temperature": 0, "n": 4"#);
        plant(&shared, &several, 5, vec![f32::NAN; VOCABULARY]);
        let request = submit(&mut engine, &several);
        let finished = run(&mut engine);
        assert_eq!(finished.len(), 4);
        assert!(finished.values().all(|choice| matches!(choice.reason, FinishReason::Failed(_))));
        assert_eq!(finished.values().filter(|choice| !choice.tokens.is_empty()).count(), begun);
        assert_eq!((engine.tap.finished.len(), engine.tap.events.len()), (4, 1));
        let again = submit(&mut engine, &several);
        assert_eq!(tokens_of(&run(&mut engine), again), several.expected(true), "{request} left nothing behind");
        assert_eq!(engine.state.pages_in_use(), engine.state.cached_pages());
    }
}

/// Positions that a job takes from the cache when it is run now.
fn cached(engine: &mut Engine<Seen>, job: &Job) -> usize {
    let request = submit(engine, job);
    run(engine);
    engine.tap.steps.iter().filter(|step| step.sequence.request == request).map(|step| step.cached_prefix).sum()
}

#[test]
fn a_failure_takes_the_session_out_of_the_cache_and_leaves_the_others() {
    for recurrent in [false, true] {
        let (mut engine, shared) = Setup::new(recurrent).engine();
        let (failing, other) = (in_session(job(1, 70, GREEDY), "a"), in_session(job(2, 70, GREEDY), "b"));
        assert_eq!(cached(&mut engine, &failing), 0);
        assert_eq!(cached(&mut engine, &other), 0);
        let shared_by_c = in_session(failing.clone(), "c");
        assert_eq!(cached(&mut engine, &shared_by_c), 64, "c runs on what a computed");

        plant(&shared, &failing, 3, vec![f32::NAN; VOCABULARY]);
        assert_eq!(cached(&mut engine, &failing), 64, "a fails in the middle of a warm request");
        assert_eq!(engine.tap.events.len(), 1);

        assert_eq!(cached(&mut engine, &other), 64, "b is still there");
        assert_eq!(cached(&mut engine, &shared_by_c), 64, "so is c, with what a computed");
        assert_eq!(cached(&mut engine, &in_session(failing.clone(), "d")), 0, "which nobody new is offered");
        assert_eq!(cached(&mut engine, &failing), 64, "until d has computed it anew");
    }
}

#[test]
fn the_failed_session_starts_cold() {
    let (mut engine, shared) = Setup::new(true).engine();
    let failing = in_session(job(1, 70, GREEDY), "a");
    plant(&shared, &failing, 3, vec![f32::NAN; VOCABULARY]);
    assert_eq!(cached(&mut engine, &failing), 0);
    assert_eq!(cached(&mut engine, &failing), 0, "not even the prefix that the bad row followed is kept");
    assert_eq!(cached(&mut engine, &failing), 64, "a valid finish is cached again");
}

#[test]
fn a_delayed_finish_does_not_republish_a_failed_session() {
    let (mut engine, shared) = Setup { max_batch: 4, ..Setup::new(true) }.engine();
    let long = in_session(job(1, 70, r#""max_tokens": 60, "temperature": 0"#), "a");
    let failing = in_session(job(2, 70, GREEDY), "a");
    plant(&shared, &failing, 3, vec![f32::NAN; VOCABULARY]);
    let long_request = submit(&mut engine, &long);
    submit(&mut engine, &failing);
    let finished = run(&mut engine);
    assert_eq!(tokens_of(&finished, long_request), long.expected(true), "the session's other request goes on");
    assert_eq!(engine.state.cached_pages(), 0);
}
