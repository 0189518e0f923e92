//! The filter matrix: temperature, top-k, top-p and min-p, one at a time and together, alone and among neighbours that have others.
//!
//! Every request runs in a batch of one and in a full batch. Its rows and tokens must be the same bit for bit, and every token
//! the one that the plain sampler gives for its row.

use super::GateError;
use super::driver::{Bench, Job, Sampling, Trail};
use super::fixture::Fixture;
use super::judgement::{Comparison, Gate, Line, parting};
use super::reference::{self, same_bits};
use super::scripted::below;
use crate::arith::KvType;
use crate::backend::{self, BackendKind, BackendOptions};
use crate::engine::drafter::{Drafter, ModelDrafter, NoDrafter};
use crate::engine::faults::Fault;
use crate::engine::sampler::VerifyRule;
use crate::engine::speculation::{Scheduling, Speculation};
use crate::model::Model;
use crate::types::TokenId;

const TEMPERATURES: [f32; 4] = [0.0, 0.7, 1.0, 1.6];
const TOP_K: u32 = 6;
const TOP_P: f32 = 0.8;
const MIN_P: f32 = 0.1;
/// Tokens of each request's prompt, and of its answer.
const PROMPT: u32 = 6;
const ANSWER: u32 = 24;
/// Requests of a full batch.
const BATCH: usize = 8;
/// Drafts of a step.
const DRAFTS: usize = 3;
/// Keys the prompts.
const PROMPT_KEY: u64 = 0x0f17_7e25;

/// How tokens come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// One at a time.
    Plain,
    /// With the drafts of a draft model.
    Verified(VerifyRule),
}

impl Way {
    const ALL: [Self; 3] = [Self::Plain, Self::Verified(VerifyRule::Coupled), Self::Verified(VerifyRule::Rejection)];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "no drafts",
            Self::Verified(rule) => rule.name(),
        }
    }

    fn speculation(self) -> Speculation {
        match self {
            Self::Plain => Speculation::default(),
            Self::Verified(rule) => Speculation { drafts: DRAFTS, scheduling: Scheduling::Sync, rule },
        }
    }
}

/// The faults that have to show; those that the first array has live where drafts are verified.
const VERIFYING_FAULTS: [Fault; 2] = [Fault::MIN_P_SKIPPED, Fault::ALWAYS_GREEDY];
const FAULTS: [Fault; 4] =
    [Fault::FOREIGN_MAXIMUM, Fault::SEED_IGNORED, Fault::TEMPERATURE_ZERO, Fault::ROWS_FROM_NEIGHBOUR];

/// Runs the gate.
pub(super) fn run(fixture: &Fixture, teeth: bool) -> Result<Vec<Line>, GateError> {
    let mut lines = Vec::new();
    for way in Way::ALL {
        lines.push(line(fixture, way, None)?);
    }
    for fault in FAULTS.into_iter().chain(VERIFYING_FAULTS).filter(|_| teeth) {
        for way in Way::ALL {
            lines.push(match way == Way::Plain && VERIFYING_FAULTS.contains(&fault) {
                true => Line::does_not_apply(Gate::Filters, fault, way.name(), "no row verifies a draft"),
                false => line(fixture, way, Some(fault))?,
            });
        }
    }
    Ok(lines)
}

/// Every temperature with every subset of the filters, and one request that leaves everything out.
fn matrix(vocabulary_size: usize) -> Vec<Job> {
    let cells = TEMPERATURES.into_iter().flat_map(|temperature| {
        (0..8_u32).map(move |filters| Sampling {
            temperature: Some(temperature),
            top_k: (filters & 1 != 0).then_some(TOP_K),
            top_p: (filters & 2 != 0).then_some(TOP_P),
            min_p: (filters & 4 != 0).then_some(MIN_P),
            ..Sampling::default()
        })
    });
    let cells = cells.chain([Sampling::default()]).zip(0..);
    let job = |(sampling, number): (Sampling, u32)| {
        let token = |position| TokenId(below(PROMPT_KEY, [number, position, 0], vocabulary_size) as u32);
        Job {
            prompt: (0..PROMPT).map(token).collect(),
            // The first has the seed 0, which is one like any other.
            sampling: Sampling { seed: u64::from(number), ..sampling },
            max_tokens: ANSWER,
            grammar: None,
        }
    };
    cells.map(job).collect()
}

