//! Mutations of step records.

use stepscope::capture::Record;
use stepscope::capture::records::{
    BatchPlace, DraftVerdict, GrammarStep, SchedulerMode, StateRead, StepPath, StepRecord, StopReason, Timings,
    VerdictReason, WithheldDraft, WithheldReason,
};
use stepscope::replay::CheckName::{Commit, Drafts, Sampler, Termination};

use super::Expected::Finding;
use super::{Mutation, Place, Which, find_step, mutation, of_step};

/// Lists every field: a new one does not compile until it is named here, and should then stand in the table.
fn _every_field(step: StepRecord) {
    let StepRecord {
        step: _,
        request: _,
        choice: _,
        first_position: _,
        drafts: _,
        emitted: _,
        time_ns: _,
        q_len: _,
        prev_accepted: _,
        path: _,
        scheduler: _,
        batch: _,
        input_tokens: _,
        cached_prefix: _,
        drafts_raw: _,
        withheld: _,
        state: _,
        grammar: _,
        verdicts: _,
        bonus: _,
        stop: _,
        rows: _,
        timings: _,
    } = step;
}

const DECODE: (u64, Which) = (1, Which::Decode);
const PREFILL: (u64, Which) = (2, Which::PrefillChunk);
const LAST: (u64, Which) = (0, Which::Last);

fn batch(step: &mut StepRecord) -> &mut BatchPlace {
    step.batch.as_mut().expect("the batch is recorded")
}

fn state(step: &mut StepRecord) -> &mut StateRead {
    step.state.as_mut().expect("the state is recorded")
}

fn timings(step: &mut StepRecord) -> &mut Timings {
    step.timings.as_mut().expect("timings are recorded")
}

pub fn table() -> Vec<Mutation> {
    let mut table = vec![
        of_step("first_position", DECODE, Finding(Commit), |step| step.first_position += 1),
        of_step("first_position, prefill", PREFILL, Finding(Commit), |step| step.first_position += 1),
        of_step("drafts", DECODE, Finding(Drafts), |step| step.drafts.push(5)),
        of_step("emitted, another token", DECODE, Finding(Sampler), |step| {
            step.emitted[0] ^= 1;
            step.rows[0].token = Some(step.emitted[0]);
        }),
        of_step("emitted, apart from its row", DECODE, Finding(Commit), |step| step.emitted[0] ^= 1),
        of_step("emitted, one more", DECODE, Finding(Commit), |step| step.emitted.push(5)),
        of_step("emitted, none", DECODE, Finding(Commit), |step| step.emitted.clear()),
        of_step("emitted, after the end", LAST, Finding(Termination), |step| step.emitted.push(5)),
        of_step("time_ns", DECODE, Finding(Commit), |step| step.time_ns = Some(1)),
        of_step("q_len", DECODE, Finding(Commit), |step| step.q_len = Some(2)),
        of_step("q_len, prefill", PREFILL, Finding(Commit), |step| step.q_len = Some(3_000)),
        of_step("prev_accepted", DECODE, Finding(Commit), |step| step.prev_accepted = Some(2)),
        of_step("prev_accepted, unknown", DECODE, Finding(Commit), |step| step.prev_accepted = None),
        of_step("path", DECODE, Finding(Commit), |step| step.path = Some(StepPath::Prefill)),
        of_step("scheduler", DECODE, Finding(Commit), |step| step.scheduler = Some(SchedulerMode::Async)),
        of_step("batch.slot", DECODE, Finding(Commit), |step| batch(step).slot += 1),
        of_step("batch.neighbours", DECODE, Finding(Commit), |step| batch(step).neighbours.push((6, 0))),
        of_step("batch, unknown", DECODE, Finding(Commit), |step| step.batch = None),
        of_step("input_tokens", PREFILL, Finding(Commit), |step| {
            step.input_tokens.as_mut().expect("they are recorded")[0] += 1;
        }),
        of_step("input_tokens, unknown", PREFILL, Finding(Commit), |step| step.input_tokens = None),
        of_step("cached_prefix", DECODE, Finding(Commit), |step| step.cached_prefix = Some(32)),
        of_step("drafts_raw", DECODE, Finding(Drafts), |step| step.drafts_raw = Some(vec![5])),
        of_step("withheld", DECODE, Finding(Drafts), |step| {
            step.withheld = Some(vec![WithheldDraft { index: 0, reason: WithheldReason::Limit }]);
        }),
        of_step("state.column", DECODE, Finding(Commit), |step| state(step).column += 1),
        of_step("state.slot", DECODE, Finding(Commit), |step| state(step).slot += 1),
        of_step("state, unknown", DECODE, Finding(Commit), |step| step.state = None),
        of_step("grammar", DECODE, Finding(Commit), |step| {
            step.grammar = Some(GrammarStep { before: 0, after: 1, terminated: false, reasoning: false });
        }),
        of_step("verdicts", DECODE, Finding(Commit), |step| {
            let verdict = DraftVerdict { p: None, q: None, u: None, accepted: true, reason: VerdictReason::Match };
            step.verdicts = Some(vec![verdict]);
        }),
        of_step("bonus", DECODE, Finding(Commit), |step| step.bonus = Some(true)),
        of_step("stop, too early", DECODE, Finding(Termination), |step| step.stop = Some(StopReason::MaxTokens)),
        of_step("stop, another", LAST, Finding(Termination), |step| step.stop = Some(StopReason::ContextFull)),
        of_step("stop, missed", LAST, Finding(Termination), |step| step.stop = None),
        of_step("stop, failed", LAST, Finding(Termination), |step| {
            step.stop = Some(StopReason::Failed("another".to_owned()));
        }),
        of_step("rows, one less", DECODE, Finding(Commit), |step| {
            step.rows.clear();
        }),
        of_step("timings.schedule_ns", DECODE, Finding(Commit), |step| timings(step).schedule_ns = u64::MAX / 4),
        of_step("timings.forward_ns", DECODE, Finding(Commit), |step| timings(step).forward_ns = u64::MAX / 4),
        of_step("timings.sample_ns", DECODE, Finding(Commit), |step| timings(step).sample_ns = u64::MAX / 4),
    ];
    table.extend(identities());
    table
}

/// Which step of which sequence it is; findings stand where the record is missed.
fn identities() -> Vec<Mutation> {
    vec![
        mutation("step", Finding(Commit), |records| {
            let step = find_step(records, 1, Which::Decode);
            step.step += 1_000;
            Place { request: Some(1), step: Some(step.step) }
        }),
        mutation("request", Finding(Commit), |records| {
            let step = find_step(records, 1, Which::Decode);
            step.request = 0;
            Place { request: Some(0), step: Some(step.step) }
        }),
        mutation("choice", Finding(Commit), |records| {
            let step = find_step(records, 1, Which::Decode);
            step.choice = 5;
            Place { request: Some(1), step: Some(step.step) }
        }),
        mutation("a step that is gone", Finding(Commit), |records| {
            let gone = find_step(records, 1, Which::Decode).step;
            records.retain(|record| !matches!(record, Record::Step(step) if step.request == 1 && step.step == gone));
            let next = records.iter().find_map(|record| match record {
                Record::Step(step) if step.request == 1 && step.step > gone => Some(step.step),
                _ => None,
            });
            Place { request: Some(1), step: next }
        }),
    ]
}
