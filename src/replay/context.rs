//! What every check may look at.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::batches::Batches;
use super::checks::seeds::ForeignDraws;
use super::constraint::Trace;
use super::draft_model::{self, Proposed};
use super::forward::PlainModel;
use super::gaps::Gaps;
use super::grammars::Grammars;
use super::joined::joined;
use super::preflight::Preflight;
use super::recording::{RecordedSequence, Recording, RowId};
use super::redaction;
use super::rejection::Proposal;
use super::report::{Place, Report};
use super::rules::{Rules, RulesError};
use super::sampler::Situation;
use super::verdict::{CheckName, Skip};
use crate::capture::records::{
    Admission, LossRecord, MOST_DRAFTS, MaskRecord, ModelIdentity, RowRecord, StepRecord, StopReason,
};
use crate::model::Model;

/// One capture under replay.
pub(super) struct Context<'a> {
    pub(super) name: &'a str,
    pub(super) recording: &'a dyn Recording,
    pub(super) plain: Option<&'a PlainModel<'a>>,
    /// The draft model, if the capture names one and replay has it.
    pub(super) draft: Option<&'a PlainModel<'a>>,
    pub(super) preflight: &'a Preflight,
    pub(super) batches: Batches,
    pub(super) grammars: Grammars<'a>,
    pub(super) gaps: Gaps,
    /// What events say of failures, and when, by request, choice and step.
    pub(super) failures: HashMap<(u64, u32, u64), Vec<(u64, String)>>,
    /// Steps of which events say that the grammar library failed, likewise.
    pub(super) grammar_failures: HashSet<(u64, u32, u64)>,
    /// Draws of which events say that they did not come from the request's seed.
    pub(super) foreign_draws: ForeignDraws<'a>,
    pub(super) checks: &'a [CheckName],
}

impl<'a> Context<'a> {
    /// Why a check cannot run on this capture at all.
    pub(super) fn blocked(&self, check: CheckName) -> Option<Skip> {
        self.preflight.blocked.get(&check).cloned()
    }

    /// The model, if replay has it.
    pub(super) fn model(&self) -> Option<&'a Model> {
        self.plain.map(PlainModel::model)
    }

    /// Whether the engine that recorded follows the rules of this repository.
    pub(super) fn is_own(&self) -> bool {
        self.preflight.own_rules
    }

    /// Whether it follows the rules of vLLM.
    pub(super) fn is_like_vllm(&self) -> bool {
        self.recording.header().sampler_semantics == "vllm"
    }

    /// The first loss of a channel that covers a step.
    pub(super) fn loss(&self, channel: &str, step: u64) -> Option<&'a LossRecord> {
        let covers = |&(first, last): &(u64, u64)| (first..=last).contains(&step);
        let mut losses = self.recording.losses().iter().filter(|loss| loss.channel == channel);
        losses.find(|loss| loss.steps.as_ref().is_none_or(covers))
    }

    /// Whether the recorder left a field out, or put something else in its place.
    pub(super) fn is_redacted(&self, field: &str) -> bool {
        redaction::is_redacted(self.recording.header(), field)
    }

    /// Number of logits in a row, as recorded; as loaded if the recorder did not say.
    pub(super) fn vocabulary_size(&self) -> Option<u32> {
        let recorded = self.recorded_model().and_then(|model| model.vocabulary_size);
        recorded.or_else(|| self.model().map(|model| model.config.vocabulary_size as u32))
    }

    /// Longest sequence that the engine admitted.
    pub(super) fn context_length(&self) -> Option<u32> {
        self.recorded_model().and_then(|model| model.context_length)
    }

    /// Tokens that fit into the context after a prompt.
    pub(super) fn room(&self, admission: &Admission) -> Option<u32> {
        self.context_length().map(|length| length.saturating_sub(admission.prompt_tokens.len() as u32))
    }

    /// Most drafts per step, as recorded; `None` where that is not said, or is more than any engine of ours verifies.
    pub(super) fn most_drafts(&self) -> Option<usize> {
        let drafts = self.setting("drafts")?.as_u64()?;
        usize::try_from(drafts).ok().filter(|drafts| *drafts <= MOST_DRAFTS)
    }

    /// A recorded setting, where it is there and is not "none".
    pub(super) fn setting(&self, name: &str) -> Option<Value> {
        let settings = &self.recording.header().configuration;
        let setting = settings.iter().find(|setting| setting.name == name)?;
        serde_json::from_str(&setting.value).ok().filter(|value: &Value| !value.is_null())
    }

    pub(super) fn recorded_model(&self) -> Option<&'a ModelIdentity> {
        self.recording.header().model.as_ref()
    }

    /// An empty report with a tally for each check that was asked for.
    pub(super) fn report(&self) -> Report {
        Report::new(self.name, self.checks.iter().copied())
    }

    /// Model's end tokens, as recorded; as loaded if the recorder did not say.
    pub(super) fn end_tokens(&self) -> Option<Vec<u32>> {
        let recorded = self.recorded_model().and_then(|model| model.end_tokens.clone());
        recorded
            .or_else(|| self.model().map(|model| model.tokenizer.end_tokens().iter().map(|token| token.0).collect()))
    }
}

