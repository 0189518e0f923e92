//! Drafts go through the step: whatever is proposed, the tokens are those of plain decoding.

use super::*;
use crate::backend::BackendError;
use crate::engine::drafter::{DraftContext, Drafter, ModelDrafter};
use crate::engine::fake::{FakeBackend, VOCABULARY};
use crate::engine::sampler::VerifyRule;
use crate::engine::speculation::{Scheduling, Speculation};
use crate::engine::tests::{Job, Seen, Setup, job, submit};

const DRAFTS: usize = 15;

/// What a test proposes, given how many tokens were emitted.
struct Proposing<F>(F);

impl<F: FnMut(usize) -> Vec<TokenId> + Send> Drafter for Proposing<F> {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        let mut propose = |context: &DraftContext<'_>| (self.0)(context.tokens.len() - context.prompt);
        Ok(sequences.iter().map(|context| propose(context).into_iter().map(Draft::certain).collect()).collect())
    }
}

fn speculating(setup: Setup, scheduling: Scheduling, drafter: impl Drafter + 'static) -> Engine<Seen> {
    let speculation = Speculation { drafts: DRAFTS, scheduling, rule: VerifyRule::Coupled };
    setup.engine().0.speculate(Box::new(drafter), speculation).unwrap()
}

/// Runs `job`; the tokens it emitted, in all, and the longest accepted length.
fn run(engine: &mut Engine<Seen>, job: &Job) -> (Vec<TokenId>, usize) {
    let request = submit(engine, job);
    while !engine.is_idle() {
        engine.step().unwrap();
    }
    let steps = || engine.tap.steps.iter().filter(|step| step.sequence.request == request);
    let longest = steps().map(|step| step.emitted.len()).max().unwrap_or(0);
    (steps().flat_map(|step| step.emitted.clone()).collect(), longest)
}

const SCHEDULINGS: [Scheduling; 2] = [Scheduling::Sync, Scheduling::Async];
const GREEDY: &str = r#""max_tokens": 90, "temperature": 0"#;
const SAMPLED: &str = r#""max_tokens": 90, "temperature": 0.9, "seed": 5, "repetition_penalty": 1.2, "logprobs": 2"#;

/// Each way of running, with a job and its answer.
fn cases() -> impl Iterator<Item = (Setup, Scheduling, Job, Vec<TokenId>)> {
    let ways = [false, true].into_iter().flat_map(|recurrent| SCHEDULINGS.map(|scheduling| (recurrent, scheduling)));
    ways.flat_map(|(recurrent, scheduling)| {
        [job(1, 45, GREEDY), job(2, 45, SAMPLED)].map(|job| {
            let answer = job.expected(recurrent).remove(0);
            (Setup::new(recurrent), scheduling, job, answer)
        })
    })
}

fn wrong(token: TokenId) -> TokenId {
    TokenId((token.0 + 1) % VOCABULARY as u32)
}

#[test]
fn right_drafts_are_all_accepted_and_the_bonus_token_comes_on_top() {
    for (setup, scheduling, job, answer) in cases() {
        let expected = answer.clone();
        let drafter = Proposing(move |emitted: usize| answer[emitted..].iter().take(7).copied().collect());
        let (emitted, longest) = run(&mut speculating(setup, scheduling, drafter), &job);
        assert_eq!((emitted, longest), (expected, 8));
    }
}

#[test]
fn wrong_drafts_are_all_rejected() {
    for (setup, scheduling, job, answer) in cases() {
        let expected = answer.clone();
        let drafter = Proposing(move |emitted: usize| answer[emitted..].iter().take(7).copied().map(wrong).collect());
        let (emitted, longest) = run(&mut speculating(setup, scheduling, drafter), &job);
        assert_eq!((emitted, longest), (expected, 1));
    }
}

/// Lengths and the first wrong draft vary, so that a step is often shorter than what the one before accepted.
fn varied(answer: Vec<TokenId>) -> impl Drafter {
    let mut round = 0;
    Proposing(move |emitted: usize| {
        round += 1;
        let count = [15, 2, 0, 9, 1, 4][round % 6];
        let mut drafts: Vec<TokenId> = answer.get(emitted..).unwrap_or(&[]).iter().take(count).copied().collect();
        if let Some(draft) = drafts.get_mut([13, 1, 5, 3][round % 4]) {
            *draft = wrong(*draft);
        }
        drafts
    })
}

