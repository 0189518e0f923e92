//! The validity gate: rows with a NaN, with +infinity or with nothing above -infinity, and rows of which a mask or the request
//! itself leaves nothing, end their request and never become a token. Everyone else decodes on as if nothing had happened.

use super::GateError;
use super::driver::{Bench, Job, Sampling, Trail};
use super::fixture::Fixture;
use super::judgement::{Comparison, Gate, Line, parting};
use super::reference;
use super::scripted::{Place, Scripted, unit};
use crate::backend::BackendError;
use crate::engine::constraint::OutputGrammar;
use crate::engine::drafter::{DraftContext, Drafter};
use crate::engine::faults::Fault;
use crate::engine::sampler::{Draft, VerifyRule};
use crate::engine::speculation::{Scheduling, Speculation};
use crate::grammar::{Constraint, GrammarFactory, GrammarSettings};
use crate::model::synthetic::VOCABULARY_SIZE;
use crate::types::TokenId;

/// First tokens of the prompts: the request with the planted row, between two that have none.
const FIRST: [TokenId; 3] = [TokenId(20), TokenId(21), TokenId(22)];
const PLANTED: usize = 1;
const ANSWER: u32 = 12;
/// Tokens before the planted row: none, so that it is the prompt's; some, so that it may verify a draft.
const PLACES: [u32; 3] = [0, 3, 5];
const TEMPERATURES: [f32; 3] = [0.0, 0.6, 1.0];
const DRAFTS: usize = 4;
/// Keys the rows.
const ROW_KEY: u64 = 0x0bad_0bad;

/// What is planted.
#[derive(Clone, Copy, Debug)]
enum Plant {
    OneNan,
    AllNan,
    OneInfinity,
    AllInfinity,
    NothingFinite,
    /// Everything but a token that the request does not let come yet.
    NothingButTheEnd,
    /// Everything but a token that the grammar does not allow.
    NothingAllowed,
    /// Everything but two tokens: a legal row.
    TwoTokens,
}

const PLANTS: [Plant; 8] = [
    Plant::OneNan,
    Plant::AllNan,
    Plant::OneInfinity,
    Plant::AllInfinity,
    Plant::NothingFinite,
    Plant::NothingButTheEnd,
    Plant::NothingAllowed,
    Plant::TwoTokens,
];

/// The token that ends the request of [`Plant::NothingButTheEnd`], and that the grammar of [`Plant::NothingAllowed`] refuses.
const WITHHELD: TokenId = TokenId(7);
/// Those of [`Plant::TwoTokens`].
const LEGAL: [TokenId; 2] = [TokenId(31), TokenId(33)];

impl Plant {
    fn told(self) -> &'static str {
        match self {
            Self::OneNan => "a row with a NaN",
            Self::AllNan => "a row of NaN",
            Self::OneInfinity => "a row with +infinity",
            Self::AllInfinity => "a row of +infinity",
            Self::NothingFinite => "a row of -infinity",
            Self::NothingButTheEnd => "a row of which min_tokens leaves nothing",
            Self::NothingAllowed => "a row of which the grammar's mask leaves nothing",
            Self::TwoTokens => "a row of which two tokens are left",
        }
    }

    fn fill(self, row: &mut [f32]) {
        let mut leave = |tokens: &[TokenId]| {
            row.fill(f32::NEG_INFINITY);
            for token in tokens {
                row[token.index()] = token.0 as f32 / 10.0;
            }
        };
        match self {
            Self::OneNan => row[19] = f32::NAN,
            Self::AllNan => row.fill(f32::NAN),
            Self::OneInfinity => row[16] = f32::INFINITY,
            Self::AllInfinity => row.fill(f32::INFINITY),
            Self::NothingFinite => leave(&[]),
            Self::NothingButTheEnd | Self::NothingAllowed => leave(&[WITHHELD]),
            Self::TwoTokens => leave(&LEGAL),
        }
    }
}