/// One choice under replay.
pub(super) struct Sequence<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) admission: &'a Admission,
    pub(super) recorded: &'a RecordedSequence,
    pub(super) rules: &'a Result<Rules, RulesError>,
    /// Whether a step of any of the request's choices ended in a failure.
    pub(super) request_failed: bool,
    /// The model's end tokens, if they are known.
    end_tokens: Option<Vec<u32>>,
    /// What the draft model proposes in each step, or why that is not known.
    proposals: Result<HashMap<u64, Vec<Proposed>>, Skip>,
    /// What its grammar says, if it has one and a check asks for it.
    pub(super) grammar: Option<Result<Trace, Skip>>,
    /// How many steps join up from the beginning: after a step that is missing it is not known what was committed.
    pub(super) joined: usize,
}

impl<'a> Sequence<'a> {
    /// One choice of a request.
    pub(super) fn new(
        context: &'a Context<'a>,
        admission: &'a Admission,
        recorded: &'a RecordedSequence,
        rules: &'a Result<Rules, RulesError>,
        request_failed: bool,
    ) -> Self {
        let steps = &recorded.steps;
        // Without gaps, steps that do not join up are the engine's, and for the check `commit`.
        let joined = if context.gaps.records { joined(steps, admission.prompt_tokens.len()) } else { steps.len() };
        let end_tokens = context.end_tokens();
        let proposals = Err(Skip::not_recorded("the draft model was not run again"));
        let grammar = None;
        Self { context, admission, recorded, rules, request_failed, end_tokens, proposals, grammar, joined }
    }

    /// Follows the grammar, where there is one, for the checks that ask what it says.
    pub(super) fn follow_grammar(&mut self) {
        let context = self.context;
        let forces = context.setting("drafter").is_some_and(|drafter| drafter == "grammar");
        let forced = context.most_drafts().filter(|_| forces).unwrap_or(0);
        let steps = self.recorded.steps.get(..self.joined).unwrap_or_default();
        self.grammar = context.grammars.trace(self.admission, steps, forced);
        if self.grammar.is_none() && context.is_redacted("constraint") && self.recorded.steps.iter().any(has_grammar) {
            self.grammar = Some(Err(Skip::not_recorded("grammars were left out of the capture")));
        }
        // Hashes of tokens are no tokens that a grammar could follow.
        if let Some(skip) = redaction::blocks(CheckName::Masks, self.context.recording.header()) {
            self.grammar = self.grammar.take().map(|_| Err(skip));
        }
    }

    /// Runs the draft model again, where one drafted, for the checks that need its proposals.
    pub(super) fn run_draft_model(&mut self) {
        if self.context.setting("drafter").is_some_and(|drafter| drafter == "model") {
            self.proposals = self.draft_model_proposals();
        }
    }

    fn draft_model_proposals(&self) -> Result<HashMap<u64, Vec<Proposed>>, Skip> {
        let context = self.context;
        let plain = context
            .draft
            .ok_or_else(|| Skip::missing("no draft model: give the one that was recorded with --draft-model"))?;
        if let Some(skip) = context.blocked(CheckName::Forward).filter(|_| context.plain.is_some()) {
            return Err(skip);
        }
        let count = context
            .most_drafts()
            .ok_or_else(|| Skip::not_recorded("how many drafts were asked for is not recorded"))?;
        draft_model::proposals(plain, self, self.rules()?, count, self.tests_by_chance())
            .map_err(|error| Skip::missing(format!("the draft model cannot read what was recorded: {error}")))
    }

    /// What the draft model proposes in a step.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn proposals_of(&self, step: u64) -> Result<&[Proposed], Skip> {
        let proposals = self.proposals.as_ref().map_err(Clone::clone)?;
        Ok(proposals.get(&step).map_or(&[], Vec::as_slice))
    }

    /// Whether drafts are tested by chance, as the rule `rejection` has it for sampled requests.
    pub(super) fn tests_by_chance(&self) -> bool {
        self.context.is_own()
            && self.context.setting("verify-rule").is_some_and(|rule| rule == "rejection")
            && self.rules.as_ref().is_ok_and(|rules| rules.temperature > 0.0)
    }

    /// Why a step past [`Self::joined`] cannot be checked.
    pub(super) fn not_joined() -> Skip {
        Skip::missing("steps before it are missing, and with them what was committed by then")
    }

    /// What the steps that join up emitted.
    pub(super) fn known_output(&self) -> Vec<u32> {
        let known = self.recorded.steps.get(..self.joined).unwrap_or_default();
        known.iter().flat_map(|step| &step.emitted).copied().collect()
    }

    /// Where a subject of this choice stands.
    pub(super) fn place(&self, step: Option<u64>, row: Option<u32>) -> Place<'a> {
        Place { step, row, choice: Some(self.recorded.choice), ..request_place(self.admission) }
    }

    /// The recorded parameters, or why they cannot be used.
    pub(super) fn rules(&self) -> Result<&'a Rules, Skip> {
        self.rules
            .as_ref()
            .map_err(|error| Skip::not_recorded(format!("the request's parameters are not known: {error}")))
    }
}

