//! The composition gate: drafts, tests, residuals and bonus tokens, in the engine's own order, leave the distribution as it is.
//!
//! By the result of Leviathan et al. (2023) and Chen et al. (2023) verified tokens follow the target's distribution, whoever
//! drafts. The target here depends on the token before, so that a row of a wrong place shows as well: every outcome is counted
//! as its distance from the token before, which makes all draws of a line draws of one distribution.

mod null;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use self::null::Null;
pub use self::null::{Bounds, QUANTILE, SETS};
use super::GateError;
use super::driver::{Bench, Job, Sampling, Trail};
use super::fixture::Fixture;
use super::judgement::{Gate, Line, Verdict};
use super::scripted::{Place, Scripted, unit};
use crate::arith::{ATTENTION_CHUNK, scalar};
use crate::backend::BackendError;
use crate::engine::drafter::{DraftContext, Drafter};
use crate::engine::faults::Fault;
use crate::engine::sampler::{Draft, VerifyRule};
use crate::engine::speculation::{Scheduling, Speculation};
use crate::replay::sampler::{Situation, candidates};
use crate::types::TokenId;

/// Draws of a line.
pub const DRAWS: u32 = 20_000;
/// The share of verified drafts that has to be accepted: near 0 or 1 only one side of the test is tried.
pub const ACCEPTANCE: RangeInclusive<f64> = 0.05..=0.95;

/// Tokens that can come.
const SUPPORT: usize = 64;
/// Sequences that share the draws of a line, all of them in one batch.
const SEQUENCES: u32 = 8;
/// Drafts of a step.
const DRAFTS: usize = 3;
/// Keys the draws of the drafter, which must not be those of the engine.
const DRAFT_KEY: u64 = 0x00d4_af75;

const RULES: [VerifyRule; 2] = [VerifyRule::Coupled, VerifyRule::Rejection];

/// What a line found.
#[derive(Clone, Debug, PartialEq)]
pub struct Composed {
    /// How drafts were verified.
    pub rule: VerifyRule,
    /// How they were drafted.
    pub drafting: &'static str,
    /// What was drawn from.
    pub target: &'static str,
    /// Drafts that were verified.
    pub verified: u64,
    /// Of them, those that were accepted.
    pub accepted: u64,
    /// How far the draws are from the target.
    pub found: Bounds,
    /// The [`QUANTILE`] of what chance does.
    pub bounds: Bounds,
}

impl Composed {
    /// The share of verified drafts that was accepted; `None` if none was verified.
    pub fn acceptance(&self) -> Option<f64> {
        (self.verified > 0).then(|| self.accepted as f64 / self.verified as f64)
    }
}

/// How drafts come to be; places of tokens are relative to the token before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drafting {
    /// Likely tokens without a probability, so that q is 1.
    Certain,
    /// Draws with their distribution, of tokens that are likelier than in the target, less likely, and hardly possible.
    Drawn,
    /// A token that cannot come. No gate runs with it: nothing is ever accepted.
    #[cfg(test)]
    Impossible,
}

impl Drafting {
    const ALL: [Self; 2] = [Self::Certain, Self::Drawn];

    fn name(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Drawn => "drawn",
            #[cfg(test)]
            Self::Impossible => "impossible",
        }
    }

    /// The distribution it draws from.
    fn distribution(self) -> &'static [(usize, f64)] {
        match self {
            Self::Certain => &[(0, 0.25), (1, 0.25), (2, 0.25), (4, 0.25)],
            Self::Drawn => &[(0, 0.2), (2, 0.2), (3, 0.1), (5, 0.2), (9, 0.1), (14, 0.1), (40, 0.1)],
            #[cfg(test)]
            Self::Impossible => &[(SUPPORT, 1.0)],
        }
    }

    /// The draft after `before` that a uniform gives.
    fn draft(self, before: TokenId, uniform: f64) -> Draft {
        let token = |place: usize| match place < SUPPORT {
            true => TokenId((before.0 + place as u32) % SUPPORT as u32),
            false => TokenId(SUPPORT as u32),
        };
        let distribution = self.distribution();
        let mut sum = 0.0;
        let reached = |&&(_, q): &&(usize, f64)| {
            sum += q;
            uniform < sum
        };
        let place = distribution.iter().find(reached).or(distribution.last()).map_or(0, |&(place, _)| place);
        let mut tokens: Vec<(TokenId, f64)> = distribution.iter().map(|&(place, q)| (token(place), q)).collect();
        tokens.sort_unstable_by_key(|&(token, _)| token);
        Draft { token: token(place), distribution: (self == Self::Drawn).then_some(tokens) }
    }
}

/// Drafts for the gate's sequences; a draft depends on its position and on the token before it.
struct ComposingDrafter {
    drafting: Drafting,
    /// Another one for each set of draws, or their distances from the target would go together.
    key: u64,
}

