//! Drafts go through the same step: whatever is proposed, the tokens are those of plain decoding.

use super::*;
use crate::engine::state::pages_for;
use crate::engine::tests::{Job, Seen, Setup, job, submit};

/// Takes a step in which every decoding sequence verifies what `propose` says, given its job's answer and how much of it
/// has been emitted. Returns the greatest accepted length.
fn step_with_drafts(
    engine: &mut Engine<Seen>,
    answer: &[TokenId],
    propose: &mut impl FnMut(&[TokenId], usize) -> Vec<TokenId>,
) -> usize {
    let mut plan = engine.schedule().unwrap();
    for (share, entry) in plan.shares.iter_mut().zip(&mut plan.batch.entries).filter(|(share, _)| !share.prefill) {
        let sequence = &engine.scheduler.running()[share.sequence];
        let emitted = sequence.emitted().len();
        let mut drafts = propose(answer, emitted);
        drafts.truncate(answer.len() - emitted - 1);
        share.drafts = drafts.len();
        share.tokens.extend(drafts);
        entry.tokens = share.tokens.clone();
        let end = share.first_position.index() + share.tokens.len();
        entry.pages = sequence.holding.pages[..pages_for(end)].to_vec();
    }
    let output = engine.forward(&plan).unwrap();
    let mut outcomes = Vec::new();
    let mut row = 0;
    for share in &plan.shares {
        let outcome = engine.sample(share, &output, row);
        engine.commit(share, &outcome).unwrap();
        row += share.rows();
        outcomes.push(outcome);
    }
    let longest = outcomes.iter().map(|outcome| outcome.emitted.len()).max().unwrap_or(0);
    engine.report(&plan, &output, &outcomes, StepTimings::default());
    engine.retire(&plan, outcomes);
    longest
}

/// Runs `job` with drafts; the tokens it emitted, in all, and the longest accepted length.
fn run_with_drafts(
    engine: &mut Engine<Seen>,
    job: &Job,
    answer: &[TokenId],
    mut propose: impl FnMut(&[TokenId], usize) -> Vec<TokenId>,
) -> (Vec<TokenId>, usize) {
    let request = submit(engine, job);
    let mut longest = 0;
    while !engine.is_idle() {
        longest = longest.max(step_with_drafts(engine, answer, &mut propose));
    }
    let steps = engine.tap.steps.iter().filter(|step| step.sequence.request == request);
    (steps.flat_map(|step| step.emitted.clone()).collect(), longest)
}

#[test]
fn drafts_change_how_fast_tokens_come_and_nothing_else() {
    let sampled = r#""max_tokens": 90, "temperature": 0.9, "seed": 5, "repetition_penalty": 1.2"#;
    for recurrent in [false, true] {
        for job in [job(1, 45, r#""max_tokens": 90, "temperature": 0"#), job(2, 45, sampled)] {
            let (mut engine, _) = Setup::new(recurrent).engine();
            let answer = job.expected(recurrent).remove(0);
            let right = |answer: &[TokenId], emitted: usize, count: usize| {
                answer[emitted..].iter().take(count).copied().collect::<Vec<_>>()
            };
            let (all_right, longest) =
                run_with_drafts(&mut engine, &job, &answer, |answer, emitted| right(answer, emitted, 7));
            assert_eq!(
                (&all_right, longest),
                (&answer, 8),
                "every draft is accepted, and the bonus token comes on top"
            );
            let wrong = |answer: &[TokenId], emitted: usize| {
                right(answer, emitted, 7).into_iter().map(|token| TokenId((token.0 + 1) % 64)).collect()
            };
            let (all_wrong, longest) = run_with_drafts(&mut engine, &job, &answer, wrong);
            assert_eq!((&all_wrong, longest), (&answer, 1));
            // Lengths and the first wrong draft vary, so that a step is often shorter than what the one before accepted.
            let mut round = 0;
            let varied = |answer: &[TokenId], emitted: usize| {
                round += 1;
                let mut drafts = right(answer, emitted, [15, 2, 0, 9, 1, 4][round % 6]);
                if let Some(draft) = drafts.get_mut([13, 1, 5, 3][round % 4]) {
                    draft.0 = (draft.0 + 1) % 64;
                }
                drafts
            };
            let (varied, longest) = run_with_drafts(&mut engine, &job, &answer, varied);
            assert_eq!(varied, answer);
            assert!(longest > 8, "{longest}");
            let shrinks = engine
                .tap
                .steps
                .iter()
                .filter(|step| step.prev_accepted.is_some_and(|accepted| accepted > step.tokens));
            assert!(shrinks.count() > 3, "steps that are shorter than the accepted length before them");
        }
    }
}

#[test]
fn a_sequence_that_was_decoded_with_drafts_leaves_a_right_cache() {
    for recurrent in [false, true] {
        let (mut engine, _) = Setup::new(recurrent).engine();
        let first = job(1, 45, r#""max_tokens": 90, "temperature": 0"#);
        let answer = first.expected(recurrent).remove(0);
        run_with_drafts(&mut engine, &first, &answer, |answer, emitted| {
            answer[emitted..].iter().take(10).copied().collect()
        });
        let prompt = first.prompt.iter().chain(&answer).copied().collect();
        let second = Job { prompt, fields: r#""max_tokens": 20, "temperature": 0"#, ..first };
        let expected = second.expected(recurrent).remove(0);
        let (emitted, _) = run_with_drafts(&mut engine, &second, &expected, |_, _| Vec::new());
        assert_eq!(emitted, expected);
        let cached: usize = engine.tap.steps.iter().map(|step| step.cached_prefix).sum();
        assert_eq!(cached, 128, "134 positions were read");
    }
}