#[test]
fn drafts_of_every_length_change_no_token() {
    for (setup, scheduling, job, answer) in cases() {
        let mut engine = speculating(setup, scheduling, varied(answer.clone()));
        let (emitted, longest) = run(&mut engine, &job);
        assert_eq!(emitted, answer);
        assert!(longest > 8, "{longest}");
        let (mut left, mut shrinking) = (answer.len(), 0);
        for step in &engine.tap.steps {
            shrinking += usize::from(step.prev_accepted.is_some_and(|accepted| accepted > step.tokens));
            if scheduling == Scheduling::Async && !step.prefill {
                assert_eq!(step.tokens, left.min(DRAFTS + 1), "a padded query has its full length but for the end");
            }
            left -= step.emitted.len();
        }
        if scheduling == Scheduling::Sync {
            assert!(shrinking > 3, "steps shorter than the accepted length before them: {shrinking}");
        }
    }
}

#[test]
fn a_sequence_that_was_decoded_with_drafts_leaves_a_right_cache() {
    for recurrent in [false, true] {
        let first = job(1, 45, GREEDY);
        let answer = first.expected(recurrent).remove(0);
        let drafter = varied(answer.clone());
        let mut engine = speculating(Setup::new(recurrent), Scheduling::Sync, drafter);
        run(&mut engine, &first);
        let prompt = first.prompt.iter().chain(&answer).copied().collect();
        let second = Job { prompt, fields: r#""max_tokens": 20, "temperature": 0"#, ..first };
        let expected = second.expected(recurrent).remove(0);
        assert_eq!(run(&mut engine, &second).0, expected);
        let cached: usize = engine.tap.steps.iter().map(|step| step.cached_prefix).sum();
        assert_eq!(cached, 128, "134 positions were read");
    }
}

/// A draft model that is the model itself proposes what is accepted, as long as its state is right: after the rejection
/// of what follows the end of its knowledge, after full acceptance, and for sampled requests, whose noise it shares.
#[test]
fn a_draft_model_that_is_the_model_is_never_wrong() {
    for (setup, scheduling, job, answer) in cases() {
        let slots = if setup.recurrent { setup.max_batch } else { 0 };
        // The penalty is the request's own affair; a draft model knows nothing of it.
        let Job { prompt, fields, session } = job;
        let fields = if fields == SAMPLED { r#""max_tokens": 90, "temperature": 0.9, "seed": 5"# } else { fields };
        let job = Job { prompt, fields, session };
        let answer = if fields == GREEDY { answer } else { job.expected(setup.recurrent).remove(0) };
        for count in [1, 4, DRAFTS] {
            let backend = FakeBackend::new(setup.pages, slots).0;
            let drafter = ModelDrafter::new(Box::new(backend), VOCABULARY, usize::MAX, count).unwrap();
            let speculation = Speculation { drafts: count, scheduling, rule: VerifyRule::Coupled };
            let mut engine = setup.engine().0.speculate(Box::new(drafter), speculation).unwrap();
            assert_eq!(run(&mut engine, &job).0, answer);
            let verified = engine.tap.steps.iter().filter(|step| step.tokens > 1 && !step.prefill);
            let rejected = verified.filter(|step| step.emitted.len() < step.tokens).count();
            assert_eq!(rejected, 0, "recurrent {}, {count} drafts", setup.recurrent);
        }
    }
}

/// A step that verifies fewer drafts than were proposed may emit, as its bonus, the very draft that was cut: the draft model
/// has read it, and must read it again for its row.
#[test]
fn a_draft_model_goes_on_after_a_cut_proposal() {
    struct Cut(ModelDrafter);
    impl Drafter for Cut {
        fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
            let mut proposals = self.0.propose(sequences)?;
            proposals.iter_mut().for_each(|proposal| assert_eq!(proposal.len(), 4));
            proposals.iter_mut().for_each(|proposal| proposal.truncate(1));
            Ok(proposals)
        }
    }
    for recurrent in [false, true] {
        let setup = Setup::new(recurrent);
        let backend = FakeBackend::new(setup.pages, if recurrent { setup.max_batch } else { 0 }).0;
        let drafter = Cut(ModelDrafter::new(Box::new(backend), VOCABULARY, usize::MAX, 4).unwrap());
        let job = job(1, 45, GREEDY);
        let (emitted, longest) = run(&mut speculating(setup, Scheduling::Sync, drafter), &job);
        assert_eq!((emitted, longest), (job.expected(recurrent).remove(0), 2));
    }
}

#[test]
fn more_drafts_than_the_backend_has_room_for_are_refused() {
    let speculation = Speculation { drafts: 16, ..Speculation::default() };
    let drafter = Proposing(|_| Vec::new());
    let error = Setup::new(false).engine().0.speculate(Box::new(drafter), speculation).err().unwrap();
    assert!(error.to_string().contains("drafts is 16; expected at most 15"), "{error}");
}