impl Drafter for ComposingDrafter {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        let propose = |context: &DraftContext<'_>| {
            let mut before = context.tokens.last().copied().unwrap_or(TokenId(0));
            let draft = |index: usize| {
                let place = [(context.tokens.len() + index) as u32, context.sequence.request.0 as u32, 0];
                let draft = self.drafting.draft(before, unit(self.key, place));
                before = draft.token;
                draft
            };
            (0..DRAFTS).map(draft).collect()
        };
        Ok(sequences.iter().map(propose).collect())
    }
}

/// What is drawn from.
struct Target {
    name: &'static str,
    sampling: Sampling,
    /// By distance from the token before.
    probabilities: Vec<f64>,
}

impl Target {
    fn new(name: &'static str, sampling: Sampling) -> Result<Self, GateError> {
        let rules = sampling.rules(1);
        let situation =
            Situation { rules: &rules, prompt: &[], output: &[], end_tokens: &[], mask: None, position: 0, choice: 0 };
        let wrong = |why: String| GateError::Reference { what: "the target's distribution", why };
        let kept = candidates(&logits(), &situation).map_err(|error| wrong(error.to_string()))?;
        let weight = |value: f32| scalar::exp_f64(f64::from(value));
        let total: f64 = kept.iter().map(|candidate| weight(candidate.value)).sum();
        let mut probabilities = vec![0.0; SUPPORT];
        for candidate in &kept {
            if let Some(p) = probabilities.get_mut(candidate.id as usize) {
                *p = weight(candidate.value) / total;
            }
        }
        Ok(Self { name, sampling, probabilities })
    }

    /// Everything at temperature 1.
    fn plain() -> Result<Self, GateError> {
        Self::new("plain", Sampling { temperature: Some(1.0), ..Sampling::default() })
    }

    /// What temperature, min-p and top-p leave.
    fn filtered() -> Result<Self, GateError> {
        let sampling = Sampling { temperature: Some(0.8), min_p: Some(0.2), top_p: Some(0.95), ..Sampling::default() };
        Self::new("filtered", sampling)
    }
}

/// Logits by distance from the token before; no two are equal, so that no tie depends on ids.
fn logits() -> Vec<f32> {
    (0..SUPPORT).map(|distance| distance as f32 / -7.0).collect()
}

/// A target with what chance does to draws from it.
struct Aim<'a> {
    target: &'a Target,
    bounds: Bounds,
}

/// One line to run.
struct Case<'a> {
    aim: &'a Aim<'a>,
    rule: VerifyRule,
    drafting: Drafting,
    fault: Option<Fault>,
}

/// Draws, counted.
struct Sample {
    /// By distance from the token before.
    counts: Vec<u64>,
    verified: u64,
    accepted: u64,
}

/// Runs the gate.
pub(super) fn run(fixture: &Fixture, teeth: bool) -> Result<Vec<Line>, GateError> {
    let targets = [Target::plain()?, Target::filtered()?];
    let aims =
        targets.each_ref().map(|target| Aim { target, bounds: Null::simulate(&target.probabilities, DRAWS).bounds() });
    let [plain, filtered] = &aims;
    let mut lines = Vec::new();
    let mut line = |aim, rule, drafting, fault| {
        let case = Case { aim, rule, drafting, fault };
        lines.push(case.line(&case.sample(fixture, DRAWS, 0)?, DRAWS));
        Ok::<(), GateError>(())
    };
    for rule in RULES {
        for aim in &aims {
            for drafting in Drafting::ALL {
                line(aim, rule, drafting, None)?;
            }
        }
    }
    for fault in FAULTS.into_iter().filter(|_| teeth) {
        for rule in RULES {
            let aim = if fault == Fault::MIN_P_SKIPPED { filtered } else { plain };
            if inapplicable(fault, rule).is_none() {
                for drafting in Drafting::ALL {
                    line(aim, rule, drafting, Some(fault))?;
                }
            }
        }
    }
    if teeth {
        lines.extend(FAULTS.into_iter().flat_map(|fault| {
            let absent = |rule: VerifyRule| Some((rule, inapplicable(fault, rule)?));
            let line =
                move |(rule, why): (VerifyRule, &str)| Line::does_not_apply(Gate::Composition, fault, rule.name(), why);
            RULES.into_iter().filter_map(absent).map(line).collect::<Vec<_>>()
        }));
    }
    Ok(lines)
}

/// The faults that have to show.
const FAULTS: [Fault; 6] = [
    Fault::ACCEPT_INVERTED,
    Fault::RESIDUAL_DROPPED,
    Fault::UNIFORM_ZERO,
    Fault::ALWAYS_GREEDY,
    Fault::MIN_P_SKIPPED,
    Fault::GOES_ON_AFTER_REJECTION,
];

