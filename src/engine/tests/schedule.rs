//! Any schedule gives the tokens of plain decoding, and nobody waits forever.

use super::*;

const SEEDED: &str = r#""max_tokens": 40, "temperature": 0.8, "seed": 7, "top_p": 0.9, "frequency_penalty": 0.3"#;

fn jobs() -> Vec<Job> {
    vec![
        job(1, 1, r#""max_tokens": 70, "temperature": 0"#),
        job(2, 31, SEEDED),
        job(3, 32, SEEDED),
        job(3, 33, r#""max_tokens": 5, "temperature": 0"#),
        job(4, 130, r#""max_tokens": 1, "temperature": 0"#),
        job(5, 64, r#""max_tokens": 34, "temperature": 1.0, "seed": 0, "n": 3"#),
        job(6, 390, r#""max_tokens": 100, "temperature": 0"#),
        job(5, 64, r#""max_tokens": 34, "temperature": 1.0, "seed": 1, "min_p": 0.05"#),
    ]
}

#[test]
fn any_schedule_gives_the_tokens_of_plain_decoding() {
    let jobs = jobs();
    for recurrent in [false, true] {
        let expected: Vec<_> = jobs.iter().map(|job| job.expected(recurrent)).collect();
        for (max_batch, prefill_chunk, prefix_cache, pages) in [
            (1, 1, false, 13),
            (1, 512, true, 13),
            (3, 7, true, 14),
            (3, 40, false, 64),
            (8, 33, true, 64),
            (8, 500, true, 20),
        ] {
            let setup = Setup { max_batch, prefill_chunk, prefix_cache, recurrent, pages };
            let (mut engine, _) = setup.engine();
            // Twice, so that the second round finds a warm cache.
            for round in ["cold", "warm"] {
                let requests: Vec<_> = jobs.iter().map(|job| submit(&mut engine, job)).collect();
                let finished = run(&mut engine);
                for (index, (request, expected)) in requests.into_iter().zip(&expected).enumerate() {
                    assert_eq!(&tokens_of(&finished, request), expected, "{setup:?}, {round}, job {index}");
                }
            }
            let mut prefilled: BTreeMap<StepId, usize> = BTreeMap::new();
            for step in engine.tap.steps.iter().filter(|step| step.prefill) {
                *prefilled.entry(step.step).or_default() += step.tokens;
            }
            assert!(prefilled.values().all(|&tokens| tokens <= prefill_chunk), "{setup:?}: {prefilled:?}");
            assert_eq!(engine.state.pages_in_use(), engine.state.cached_pages(), "{setup:?}: every page is given back");
        }
    }
}

#[test]
fn ends_for_length_and_for_a_full_context() {
    let (mut engine, _) = Setup::new(false).engine();
    let short = submit(&mut engine, &job(1, 4, r#""max_tokens": 3, "temperature": 0"#));
    let full = submit(&mut engine, &job(2, CONTEXT - 2, r#""max_tokens": 3, "temperature": 0"#));
    let finished = run(&mut engine);
    assert_eq!(finished[&first_choice(short)].reason, FinishReason::MaxTokens);
    assert_eq!(finished[&first_choice(full)].reason, FinishReason::ContextFull);
    assert_eq!(finished[&first_choice(full)].tokens.len(), 2);
}

#[test]
fn every_running_sequence_decodes_in_every_step() {
    let (mut engine, _) = Setup { max_batch: 2, prefill_chunk: 8, ..Setup::new(false) }.engine();
    let decoding = submit(&mut engine, &job(1, 4, r#""max_tokens": 30, "temperature": 0"#));
    submit(&mut engine, &job(2, 200, r#""max_tokens": 2, "temperature": 0"#));
    run(&mut engine);
    let steps: Vec<_> = engine.tap.steps.iter().filter(|step| step.batch.len() == 2).collect();
    let prefill: Vec<_> = steps.iter().filter(|step| step.prefill).map(|step| step.tokens).collect();
    assert!(prefill.len() > 20 && prefill.iter().all(|&tokens| tokens <= 8), "{prefill:?}");
    let decoded = steps.iter().filter(|step| step.sequence == first_choice(decoding) && !step.prefill);
    assert_eq!(decoded.count(), prefill.len() - 1, "one decode row beside each chunk but the first, shared one");
}

#[test]
fn nobody_overtakes_a_request_that_waits_for_pages() {
    let (mut engine, _) = Setup { max_batch: 3, pages: 13, ..Setup::new(false) }.engine();
    let first = submit(&mut engine, &job(1, 40, r#""max_tokens": 60, "temperature": 0"#));
    let large = submit(&mut engine, &job(2, 380, r#""max_tokens": 15, "temperature": 0"#));
    let small: Vec<_> =
        (3..6).map(|first| submit(&mut engine, &job(first, 4, r#""max_tokens": 2, "temperature": 0"#))).collect();
    run(&mut engine);
    let order: Vec<_> = engine.tap.finished.iter().map(|(sequence, _)| sequence.request).collect();
    assert_eq!(order[..2], [first, large]);
    assert_eq!(order[2..], small);
}

#[test]
fn a_decode_step_says_what_the_one_before_accepted() {
    let (mut engine, _) = Setup::new(true).engine();
    submit(&mut engine, &job(1, 50, r#""max_tokens": 4, "temperature": 0"#));
    run(&mut engine);
    let steps = &engine.tap.steps;
    let facts: Vec<_> = steps.iter().map(|step| (step.prefill, step.tokens, step.prev_accepted, step.column)).collect();
    let decode = (false, 1, Some(1), Some(0));
    assert_eq!(facts, [(true, 40, None, Some(0)), (true, 10, None, Some(0)), decode, decode, decode]);
    assert_eq!(steps.iter().map(|step| step.emitted.len()).collect::<Vec<_>>(), [0, 1, 1, 1, 1]);
}

#[test]
fn refuses_what_could_never_run_and_goes_on() {
    let (mut engine, _) = Setup { pages: 8, ..Setup::new(false) }.engine();
    let refusal = |engine: &mut Engine<Seen>, job: Job| engine.submit(job.submission()).1.unwrap_err();
    let fields = r#""max_tokens": 1, "temperature": 0"#;
    assert_eq!(refusal(&mut engine, job(1, 0, fields)), RefusalReason::EmptyPrompt);
    let too_long = RefusalReason::PromptTooLong { prompt: CONTEXT, context: CONTEXT };
    assert_eq!(refusal(&mut engine, job(1, CONTEXT, fields)), too_long);
    let unknown = Job { prompt: vec![TokenId(3), TokenId(64)], ..job(1, 0, fields) };
    assert!(matches!(refusal(&mut engine, unknown), RefusalReason::UnknownToken { position: 1, .. }));
    let pages = refusal(&mut engine, job(1, 100, r#""max_tokens": 158, "temperature": 0"#));
    assert_eq!(pages, RefusalReason::TooManyPages { needed: 9, pages: 8 });
    let request = submit(&mut engine, &job(1, 100, r#""max_tokens": 157, "temperature": 0"#));
    assert_eq!(request, RequestId(4), "refused requests have numbers as well");
    assert_eq!(tokens_of(&run(&mut engine), request)[0].len(), 157);
}
