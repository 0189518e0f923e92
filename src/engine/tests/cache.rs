//! What the prefix cache saves, and whom it serves.

use super::*;

const GREEDY: &str = r#""max_tokens": 2, "temperature": 0"#;

/// Positions that each choice of a request took from the cache.
fn cached(engine: &Engine<Seen>, request: RequestId) -> Vec<usize> {
    let mut by_choice = BTreeMap::new();
    for step in engine.tap.steps.iter().filter(|step| step.sequence.request == request) {
        *by_choice.entry(step.sequence).or_default() += step.cached_prefix;
    }
    by_choice.into_values().collect()
}

fn run_one(engine: &mut Engine<Seen>, job: &Job) -> (RequestId, usize) {
    let request = submit(engine, job);
    run(engine);
    (request, cached(engine, request)[0])
}

#[test]
fn a_finished_request_warms_the_cache_for_others() {
    for recurrent in [false, true] {
        let (mut engine, _) = Setup::new(recurrent).engine();
        let long = job(1, 100, GREEDY);
        assert_eq!(run_one(&mut engine, &long).1, 0);
        assert_eq!(run_one(&mut engine, &long).1, 96);
        assert_eq!(run_one(&mut engine, &job(1, 64, GREEDY)).1, 32, "the last token is computed");
        assert_eq!(run_one(&mut engine, &job(2, 100, GREEDY)).1, 0);
    }
}

#[test]
fn pages_that_decoding_filled_are_cached_too() {
    for recurrent in [false, true] {
        let (mut engine, _) = Setup::new(recurrent).engine();
        let first = job(1, 50, r#""max_tokens": 60, "temperature": 0"#);
        let answer = first.expected(recurrent).remove(0);
        run_one(&mut engine, &first);
        let continued = Job { prompt: first.prompt.iter().copied().chain(answer).collect(), ..first };
        let (request, cached) = run_one(&mut engine, &continued);
        assert_eq!(cached, 96, "109 positions were read");
        let emitted: Vec<_> = engine
            .tap
            .steps
            .iter()
            .filter(|step| step.sequence.request == request)
            .flat_map(|step| step.emitted.clone())
            .collect();
        assert_eq!(emitted, continued.expected(recurrent)[0]);
    }
}

#[test]
fn nothing_is_cached_when_the_cache_is_off() {
    let (mut engine, _) = Setup { prefix_cache: false, ..Setup::new(true) }.engine();
    let long = job(1, 100, GREEDY);
    assert_eq!(run_one(&mut engine, &long).1, 0);
    assert_eq!(run_one(&mut engine, &long).1, 0);
}

#[test]
fn the_choices_of_a_request_share_its_prompt() {
    for recurrent in [false, true] {
        let (mut engine, _) = Setup::new(recurrent).engine();
        let several = job(1, 100, r#""max_tokens": 3, "temperature": 1.0, "seed": 3, "n": 4"#);
        let request = submit(&mut engine, &several);
        assert_eq!(tokens_of(&run(&mut engine), request), several.expected(recurrent));
        assert_eq!(cached(&engine, request), [0, 96, 96, 96]);
    }
}

#[test]
fn a_running_request_shares_with_its_own_choices_alone() {
    let (mut engine, _) = Setup { max_batch: 8, ..Setup::new(true) }.engine();
    let several = job(1, 100, r#""max_tokens": 30, "temperature": 1.0, "seed": 3, "n": 2"#);
    let first = submit(&mut engine, &several);
    for _ in 0..6 {
        engine.step().unwrap();
    }
    let second = submit(&mut engine, &several);
    run(&mut engine);
    assert_eq!(cached(&engine, first), [0, 96]);
    assert_eq!(cached(&engine, second), [0, 96], "the first one had not finished");
}

#[test]
fn a_small_pool_evicts_and_goes_on() {
    for recurrent in [false, true] {
        let (mut engine, _) = Setup { pages: 8, max_batch: 2, ..Setup::new(recurrent) }.engine();
        for round in 0..20 {
            let job = job(round % 5, 90, r#""max_tokens": 8, "temperature": 0"#);
            let request = submit(&mut engine, &job);
            assert_eq!(tokens_of(&run(&mut engine), request), job.expected(recurrent), "round {round}");
        }
        assert!(engine.state.cached_pages() > 4, "{} pages cached", engine.state.cached_pages());
    }
}