/// Whether a grammar was at work in the step.
fn has_grammar(step: &StepRecord) -> bool {
    step.grammar.is_some() || step.rows.iter().any(|row| row.scheduler_mask.is_some())
}

/// Where a subject of a whole request stands.
pub(super) fn request_place(admission: &Admission) -> Place<'_> {
    Place { request: Some(admission.request), client_id: admission.client_id.as_deref(), ..Place::default() }
}

/// One logits row under replay.
pub(super) struct Row<'a> {
    pub(super) sequence: &'a Sequence<'a>,
    pub(super) step: &'a StepRecord,
    pub(super) index: u32,
    pub(super) record: &'a RowRecord,
    /// Tokens emitted before the one that the row decides.
    pub(super) output: &'a [u32],
    /// What the sampler was told that the grammar allows.
    pub(super) masking: &'a Masking,
}

/// The mask that a row was sampled with, as far as it can be had.
pub(super) enum Masking {
    /// No mask is recorded.
    None,
    /// This one.
    Mask(MaskRecord),
    /// One that cannot be had.
    Unknown(Skip),
}

impl Masking {
    /// The applied mask of a row.
    pub(super) fn of(context: &Context<'_>, record: &RowRecord) -> Self {
        let Some(hash) = &record.applied_mask else { return Self::None };
        match context.recording.mask(hash) {
            Ok(Some(mask)) => Self::Mask(mask),
            Ok(None) if context.is_redacted("mask") => Self::Unknown(Skip::missing("redacted in the capture: `mask`")),
            Ok(None) => Self::Unknown(Skip::missing("the mask that the sampler used is not in the capture")),
            Err(error) => {
                Self::Unknown(Skip::missing(format!("the mask that the sampler used cannot be read: {error}")))
            }
        }
    }
}

impl<'a> Row<'a> {
    /// The token that was emitted from it.
    pub(super) fn emitted(&self) -> Option<u32> {
        self.step.emitted.get(self.index as usize).copied()
    }

    /// Absolute position of that token.
    pub(super) fn decides(&self) -> u32 {
        (self.sequence.admission.prompt_tokens.len() + self.output.len()) as u32
    }

    /// Whether the engine looked at it: every row up to the last that gave a token, and the one that failed.
    pub(super) fn is_judged(&self) -> bool {
        let sequence = self.sequence;
        let place = (sequence.admission.request, sequence.recorded.choice, self.step.step);
        let failed = matches!(self.step.stop, Some(StopReason::Failed(_)))
            && !sequence.context.grammar_failures.contains(&place);
        (self.index as usize) < self.step.emitted.len() + usize::from(failed)
    }

    /// What it was sampled with.
    pub(super) fn situation(&self) -> Result<Situation<'a>, Skip> {
        let sequence = self.sequence;
        let end_tokens = sequence.end_tokens.as_deref();
        Ok(Situation {
            rules: sequence.rules()?,
            prompt: &sequence.admission.prompt_tokens,
            output: self.output,
            end_tokens: end_tokens.ok_or_else(|| Skip::not_recorded("the model's end tokens are not known"))?,
            mask: match self.masking {
                Masking::None => None,
                Masking::Mask(mask) => Some(mask),
                Masking::Unknown(skip) => return Err(skip.clone()),
            },
            position: self.decides(),
            choice: sequence.recorded.choice,
        })
    }

    /// The draft that it tests by chance; `None` where the token is what plain decoding gives.
    pub(super) fn tested_draft(&self) -> Option<u32> {
        let is_tested = self.sequence.tests_by_chance() && self.is_judged();
        let draft = *self.step.drafts.get(self.index as usize).filter(|_| is_tested)?;
        u32::try_from(draft).ok()
    }

    /// How the drafter came to that draft.
    pub(super) fn proposal(&self) -> Result<Proposal, Skip> {
        let drafter = self.sequence.context.setting("drafter");
        match drafter.as_ref().and_then(|drafter| drafter.as_str()) {
            Some("model") => {
                let proposed = self.sequence.proposals_of(self.step.step)?.get(self.index as usize);
                let absent = || Skip::not_recorded("the draft model proposes nothing there");
                proposed.map(|(_, proposal)| proposal.clone()).ok_or_else(absent)
            }
            Some("ngram" | "grammar" | "random" | "scripted") => Ok(Proposal::Certain),
            _ => Err(Skip::not_recorded("how the engine drafts is not recorded, or not known here")),
        }
    }

    /// Where its payload stands.
    pub(super) fn id(&self) -> RowId {
        RowId {
            step: self.step.step,
            request: self.sequence.admission.request,
            choice: self.sequence.recorded.choice,
            row: self.index,
        }
    }

    /// Where findings about it stand.
    pub(super) fn place(&self) -> Place<'a> {
        self.sequence.place(Some(self.step.step), Some(self.index))
    }
}
