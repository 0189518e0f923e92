//! Each sign shows on the step that has its fault, does not on the step as it should be, and is unknown without its facts.

use super::*;
use crate::capture::records::{DraftVerdict, ForcedToken, GrammarStep, RowStatistics, StepPath};

const ALLOWED: u32 = 5;
const BEST: u32 = 9;

fn mask() -> MaskRecord {
    MaskRecord::new(16, vec![1 << ALLOWED, 0])
}

fn row(token: u32) -> RowRecord {
    RowRecord {
        position: 10,
        token: Some(token),
        statistics: Some(RowStatistics {
            argmax: Some(BEST),
            maximum: 4.0,
            log_sum_exp: 5.0,
            nan_count: 0,
            positive_infinity_count: 0,
            negative_infinity_count: 0,
            checksum: 1,
        }),
        rank: Some(u32::from(token != BEST)),
        margin: Some(if token == BEST { 0.0 } else { 2.0 }),
        scheduler_mask: None,
        applied_mask: None,
        mask_population: None,
        logprob: None,
        forced: None,
    }
}

/// A verified draft and a bonus token, both the best.
fn step() -> StepRecord {
    let verdict = DraftVerdict { p: Some(0.5), q: None, u: None, accepted: true, reason: VerdictReason::Match };
    StepRecord {
        step: 4,
        request: 0,
        choice: 0,
        first_position: 10,
        drafts: vec![i64::from(BEST)],
        emitted: vec![BEST, BEST],
        time_ns: None,
        q_len: Some(2),
        prev_accepted: Some(1),
        path: Some(StepPath::Verify),
        scheduler: None,
        batch: None,
        input_tokens: None,
        cached_prefix: None,
        drafts_raw: Some(vec![BEST]),
        withheld: Some(vec![]),
        state: None,
        grammar: None,
        verdicts: Some(vec![verdict]),
        bonus: Some(true),
        stop: None,
        rows: vec![row(BEST), row(BEST)],
        timings: None,
    }
}

/// A step with one constrained row, whose only token comes.
fn constrained() -> StepRecord {
    let forced = ForcedToken { token: ALLOWED, rank: Some(1), margin: Some(2.0) };
    let hash = Some(mask().hash);
    let row = RowRecord {
        scheduler_mask: hash,
        applied_mask: hash,
        mask_population: Some(1),
        forced: Some(forced),
        ..row(ALLOWED)
    };
    StepRecord {
        drafts: vec![],
        drafts_raw: Some(vec![]),
        verdicts: Some(vec![]),
        emitted: vec![ALLOWED],
        q_len: Some(1),
        bonus: None,
        grammar: Some(GrammarStep { before: 3, after: 4, terminated: false, reasoning: false }),
        rows: vec![row],
        ..step()
    }
}

const GREEDY: SamplingRules =
    SamplingRules { temperature: 0.0, min_p: 0.0, top_k: None, moves_values: false, is_seeded: true };
const DRAWN: SamplingRules = SamplingRules { temperature: 1.0, ..GREEDY };

fn shows(sign: Sign, step: &StepRecord, rules: SamplingRules) -> Option<bool> {
    shows_after(sign, None, step, rules)
}

fn shows_after(sign: Sign, previous: Option<&StepRecord>, step: &StepRecord, rules: SamplingRules) -> Option<bool> {
    shows_with(sign, previous, step, rules, &|_| None)
}

fn shows_with(
    sign: Sign,
    previous: Option<&StepRecord>,
    step: &StepRecord,
    rules: SamplingRules,
    sketches: &dyn Fn(u32) -> Option<Vec<SketchRecord>>,
) -> Option<bool> {
    let mask_of = |hash: &[u8; 32]| Some(mask()).filter(|mask| mask.hash == *hash);
    sign.shows(&Seen {
        step,
        previous,
        rules: Some(rules),
        vocabulary: Some(16),
        mask: &mask_of,
        sketches,
        tokens: &[BEST; 24][..],
    })
}

#[test]
fn a_step_as_it_should_be_shows_no_finding() {
    for sign in Sign::ALL.into_iter().filter(|sign| sign.is_finding()) {
        for step in [step(), constrained()] {
            assert_eq!(shows(sign, &step, GREEDY), Some(false), "{sign:?}");
        }
    }
}

