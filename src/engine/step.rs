//! One iteration of the engine loop: `draft -> schedule -> forward -> mask -> sample -> commit`.
//!
//! A sequence contributes `1 + drafts` rows to a step: the last committed token, then each draft. Its rows are judged one
//! after another. A row gives the token for the next position; when a draft stands there and is that very token, the
//! draft is accepted and the row after it counts as well. So a step commits between 1 and `drafts + 1` tokens. They are
//! the tokens that plain decoding would have given; under [`VerifyRule::Rejection`](super::sampler::VerifyRule) they are
//! drawn from the same distribution instead.

use crate::backend::StepOutput;
use crate::engine::constraint::{GrammarPosition, SequenceGrammar};
use crate::engine::faults::{Filled, Surroundings};
use crate::engine::logprobs::logprobs;
use crate::engine::sampler::{Draft, Judgement, Odds};
use crate::engine::scheduler::{Plan, Share};
use crate::engine::sequence::{FinishedChoice, Sequence};
use crate::engine::speculation::DraftQuery;
use crate::engine::tap::{EventKind, EventReport, RowReport, StepReport, StepTimings, Tap};
use crate::engine::validity::ValidRow;
use crate::engine::{Engine, EngineError};
use crate::grammar::MaskRow;
use crate::types::{FinishReason, Position, SequenceId, TokenId};

/// What became of one sequence's share of a step.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Tokens that were committed, in order.
    pub emitted: Vec<TokenId>,
    /// The test of chance that each of them came of; `None` where there was none.
    pub odds: Vec<Option<Odds>>,
    /// Rows that were judged.
    pub judged: usize,
    /// Where the grammar stood before the step, and after it.
    pub grammar: Option<(GrammarPosition, GrammarPosition)>,
    /// Why the sequence ended, if it did.
    pub stop: Option<FinishReason>,
    /// What kind of failure ended it, if one did.
    pub failure: Option<EventKind>,
}

impl<T: Tap> Engine<T> {
    /// Takes one step, and returns the choices that it ended, in batch order. An idle engine does nothing.
    ///
    /// A row that must not become a token ends the request it belongs to and nothing else.
    ///
    /// # Errors
    /// If the backend fails. The engine can take no further step then.
    pub fn step(&mut self) -> Result<Vec<FinishedChoice>, EngineError> {
        let begun_ns = self.clock.now_ns();
        let plan = self.schedule()?;
        if plan.shares.is_empty() {
            return Ok(Vec::new());
        }
        let scheduled_ns = self.clock.now_ns();
        let output = self.forward(&plan)?;
        let computed_ns = self.clock.now_ns();
        let filled: Vec<Filled> = plan.shares.iter().map(|share| self.fill(share)).collect();
        let applied = self.faults.applied(&plan, &filled);
        let mut outcomes = Vec::with_capacity(plan.shares.len());
        let mut row = 0;
        for ((share, filled), applied) in plan.shares.iter().zip(&filled).zip(&applied) {
            let mut outcome = match filled {
                Ok(_) => self.sample(share, &output, row, applied),
                Err(error) => Outcome::default().failed(EventKind::GrammarFailed, error.to_string()),
            };
            self.commit(share, &mut outcome)?;
            row += share.rows();
            outcomes.push(outcome);
        }
        let timings = StepTimings {
            schedule_ns: scheduled_ns - begun_ns,
            forward_ns: output.forward_ns,
            sample_ns: self.clock.now_ns() - computed_ns,
        };
        self.report(&plan, &output, &Masks { filled: &filled, applied: &applied }, &outcomes, timings);
        self.output = output;
        let finished = self.retire(&plan, outcomes);
        self.next_step.0 += 1;
        Ok(finished)
    }

    /// **Draft and schedule**: admits what there is room for, and gives every running sequence its share of the step.
    fn schedule(&mut self) -> Result<Plan, EngineError> {
        while let Some((waiting, holding)) = self.scheduler.admit(&mut self.state, self.config.context_length) {
            self.start(waiting, holding)?;
        }
        let drafts = self.draft()?;
        Ok(self.scheduler.plan(drafts, self.state.takes_snapshots()))
    }

    /// What every decoding sequence is to verify, in order of admission.
    fn draft(&mut self) -> Result<Vec<DraftQuery>, EngineError> {
        let speculation = self.speculation;
        let wanted = self.drafter.forced_tokens();
        let mut decoding: Vec<&mut Sequence> =
            self.scheduler.running_mut().iter_mut().filter(|sequence| !sequence.is_prefilling()).collect();
        let forced: Vec<Vec<TokenId>> = decoding.iter_mut().map(|sequence| sequence.forced(wanted)).collect();
        let contexts = decoding.iter().zip(&forced);
        let contexts: Vec<_> =
            contexts.map(|(sequence, forced)| sequence.draft_context(speculation.rule, forced)).collect();
        let step = self.next_step;
        let proposals = self.drafter.propose(&contexts).map_err(|source| EngineError::Drafter { step, source })?;
        let query = |(sequence, proposed): (&mut Sequence, Vec<Draft>)| {
            let legal = self.faults.legal(sequence.legal_drafts(&proposed), proposed.len());
            DraftQuery::new(proposed, legal, sequence.draft_limit(), sequence.last_token(), &speculation)
        };
        Ok(decoding.into_iter().zip(proposals).map(query).collect())
    }