/// Rows as they are without a planted one.
fn usual(place: Place, row: &mut [f32]) {
    let key = ROW_KEY ^ u64::from(place.first.0);
    for (value, id) in row.iter_mut().zip(0..) {
        *value = 8.0 * unit(key, [place.position, place.token.0, id]) as f32;
    }
}

/// Drafts what plain decoding gives, as far as it is known.
struct Knowing {
    answers: Vec<Vec<TokenId>>,
}

impl Drafter for Knowing {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        let propose = |context: &DraftContext<'_>| {
            let emitted = context.tokens.len() - context.prompt;
            let answer = self.answers.get(context.sequence.request.0 as usize);
            let rest = answer.and_then(|answer| answer.get(emitted..)).unwrap_or(&[]);
            rest.iter().take(DRAFTS).map(|token| Draft::certain(*token)).collect()
        };
        Ok(sequences.iter().map(propose).collect())
    }
}

/// How tokens come to be.
const WAYS: [(&str, Speculation); 3] = [
    ("no drafts", Speculation { drafts: 0, scheduling: Scheduling::Sync, rule: VerifyRule::Coupled }),
    ("coupled", Speculation { drafts: DRAFTS, scheduling: Scheduling::Sync, rule: VerifyRule::Coupled }),
    ("rejection", Speculation { drafts: DRAFTS, scheduling: Scheduling::Async, rule: VerifyRule::Rejection }),
];

const FAULTS: [Fault; 2] = [Fault::INVALID_ROW_TO_ZERO, Fault::NAN_SANITISED];

/// Runs the gate.
pub(super) fn run(fixture: &Fixture, teeth: bool) -> Result<Vec<Line>, GateError> {
    let factory = GrammarFactory::new(&fixture.tokenizer, VOCABULARY_SIZE, GrammarSettings::default())?;
    // Letters alone, which the withheld token is none of.
    let constraint = Constraint::Regex("[a-z]{40}".to_owned());
    let grammar = OutputGrammar { grammar: factory.compile(&constraint)?, constraint, begins_after: None };
    let mut lines = Vec::new();
    for fault in [None].into_iter().chain(FAULTS.into_iter().filter(|_| teeth).map(Some)) {
        for (name, speculation) in WAYS {
            lines.push(line(fixture, &grammar, name, speculation, fault)?);
        }
    }
    Ok(lines)
}

/// The three requests; only the one with the planted row has what that needs.
fn jobs(plant: Option<Plant>, temperature: f32, grammar: &OutputGrammar) -> Vec<Job> {
    let job = |(index, first): (usize, &TokenId)| {
        let plant = plant.filter(|_| index == PLANTED);
        let withholds = matches!(plant, Some(Plant::NothingButTheEnd));
        let constrains = matches!(plant, Some(Plant::NothingAllowed));
        Job {
            prompt: vec![*first, TokenId(40), TokenId(41)],
            sampling: Sampling {
                temperature: Some(temperature),
                seed: index as u64,
                min_tokens: if withholds { ANSWER } else { 0 },
                stop_token_ids: if withholds { vec![WITHHELD.0] } else { Vec::new() },
                ..Sampling::default()
            },
            max_tokens: ANSWER,
            grammar: constrains.then(|| grammar.clone()),
        }
    };
    FIRST.iter().enumerate().map(job).collect()
}

