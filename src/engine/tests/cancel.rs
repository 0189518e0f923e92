//! Requests that nobody waits for any more.

use super::*;

const LONG: &str = r#""max_tokens": 40, "temperature": 0"#;
const CHOICES: &str = r#""max_tokens": 40, "seed": 1, "n": 3"#;

#[test]
fn a_cancelled_request_leaves_the_others_as_they_are() {
    for recurrent in [false, true] {
        // In line, in the prompt, after some tokens.
        for steps in [0, 1, 4, 9] {
            let (mut engine, _) = Setup { max_batch: 2, ..Setup::new(recurrent) }.engine();
            let (kept, gone, later) = (job(1, 50, LONG), job(2, 70, CHOICES), job(3, 40, LONG));
            let kept_request = submit(&mut engine, &kept);
            let gone_request = submit(&mut engine, &gone);
            let later_request = submit(&mut engine, &later);
            for _ in 0..steps {
                assert_eq!(engine.step().expect("the fake backend does not fail"), []);
            }
            let ended = engine.cancel(gone_request);
            assert_eq!(ended.len(), 3, "after {steps} steps");
            assert!(ended.iter().all(|choice| choice.reason == FinishReason::Cancelled));
            assert_eq!(engine.cancel(gone_request), [], "once");
            assert_eq!(engine.load(), (usize::from(steps > 0), 2 - usize::from(steps > 0)), "only the others are left");
            let finished = run(&mut engine);
            assert_eq!(tokens_of(&finished, kept_request), kept.expected(recurrent));
            assert_eq!(tokens_of(&finished, later_request), later.expected(recurrent));
            assert_eq!(engine.load(), (0, 0));
            let cancelled = engine.tap.finished.iter().filter(|(_, reason)| *reason == FinishReason::Cancelled);
            assert_eq!(cancelled.count(), 3, "each choice is on record");
            let again = submit(&mut engine, &gone);
            let finished = run(&mut engine);
            assert_eq!(tokens_of(&finished, again), gone.expected(recurrent));
            let cached = engine.tap.steps.iter().filter(|step| step.sequence == first_choice(again));
            assert_eq!(cached.map(|step| step.cached_prefix).sum::<usize>(), 0, "what was cancelled is not cached");
        }
    }
}