    /// **Forward**: the model reads every share's tokens and computes the logits rows that are wanted.
    fn forward(&mut self, plan: &Plan) -> Result<StepOutput, EngineError> {
        let step = self.next_step;
        let mut output = std::mem::take(&mut self.output);
        self.backend.forward(&plan.batch, &mut output).map_err(|source| EngineError::Backend { step, source })?;
        let expected: usize = plan.shares.iter().map(Share::rows).sum();
        let vocabulary = self.backend.capacity().vocabulary_size;
        let (values, statistics, inputs) = (output.rows.len(), output.statistics.len(), output.inputs.len());
        if (values, statistics, inputs) != (expected * vocabulary, expected, expected) {
            return Err(EngineError::Output { step, expected, vocabulary, values, statistics, inputs });
        }
        Ok(output)
    }

    /// **Mask**: what the grammar allows in each row of the share, given the drafts before it; nothing without rows.
    fn fill(&mut self, share: &Share) -> Filled {
        if share.rows() == 0 {
            return Ok(Vec::new());
        }
        let drafts: Vec<Option<TokenId>> =
            share.drafts.places.iter().map(|draft| draft.as_ref().map(|draft| draft.token)).collect();
        let Sequence { id, grammar, .. } = &mut self.scheduler.running_mut()[share.sequence];
        match grammar {
            Some(grammar) => self.faults.fill(*id, grammar, &drafts, self.tokenizer.end_tokens()),
            None => Ok(vec![None; share.rows()]),
        }
    }

    /// **Sample**: judges the share's rows in order until one rejects the draft after it, ends the sequence or turns out
    /// invalid.
    ///
    /// Each token is taken into the sequence at once, because the next row's penalties count it.
    fn sample(&mut self, share: &Share, output: &StepOutput, first_row: usize, masks: &[Option<&MaskRow>]) -> Outcome {
        let sequence = &mut self.scheduler.running_mut()[share.sequence];
        let position = sequence.grammar.as_ref().map(SequenceGrammar::position);
        let mut outcome = Outcome { grammar: position.map(|position| (position, position)), ..Outcome::default() };
        if let Some(why) = self.faults.refuses(share.drafts.places.len(), self.speculation.drafts) {
            return outcome.failed(EventKind::NothingToSample, why);
        }
        for (index, row) in (first_row..first_row + share.rows()).enumerate() {
            outcome.judged = index + 1;
            let draft = share.draft(index);
            let logits = output.row(row).unwrap_or(&[]);
            let valid = ValidRow::check(logits, &output.statistics[row]);
            let judged = match (&valid, self.faults.token_of_invalid_row()) {
                (Ok(valid), _) => {
                    let context = sequence.sample_context(self.tokenizer.end_tokens(), masks[index]);
                    let surroundings = Surroundings {
                        step: self.next_step,
                        neighbour_maximum: output.statistics[row.checked_sub(1).unwrap_or(output.statistics.len() - 1)]
                            .maximum,
                        tokens: &sequence.tokens,
                        prompt: sequence.prompt().len(),
                    };
                    let draft = (draft, self.speculation.rule);
                    self.faults.judge(&mut self.sampler, valid, &context, draft, &surroundings)
                }
                (Err(_), Some(token)) => Ok(Judgement { token, odds: None }),
                (Err(invalid), None) => return outcome.failed(EventKind::InvalidRow, invalid.to_string()),
            };
            let judged = match judged {
                Ok(judged) => judged,
                Err(error) => return outcome.failed(EventKind::NothingToSample, error.to_string()),
            };
            let token = self.forced.remove(&sequence.id).unwrap_or(judged.token);
            let is_accepted = draft.is_some_and(|draft| draft.token == token);
            if let (Some(alternatives), Ok(valid)) = (sequence.submission.sampling.logprobs, &valid) {
                sequence.logprobs.extend(self.faults.told(logprobs(valid, token, alternatives), is_accepted));
            }
            outcome.emitted.push(token);
            outcome.odds.push(judged.odds);
            let ends_grammar = masks[index].is_some() && self.tokenizer.end_tokens().contains(&token);
            let stop = sequence.accept(token, ends_grammar, &self.tokenizer);
            outcome.stop = outcome.stop.or(self.faults.stop(stop, is_accepted));
            let is_over = outcome.stop.is_some() && !self.faults.goes_on_after_the_end();
            if is_over || !(is_accepted || self.faults.goes_on_after_rejection()) {
                break;
            }
        }
        outcome
    }