fn line(
    fixture: &Fixture,
    grammar: &OutputGrammar,
    name: &str,
    speculation: Speculation,
    fault: Option<Fault>,
) -> Result<Line, GateError> {
    let mut comparison = Comparison::default();
    let mut legal = Vec::new();
    for temperature in TEMPERATURES {
        for plant in PLANTS {
            let jobs = jobs(Some(plant), temperature, grammar);
            let sound = trails(fixture, &jobs, None, &[], Speculation::default(), None)?;
            let answers: Vec<Vec<TokenId>> = sound.into_iter().map(|trail| trail.tokens).collect();
            let clean = trails(fixture, &jobs, None, &answers, speculation, None)?;
            for place in PLACES {
                let found = trails(fixture, &jobs, Some((plant, place)), &answers, speculation, fault)?;
                let told = format!("{}, token {place}, temperature {temperature}", plant.told());
                let mut requests: Vec<_> = jobs.iter().zip(clean.iter().zip(&found)).enumerate().collect();
                requests.swap(0, PLANTED);
                for (index, (job, (clean, found))) in requests {
                    if index == PLANTED {
                        planted(&mut comparison, plant, place, clean, found, &told);
                    } else {
                        neighbour(&mut comparison, clean, found, &told);
                    }
                    plain(&mut comparison, fixture, job, found, speculation.rule, &told);
                }
                legal.extend(found.into_iter().filter(|_| matches!(plant, Plant::TwoTokens)));
            }
        }
    }
    if speculation.drafts > 0 && fault.is_none() {
        comparison.tried_both(&legal);
    }
    Ok(comparison.line(Gate::Validity, fault, name))
}

/// The request with the planted row ends there without a token of it, and goes on where the row is legal.
fn planted(comparison: &mut Comparison, plant: Plant, place: u32, clean: &Trail, found: &Trail, told: &str) {
    let before = place as usize;
    let is_legal = matches!(plant, Plant::TwoTokens);
    comparison.same(found.has_failed() != is_legal, || {
        let expected = if is_legal { "an answer" } else { "a failure" };
        format!("{told}: expected {expected}, found {:?}", found.reason)
    });
    let prefix = clean.tokens.get(..before).unwrap_or(&[]);
    comparison
        .same(found.tokens.starts_with(prefix), || format!("{told}: before it, {}", parting(prefix, &found.tokens)));
    let token = found.tokens.get(before);
    comparison.same(
        token.is_some_and(|token| LEGAL.contains(token)) == is_legal && token.is_some() == is_legal,
        || {
            let expected = if is_legal { format!("{} or {}", LEGAL[0], LEGAL[1]) } else { "no token".to_owned() };
            format!("{told}: expected {expected}, found {}", token.map_or("none".to_owned(), ToString::to_string))
        },
    );
}

fn neighbour(comparison: &mut Comparison, clean: &Trail, found: &Trail, told: &str) {
    comparison.same(found.tokens == clean.tokens && found.reason == clean.reason, || {
        format!("{told}: a neighbour, {} ({:?})", parting(&clean.tokens, &found.tokens), found.reason)
    });
}

/// Every token is the one that the plain sampler gives for its row.
fn plain(comparison: &mut Comparison, fixture: &Fixture, job: &Job, trail: &Trail, rule: VerifyRule, told: &str) {
    for judged in trail.judged() {
        let output = trail.tokens.get(..judged.before).unwrap_or(&[]);
        let expected = reference::token(job, output, &judged, rule, fixture.tokenizer.end_tokens());
        comparison.same(expected == Ok(judged.token), || {
            let (before, expected) = (judged.before, reference::told(expected));
            format!("{told}: token {before} of a request: expected {expected} by definition, found {}", judged.token)
        });
    }
}

fn trails(
    fixture: &Fixture,
    jobs: &[Job],
    planted: Option<(Plant, u32)>,
    answers: &[Vec<TokenId>],
    speculation: Speculation,
    fault: Option<Fault>,
) -> Result<Vec<Trail>, GateError> {
    let prompt = jobs.first().map_or(0, |job| job.prompt.len()) as u32;
    let row = move |place: Place, row: &mut [f32]| {
        usual(place, row);
        if let Some((plant, emitted)) = planted
            && place.first == FIRST[PLANTED]
            && place.position + 1 == prompt + emitted
        {
            plant.fill(row);
        }
    };
    let backend = Scripted::new(VOCABULARY_SIZE, 2 * jobs.len(), speculation.drafts, row);
    let drafter = Knowing { answers: answers.to_vec() };
    let bench = Bench { tokenizer: &fixture.tokenizer, max_batch: jobs.len(), prefill_chunk: 8, speculation, fault };
    bench.run(Box::new(backend), Box::new(drafter), jobs)
}