fn line(fixture: &Fixture, way: Way, fault: Option<Fault>) -> Result<Line, GateError> {
    let jobs = matrix(fixture.model.config.vocabulary_size);
    let alone = trails(fixture, way, 1, &jobs, fault)?;
    let together = trails(fixture, way, BATCH, &jobs, fault)?;
    let mut comparison = Comparison::default();
    if fault.is_none() && way != Way::Plain {
        comparison.tried_both(&together);
    }
    let rule = way.speculation().rule;
    let ends = fixture.tokenizer.end_tokens();
    for (job, (alone, together)) in jobs.iter().zip(alone.iter().zip(&together)) {
        let what = job.sampling.told();
        for (trail, batch) in [(alone, 1), (together, BATCH)] {
            let length = trail.tokens.len();
            comparison.same(length == ANSWER as usize && !trail.has_failed(), || {
                format!("{what}, batch of {batch}: expected {ANSWER} tokens, found {length}, {:?}", trail.reason)
            });
            for judged in trail.judged() {
                let output = trail.tokens.get(..judged.before).unwrap_or(&[]);
                let expected = reference::token(job, output, &judged, rule, ends);
                comparison.same(expected == Ok(judged.token), || {
                    let (before, expected, found) = (judged.before, reference::told(expected), judged.token);
                    format!(
                        "{what}, batch of {batch}, token {before}: expected {expected} by definition, found {found}"
                    )
                });
            }
        }
        for (alone, together) in alone.judged().zip(together.judged()) {
            comparison.same(same_bits(&alone.row.logits, &together.row.logits), || {
                format!("{what}, token {}: expected the same row in any batch, bit for bit", alone.before)
            });
        }
        comparison.same(alone.tokens == together.tokens, || {
            format!("{what}, alone and in a batch: {}", parting(&alone.tokens, &together.tokens))
        });
    }
    Ok(comparison.line(
        Gate::Filters,
        fault,
        format!("{}: {} requests, alone and in batches of {BATCH}", way.name(), jobs.len()),
    ))
}

fn trails(
    fixture: &Fixture,
    way: Way,
    max_batch: usize,
    jobs: &[Job],
    fault: Option<Fault>,
) -> Result<Vec<Trail>, GateError> {
    let speculation = way.speculation();
    let options = BackendOptions {
        threads: 2,
        isa: None,
        kv_type: KvType::F32,
        pages: 4 * max_batch,
        state_slots: max_batch,
        snapshots: max_batch,
        drafts: speculation.drafts,
        sketches: false,
    };
    let open = |model: &Model| backend::open(BackendKind::Auto, model, &options);
    let drafter: Box<dyn Drafter> = match way {
        Way::Plain => Box::new(NoDrafter),
        Way::Verified(_) => {
            let config = &fixture.draft.config;
            let drafter =
                ModelDrafter::new(open(&fixture.draft)?, config.vocabulary_size, config.context_length, DRAFTS);
            drafter
                .map_err(|error| GateError::Reference { what: "the draft model", why: error.to_string() })
                .map(Box::new)?
        }
    };
    let tokenizer = &fixture.tokenizer;
    Bench { tokenizer, max_batch, prefill_chunk: 4, speculation, fault }.run(open(&fixture.model)?, drafter, jobs)
}

impl Sampling {
    /// The filters in words.
    fn told(&self) -> String {
        let Self { temperature, top_k, top_p, min_p, .. } = self;
        let told = [
            temperature.map(|value| format!("temperature {value}")),
            top_k.map(|value| format!("top_k {value}")),
            top_p.map(|value| format!("top_p {value}")),
            min_p.map(|value| format!("min_p {value}")),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        if told.is_empty() { "no parameters".to_owned() } else { told.join(" ") }
    }
}
