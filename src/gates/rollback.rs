//! The fill and rollback gate: the engine's matchers walk along drafts, right ones, legal ones and refused ones, and come back,
//! step after step. Their masks must be, bit for bit, those of matchers that have only ever gone straight on.

use serde_json::json;

use super::GateError;
use super::driver::{Bench, Job, Sampling, Step, Trail};
use super::fixture::Fixture;
use super::judgement::{Comparison, Gate, Line};
use super::scripted::{Place, Scripted, below, unit};
use crate::backend::BackendError;
use crate::engine::constraint::OutputGrammar;
use crate::engine::drafter::{DraftContext, Drafter};
use crate::engine::faults::Fault;
use crate::engine::sampler::{Draft, VerifyRule};
use crate::engine::speculation::{Scheduling, Speculation};
use crate::grammar::{
    Constraint, Grammar, GrammarError, GrammarFactory, GrammarSettings, MaskRow, Matcher, Whitespace,
};
use crate::model::synthetic::VOCABULARY_SIZE;
use crate::types::TokenId;

/// Requests of each grammar.
const ROUNDS: usize = 4;
const ANSWER: u32 = 40;
const DRAFTS: usize = 5;
const BATCH: usize = 4;
/// Keys the rows, and what is drafted.
const ROW_KEY: u64 = 0x6120_3a12;
const WALK_KEY: u64 = 0x0a57_12a7;

const SCHEDULINGS: [(&str, Scheduling); 2] =
    [("sync: drafts are trimmed", Scheduling::Sync), ("async: drafts are padded", Scheduling::Async)];

const FAULTS: [Fault; 9] = [
    Fault::ROLLBACK_SHORT,
    Fault::GRAMMAR_ONE_LATE,
    Fault::DOUBLE_ACCEPT,
    Fault::END_ROLLBACK_LAG,
    Fault::PADDED_ROWS_PERMISSIVE,
    Fault::MASKS_FROM_NEIGHBOUR,
    Fault::MASKS_SHIFTED,
    Fault::MASK_NOT_ON_BONUS,
    Fault::MASKS_DROPPED,
];

/// Runs the gate.
pub(super) fn run(fixture: &Fixture, teeth: bool) -> Result<Vec<Line>, GateError> {
    let settings = GrammarSettings { whitespace: Whitespace::Single, ..GrammarSettings::default() };
    let factory = GrammarFactory::new(&fixture.tokenizer, VOCABULARY_SIZE, settings)?;
    let grammars = constraints()
        .into_iter()
        .map(|constraint| Ok(OutputGrammar { grammar: factory.compile(&constraint)?, constraint, begins_after: None }));
    let grammars = grammars.collect::<Result<Vec<_>, GrammarError>>()?;
    let mut lines = Vec::new();
    for fault in [None].into_iter().chain(FAULTS.into_iter().filter(|_| teeth).map(Some)) {
        for (case, scheduling) in SCHEDULINGS {
            let never_pads = scheduling == Scheduling::Sync;
            lines.push(match fault {
                Some(fault @ Fault::PADDED_ROWS_PERMISSIVE) if never_pads => {
                    Line::does_not_apply(Gate::FillRollback, fault, case, "no draft is withheld in its place")
                }
                _ => line(fixture, &grammars, case, scheduling, fault)?,
            });
        }
    }
    Ok(lines)
}

/// Schemas, expressions and grammars, with the shapes that rollback could get wrong: lexemes left half, recursion, ends.
fn constraints() -> Vec<Constraint> {
    let call = json!({
        "type": "object",
        "properties": {
            "name": {"enum": ["get_weather", "get_time"]},
            "city": {"type": "string", "minLength": 1, "maxLength": 6},
            "days": {"type": "integer", "minimum": 1, "maximum": 14}
        },
        "required": ["name", "city"],
        "additionalProperties": false
    });
    let list = json!({"type": "array", "items": {"type": ["boolean", "null"]}, "maxItems": 5});
    let sum = "start: sum\nsum: term (\"+\" term)*\nterm: NUMBER | \"(\" sum \")\"\nNUMBER: /[0-9]{1,3}/";
    let wrapped = format!("start: \"<tool_call>\" call \"</tool_call>\"\ncall: %json {list}");
    vec![
        Constraint::JsonSchema(call),
        Constraint::JsonSchema(list),
        Constraint::Regex("(ab|cde)+x{2,5}(-[0-9]{3})?".to_owned()),
        Constraint::Choice(["yes", "no", "none", "yes, sir"].map(str::to_owned).to_vec()),
        Constraint::Lark(sum.to_owned()),
        Constraint::Lark(wrapped),
    ]
}