    /// **Commit**: moves the sequence and its grammar past what it computed and accepted. A failed sequence commits
    /// nothing.
    fn commit(&mut self, share: &Share, outcome: &mut Outcome) -> Result<(), EngineError> {
        if outcome.failure.is_some() {
            return Ok(());
        }
        let sequence = &mut self.scheduler.running_mut()[share.sequence];
        if let (Some(grammar), Some((_, after))) = (&mut sequence.grammar, &mut outcome.grammar) {
            match self.faults.commit(sequence.id, grammar, &outcome.emitted) {
                Ok(()) => *after = grammar.position(),
                Err(error) => {
                    outcome.fail(EventKind::GrammarFailed, error.to_string());
                    return Ok(());
                }
            }
        }
        if share.prefill {
            sequence.computed += share.tokens.len();
            if !sequence.is_prefilling() {
                sequence.prev_accepted = Some(1);
                self.share_prompt(share.sequence);
            }
            return Ok(());
        }
        // Of the tokens read, the committed one and the accepted drafts stay: one per emitted token.
        let accepted = outcome.emitted.len();
        let before = sequence.computed;
        sequence.computed += accepted;
        sequence.prev_accepted = Some(accepted);
        self.save_page_end(share.sequence, before)
    }

    /// Tells the tap what the step did, sequence by sequence.
    fn report(
        &mut self,
        plan: &Plan,
        output: &StepOutput,
        masks: &Masks<'_>,
        outcomes: &[Outcome],
        timings: StepTimings,
    ) {
        let time_ns = self.clock.now_ns();
        let step = self.next_step;
        let running = self.scheduler.running_mut();
        let batch: Vec<SequenceId> = plan.shares.iter().map(|share| running[share.sequence].id).collect();
        let mut next_row = 0;
        for (slot, (share, outcome)) in plan.shares.iter().zip(outcomes).enumerate() {
            let sequence = &mut running[share.sequence];
            let cached_prefix = std::mem::take(&mut sequence.unreported_prefix);
            let masks = masks.of(slot, outcome);
            let row = |index| row_report(share, outcome, sequence, masks, output, (next_row + index, index));
            let rows: Vec<RowReport<'_>> = (0..share.rows()).map(row).collect();
            let first_row = next_row;
            next_row += share.rows();
            self.tap.step(&StepReport {
                step,
                sequence: sequence.id,
                time_ns,
                slot,
                batch: &batch,
                prefill: share.prefill,
                input: &share.tokens,
                first_position: share.first_position,
                drafts: &share.drafts,
                scheduling: self.speculation.scheduling,
                prev_accepted: share.prev_accepted,
                state: plan.batch.entries[slot].state,
                cached_prefix,
                grammar: outcome.grammar,
                rows: &rows,
                sketches: &output.sketches,
                first_row,
                emitted: &outcome.emitted,
                text: sequence.untold_text(),
                odds: &outcome.odds,
                stop: outcome.stop.as_ref(),
                timings,
            });
            if let (Some(kind), Some(FinishReason::Failed(message))) = (outcome.failure, &outcome.stop) {
                self.tap.event(&EventReport { kind, time_ns, sequence: sequence.id, step: Some(step), message });
            }
            sequence.tell_text();
        }
    }
}

/// The masks of a step, share by share and row by row.
struct Masks<'a> {
    filled: &'a [Filled],
    applied: &'a [Vec<Option<&'a MaskRow>>],
}

/// Those of one share; only the rows that were judged have an applied one.
#[derive(Clone, Copy)]
struct ShareMasks<'a> {
    filled: &'a [Option<MaskRow>],
    applied: &'a [Option<&'a MaskRow>],
}

impl<'a> Masks<'a> {
    fn of(&self, share: usize, outcome: &Outcome) -> ShareMasks<'a> {
        let applied = self.applied[share].as_slice();
        ShareMasks {
            filled: self.filled[share].as_deref().unwrap_or(&[]),
            applied: &applied[..outcome.judged.min(applied.len())],
        }
    }
}

/// What the tap is told of row `index` of a share, which is row `row` of the output.
fn row_report<'a>(
    share: &Share,
    outcome: &Outcome,
    sequence: &'a Sequence,
    masks: ShareMasks<'a>,
    output: &'a StepOutput,
    (row, index): (usize, usize),
) -> RowReport<'a> {
    let token = outcome.emitted.get(index).copied();
    let logprobs_before = sequence.logprobs.len().saturating_sub(outcome.emitted.len());
    RowReport {
        position: Position((share.first_position.index() + share.rows_from + index) as u32),
        logits: output.row(row).unwrap_or(&[]),
        input: &output.inputs[row],
        statistics: &output.statistics[row],
        filled_mask: masks.filled.get(index).and_then(Option::as_ref),
        applied_mask: masks.applied.get(index).copied().flatten(),
        token,
        logprobs: token.and_then(|_| sequence.logprobs.get(logprobs_before + index)),
    }
}

impl Outcome {
    fn failed(mut self, kind: EventKind, message: String) -> Self {
        self.fail(kind, message);
        self
    }

    fn fail(&mut self, kind: EventKind, message: String) {
        self.failure = Some(kind);
        self.stop = Some(FinishReason::Failed(message));
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