/// Why a fault cannot exist under a rule; `None` where it can.
fn inapplicable(fault: Fault, rule: VerifyRule) -> Option<&'static str> {
    match (fault, rule) {
        (Fault::RESIDUAL_DROPPED, VerifyRule::Coupled) => {
            Some("a rejected draft gives way to the very token that it was compared with: there is no residual")
        }
        (Fault::UNIFORM_ZERO, VerifyRule::Coupled) => {
            Some("a draft is compared with the token that is drawn: no uniform decides")
        }
        _ => None,
    }
}

impl Case<'_> {
    /// Runs the engine for `draws` tokens, which [`SEQUENCES`] divides.
    fn sample(&self, fixture: &Fixture, draws: u32, seed: u64) -> Result<Sample, GateError> {
        let jobs: Vec<Job> = (0..SEQUENCES)
            .map(|number| {
                let seed = seed * u64::from(SEQUENCES) + u64::from(number);
                let sampling = Sampling { seed, ..self.aim.target.sampling.clone() };
                let prompt = vec![TokenId(number)];
                Job { prompt, sampling, max_tokens: draws / SEQUENCES, grammar: None }
            })
            .collect();
        let logits = logits();
        let row = move |place: Place, row: &mut [f32]| {
            row.fill(f32::NEG_INFINITY);
            for (distance, logit) in logits.iter().enumerate() {
                if let Some(value) = row.get_mut((place.token.index() + distance) % SUPPORT) {
                    *value = *logit;
                }
            }
        };
        let pages = SEQUENCES as usize * (draws as usize / ATTENTION_CHUNK + 2);
        // One token more than can come: a draft of it is impossible.
        let backend = Scripted::new(SUPPORT + 1, pages, DRAFTS, row);
        let speculation = Speculation { drafts: DRAFTS, scheduling: Scheduling::Sync, rule: self.rule };
        let bench = Bench {
            tokenizer: &fixture.tokenizer,
            max_batch: SEQUENCES as usize,
            prefill_chunk: 1,
            speculation,
            fault: self.fault,
        };
        let drafter = ComposingDrafter { drafting: self.drafting, key: DRAFT_KEY + seed };
        let trails = bench.run(Box::new(backend), Box::new(drafter), &jobs)?;
        Ok(Sample::of(&jobs, &trails))
    }

    /// What the draws come to.
    fn line(&self, sample: &Sample, draws: u32) -> Line {
        let Aim { target, bounds } = *self.aim;
        let found = Bounds::of(&sample.counts, &target.probabilities);
        let (rule, drafting) = (self.rule, self.drafting.name());
        let Sample { verified, accepted, .. } = *sample;
        let composed = Composed { rule, drafting, target: target.name, verified, accepted, found, bounds };
        let mut wrong = Vec::new();
        let drawn: u64 = sample.counts.iter().sum();
        if drawn != u64::from(draws) {
            wrong.push(format!("expected {draws} draws, found {drawn}"));
        }
        if found.total_variation > bounds.total_variation {
            wrong.push("the total variation distance is more than chance allows".to_owned());
        }
        if found.greatest > bounds.greatest {
            wrong.push("a token's share differs by more than chance allows".to_owned());
        }
        let is_inside = composed.acceptance().is_some_and(|share| ACCEPTANCE.contains(&share));
        if !is_inside {
            let (low, high) = (ACCEPTANCE.start(), ACCEPTANCE.end());
            wrong.push(format!(
                "{accepted} of {verified} drafts were accepted, which is not from {low} to {high}: it proves nothing"
            ));
        }
        let verdict = if wrong.is_empty() { Verdict::Passed } else { Verdict::Failed(wrong.join("; ")) };
        let case = format!("{}, {drafting} drafts, {} target", rule.name(), target.name);
        Line { gate: Gate::Composition, fault: self.fault, case, checked: drawn, verdict, composed: Some(composed) }
    }
}

impl Sample {
    fn of(jobs: &[Job], trails: &[Trail]) -> Self {
        let mut sample = Self { counts: vec![0; SUPPORT], verified: 0, accepted: 0 };
        for (job, trail) in jobs.iter().zip(trails) {
            let mut before = job.prompt.last().copied().unwrap_or(TokenId(0));
            for judged in trail.judged() {
                let distance = (judged.token.index() + SUPPORT - before.index() % SUPPORT) % SUPPORT;
                if let Some(count) = sample.counts.get_mut(distance) {
                    *count += 1;
                }
                before = judged.token;
                let Some(draft) = judged.draft else { continue };
                sample.verified += 1;
                let is_accepted = judged.odds.map_or(draft.token == judged.token, |odds| odds.accepts());
                sample.accepted += u64::from(is_accepted);
            }
        }
        sample
    }
}