fn line(
    fixture: &Fixture,
    grammars: &[OutputGrammar],
    case: &str,
    scheduling: Scheduling,
    fault: Option<Fault>,
) -> Result<Line, GateError> {
    let all = grammars.iter().cycle().take(ROUNDS * grammars.len());
    let jobs: Vec<Job> = all
        .zip(0..)
        .map(|(grammar, number)| Job {
            prompt: vec![TokenId(number)],
            sampling: Sampling { temperature: Some(0.0), ..Sampling::default() },
            max_tokens: ANSWER,
            grammar: Some(grammar.clone()),
        })
        .collect();
    let ends = fixture.tokenizer.end_tokens().to_vec();
    let row_ends = ends.clone();
    let row = move |place: Place, row: &mut [f32]| row.copy_from_slice(&values(place.first, place.position, &row_ends));
    let backend = Scripted::new(VOCABULARY_SIZE, 4 * BATCH, DRAFTS, row);
    let drafter = Wandering { grammars: jobs.iter().filter_map(|job| job.grammar.clone()).collect(), ends };
    let bench = Bench {
        tokenizer: &fixture.tokenizer,
        max_batch: BATCH,
        prefill_chunk: 8,
        speculation: Speculation { drafts: DRAFTS, scheduling, rule: VerifyRule::Coupled },
        fault,
    };
    let trails = bench.run(Box::new(backend), Box::new(drafter), &jobs)?;
    let mut comparison = Comparison::default();
    if fault.is_none() {
        comparison.tried_both(&trails);
    }
    for (number, (job, trail)) in jobs.iter().zip(&trails).enumerate() {
        let Some(OutputGrammar { grammar, constraint, .. }) = &job.grammar else { continue };
        follow(&mut comparison, grammar, trail, &|| format!("request {number}, {}", told(constraint)))?;
    }
    let case = format!("{case}; {} requests of {} grammars", jobs.len(), grammars.len());
    Ok(comparison.line(Gate::FillRollback, fault, case))
}

fn told(constraint: &Constraint) -> &'static str {
    match constraint {
        Constraint::JsonObject | Constraint::JsonSchema(_) => "a schema",
        Constraint::Regex(_) => "an expression",
        Constraint::Choice(_) => "a choice",
        Constraint::Lark(_) | Constraint::Ebnf(_) => "a grammar",
    }
}

/// Compares a request's masks, step by step, with those of straight matchers.
fn follow(
    comparison: &mut Comparison,
    grammar: &Grammar,
    trail: &Trail,
    told: &dyn Fn() -> String,
) -> Result<(), GateError> {
    for step in &trail.steps {
        let before = trail.tokens.get(..step.before).unwrap_or(&[]);
        let Some(matcher) = straight(grammar, before)? else {
            comparison.same(false, || {
                format!(
                    "{}: expected tokens that the grammar allows, found others in the first {}",
                    told(),
                    step.before
                )
            });
            return Ok(());
        };
        compare(comparison, matcher, step, &|| format!("{}, after {} tokens", told(), step.before))?;
        let emitted = trail.tokens.get(..step.before + step.emitted.len()).unwrap_or(&[]);
        let Some(after) = straight(grammar, emitted)? else { continue };
        let expected = (after.consumed(), after.is_terminated());
        let found = step.grammar.map(|position| (position.consumed, position.terminated));
        comparison.same(found == Some(expected), || {
            let ended = |has_ended: bool| if has_ended { " and the end" } else { "" };
            let place = |(consumed, has_ended): (u64, bool)| format!("{consumed} tokens{}", ended(has_ended));
            let found = found.map_or("none".to_owned(), place);
            format!("{}: expected a grammar past {}, found one past {found}", told(), place(expected))
        });
    }
    comparison.same(!trail.has_failed(), || format!("{}: expected an answer, found {:?}", told(), trail.reason));
    Ok(())
}

