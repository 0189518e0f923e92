//! What every check may look at.

use std::collections::HashMap;

use super::batches::Batches;
use super::forward::PlainModel;
use super::gaps::Gaps;
use super::joined::joined;
use super::preflight::Preflight;
use super::recording::{RecordedSequence, Recording, RowId};
use super::report::{Place, Report};
use super::rules::{Rules, RulesError};
use super::verdict::{CheckName, Skip};
use crate::capture::records::{Admission, ModelIdentity, RowRecord, StepRecord};
use crate::model::Model;

/// One capture under replay.
pub(super) struct Context<'a> {
    pub(super) name: &'a str,
    pub(super) recording: &'a dyn Recording,
    pub(super) plain: Option<&'a PlainModel<'a>>,
    pub(super) preflight: &'a Preflight,
    pub(super) batches: Batches,
    pub(super) gaps: Gaps,
    /// What events say of failures, and when, by request, choice and step.
    pub(super) failures: HashMap<(u64, u32, u64), Vec<(u64, String)>>,
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
        Self { context, admission, recorded, rules, request_failed, joined }
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