#[test]
fn a_convolution_of_zeros_shows_where_rows_were_sketched() {
    let shows = |sketched: &[(&str, [f32; 2])]| {
        let sketch = |&(operation, values): &(&str, [f32; 2])| {
            let (operation, values) = (operation.to_owned(), values.to_vec());
            SketchRecord { step: 1, request: 0, choice: 0, row: 0, layer: Some(0), operation, values }
        };
        let of_second_row = |row: u32| match row {
            0 => Some(vec![sketch(&("short_convolution", [1.0, 2.0]))]),
            _ => Some(sketched.iter().map(sketch).collect()),
        };
        shows_with(Sign::SilentConvolution, None, &step(), GREEDY, &of_second_row)
    };
    let convolution = |values| ("short_convolution", values);
    assert_eq!(shows(&[convolution([0.5, -0.5])]), Some(false));
    // Projections of what is no zero may cancel out; the magnitude does not.
    assert_eq!(shows(&[convolution([0.5, 0.0])]), Some(false));
    assert_eq!(shows(&[convolution([0.5, 0.1]), convolution([0.0, -0.0])]), Some(true));
    assert_eq!(shows(&[("history", [0.0, 0.0])]), Some(false), "a sequence begins with zeros");
    assert_eq!(shows(&[]), None);
}

#[test]
fn every_sign_shows_on_its_fault() {
    let change = |base: StepRecord, change: fn(&mut StepRecord)| {
        let mut step = base;
        change(&mut step);
        step
    };
    let cases = [
        (Sign::ShrunkQuery, change(step(), |step| step.prev_accepted = Some(3)), GREEDY),
        (Sign::DraftlessAfterAcceptance, change(constrained(), |step| step.prev_accepted = Some(2)), GREEDY),
        (Sign::NothingAccepted, change(step(), |step| step.prev_accepted = Some(0)), GREEDY),
        (Sign::TokenOutsideMask, change(constrained(), |step| step.emitted = vec![BEST]), DRAWN),
        (Sign::MaskAllowsEverything, change(constrained(), |step| step.rows[0].mask_population = Some(16)), GREEDY),
        (Sign::GrammarOutOfStep, change(constrained(), |step| step.grammar.as_mut().unwrap().after = 3), GREEDY),
        (
            Sign::InvalidRowGaveToken,
            change(step(), |step| step.rows[0].statistics.as_mut().unwrap().nan_count = 1),
            GREEDY,
        ),
        (Sign::NotTheBestToken, change(step(), |step| step.emitted[1] = 3), GREEDY),
        (Sign::NotTheBestToken, change(constrained(), |step| step.emitted = vec![BEST]), GREEDY),
        (
            Sign::BonusBesideRejection,
            change(step(), |step| step.verdicts.as_mut().unwrap()[0].accepted = false),
            GREEDY,
        ),
        (Sign::ImpossibleDraftAccepted, change(step(), |step| step.verdicts.as_mut().unwrap()[0].p = Some(0.0)), DRAWN),
        (Sign::MasksDiffer, change(constrained(), |step| step.rows[0].applied_mask = None), GREEDY),
        (Sign::DraftChanged, change(step(), |step| step.drafts_raw = Some(vec![1])), GREEDY),
        (
            Sign::FilterSkipped,
            change(step(), |step| step.rows[0].margin = Some(4.0)),
            SamplingRules { min_p: 0.1, ..DRAWN },
        ),
        (
            Sign::FilterSkipped,
            change(step(), |step| step.rows[0].rank = Some(5)),
            SamplingRules { top_k: Some(5), ..DRAWN },
        ),
        (
            Sign::NearTie,
            change(step(), |step| (step.rows[0].rank, step.rows[0].margin) = (Some(1), Some(0.01))),
            GREEDY,
        ),
        (
            Sign::ForcedDraftRejected,
            change(step(), |step| {
                step.rows[0].forced = Some(ForcedToken { token: BEST, rank: None, margin: None });
                step.verdicts.as_mut().unwrap()[0] =
                    DraftVerdict { p: None, q: None, u: None, accepted: false, reason: VerdictReason::Mismatch };
            }),
            DRAWN,
        ),
        (Sign::Repeats, step(), GREEDY),
    ];
    for (sign, step, rules) in cases {
        assert_eq!(shows(sign, &step, rules), Some(true), "{sign:?}");
    }
    let ended = change(step(), |step| step.stop = Some(StopReason::MaxTokens));
    assert_eq!(shows_after(Sign::TokensAfterTheEnd, Some(&ended), &step(), GREEDY), Some(true));
    assert_eq!(shows_after(Sign::DraftLengthVaries, Some(&constrained()), &step(), DRAWN), Some(true));
}

#[test]
fn what_is_not_recorded_is_unknown() {
    let mut unknown = step();
    unknown.prev_accepted = None;
    unknown.verdicts = None;
    unknown.drafts_raw = None;
    unknown.rows.iter_mut().for_each(|row| (row.statistics, row.margin, row.rank) = (None, None, None));
    for sign in [
        Sign::ShrunkQuery,
        Sign::NothingAccepted,
        Sign::InvalidRowGaveToken,
        Sign::NotTheBestToken,
        Sign::BonusBesideRejection,
        Sign::DraftChanged,
        Sign::ForcedDraftRejected,
    ] {
        assert_eq!(shows(sign, &unknown, GREEDY), None, "{sign:?}");
    }
    assert_eq!(shows(Sign::FilterSkipped, &unknown, DRAWN), None);
}