/// A matcher that has consumed these tokens and nothing else; `None` if the grammar does not allow them.
fn straight(grammar: &Grammar, tokens: &[TokenId]) -> Result<Option<Matcher>, GrammarError> {
    let mut matcher = grammar.matcher();
    for token in tokens {
        match matcher.consume(*token) {
            Ok(()) => {}
            Err(GrammarError::NotAllowed { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(matcher))
}

/// The rows of one step, with a matcher that goes along its drafts and never back.
fn compare(
    comparison: &mut Comparison,
    mut matcher: Matcher,
    step: &Step,
    told: &dyn Fn() -> String,
) -> Result<(), GateError> {
    let mut goes_on = true;
    for (index, row) in step.rows.iter().enumerate() {
        // After a draft that is withheld or refused nothing is emitted, and everything is allowed.
        let expected = if goes_on { matcher.mask()? } else { MaskRow::all(VOCABULARY_SIZE) };
        comparison.same(row.filled.as_ref() == Some(&expected), || {
            format!("{}, filled row {index}: {}", told(), differing(&expected, row.filled.as_ref()))
        });
        if index < step.emitted.len() {
            comparison.same(row.applied.as_ref() == Some(&expected), || {
                format!("{}, applied row {index}: {}", told(), differing(&expected, row.applied.as_ref()))
            });
        }
        let draft = step.drafts.get(index).and_then(Option::as_ref);
        goes_on &= match draft {
            Some(draft) if !matcher.is_terminated() && expected.allows(draft.token) => {
                matcher.consume(draft.token)?;
                true
            }
            _ => false,
        };
    }
    Ok(())
}

/// How masks differ, in words.
fn differing(expected: &MaskRow, found: Option<&MaskRow>) -> String {
    let Some(found) = found else { return "expected a mask, found none".to_owned() };
    let bits = |(expected, found): (&u32, &u32)| (expected ^ found).count_ones();
    let bits: u32 = expected.words().iter().zip(found.words()).map(bits).sum();
    format!("expected {} tokens, found {}, which differ in {bits}", expected.population(), found.population())
}

/// A row, which depends on its position alone, so that a drafter can know it; end tokens are best now and then.
fn values(first: TokenId, position: u32, ends: &[TokenId]) -> Vec<f32> {
    let place = |id| [first.0, position, id];
    let mut values: Vec<f32> = (0..VOCABULARY_SIZE as u32).map(|id| unit(ROW_KEY, place(id)) as f32).collect();
    if below(ROW_KEY, place(u32::MAX), 4) == 0 {
        for end in ends {
            if let Some(value) = values.get_mut(end.index()) {
                *value += 1.0;
            }
        }
    }
    values
}

/// Walks ahead in the grammar by itself: mostly as the sequence will go, else anywhere that is legal, to the end above all, and
/// now and then where it is not.
struct Wandering {
    grammars: Vec<OutputGrammar>,
    ends: Vec<TokenId>,
}

impl Wandering {
    fn walk(&self, context: &DraftContext<'_>) -> Option<Vec<Draft>> {
        let request = context.sequence.request.0 as usize;
        let emitted = context.tokens.get(context.prompt..)?;
        let mut matcher = straight(&self.grammars.get(request)?.grammar, emitted).ok()??;
        let first = *context.tokens.first()?;
        let mut drafts = Vec::new();
        let count = below(WALK_KEY, [first.0, context.tokens.len() as u32, 0], DRAFTS + 1);
        for index in 0..count {
            // The row that decides this draft comes after the token before it.
            let position = (context.tokens.len() + index) as u32 - 1;
            let chance = |which: u32, bound| below(WALK_KEY, [first.0, position, 1 + which], bound);
            if chance(0, 9) == 0 {
                drafts.push(Draft::certain(TokenId(chance(1, VOCABULARY_SIZE) as u32)));
                continue;
            }
            if matcher.is_terminated() {
                break;
            }
            let allowed: Vec<TokenId> = matcher.mask().ok()?.allowed().collect();
            let end = self.ends.iter().copied().find(|end| allowed.contains(end));
            let values = values(first, position, &self.ends);
            let value = |token: &TokenId| values.get(token.index()).copied().unwrap_or(f32::NEG_INFINITY);
            let likely = allowed.iter().copied().rev().max_by(|a, b| value(a).total_cmp(&value(b)));
            let token = match (chance(2, 8), end) {
                (0 | 1, Some(end)) => end,
                (2, _) => *allowed.get(chance(3, allowed.len()))?,
                _ => likely?,
            };
            matcher.consume(token).ok()?;
            drafts.push(Draft::certain(token));
        }
        Some(drafts)
    }
}

impl Drafter for Wandering {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        Ok(sequences.iter().map(|context| self.walk(context).unwrap_or_default()).collect())
    }
}
