//! One iteration of the engine loop: `schedule -> forward -> mask -> sample -> commit`.
//!
//! A sequence contributes `1 + drafts` rows to a step: the last committed token, then each draft. Its rows are judged one
//! after another. A row gives the token for the next position; when a draft stands there and is that very token, the
//! draft is accepted and the row after it counts as well. So a step commits between 1 and `drafts + 1` tokens, and they
//! are the tokens that plain decoding would have given.

use crate::backend::StepOutput;
use crate::engine::logprobs::logprobs;
use crate::engine::scheduler::{Plan, Share};
use crate::engine::sequence::{FinishedChoice, Sequence};
use crate::engine::tap::{EventKind, EventReport, RowReport, StepReport, StepTimings, Tap};
use crate::engine::validity::ValidRow;
use crate::engine::{Engine, EngineError};
use crate::types::{FinishReason, Position, SequenceId, TokenId};

/// What became of one sequence's share of a step.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Tokens that were committed, in order.
    pub emitted: Vec<TokenId>,
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
        let mut outcomes = Vec::with_capacity(plan.shares.len());
        let mut row = 0;
        for share in &plan.shares {
            let outcome = self.sample(share, &output, row);
            self.commit(share, &outcome)?;
            row += share.rows();
            outcomes.push(outcome);
        }
        let timings = StepTimings {
            schedule_ns: scheduled_ns - begun_ns,
            forward_ns: output.forward_ns,
            sample_ns: self.clock.now_ns() - computed_ns,
        };
        self.report(&plan, &output, &outcomes, timings);
        self.output = output;
        let finished = self.retire(&plan, outcomes);
        self.next_step.0 += 1;
        Ok(finished)
    }

    /// **Schedule**: admits what there is room for, and gives every running sequence its share of the step.
    fn schedule(&mut self) -> Result<Plan, EngineError> {
        while let Some((waiting, holding)) = self.scheduler.admit(&mut self.state, self.config.context_length) {
            self.start(waiting, holding)?;
        }
        Ok(self.scheduler.plan(self.state.takes_snapshots()))
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

    /// **Mask and sample**: judges the share's rows in order, the first of which is row `first_row` of the output, until
    /// one rejects the draft after it, ends the sequence or turns out invalid.
    ///
    /// No grammar constrains a row yet: what masks it are the request's own bias and its `min_tokens`, in the sampler.
    /// Each token is taken into the sequence at once, because the next row's penalties count it.
    fn sample(&mut self, share: &Share, output: &StepOutput, first_row: usize) -> Outcome {
        let sequence = &mut self.scheduler.running_mut()[share.sequence];
        let mut outcome = Outcome::default();
        for (index, row) in (first_row..first_row + share.rows()).enumerate() {
            let logits = output.row(row).unwrap_or(&[]);
            let valid = match ValidRow::check(logits, &output.statistics[row]) {
                Ok(valid) => valid,
                Err(invalid) => return outcome.failed(EventKind::InvalidRow, invalid.to_string()),
            };
            let context = sequence.sample_context(self.tokenizer.end_tokens());
            let token = match self.sampler.sample(&valid, &context) {
                Ok(token) => token,
                Err(error) => return outcome.failed(EventKind::NothingToSample, error.to_string()),
            };
            if let Some(alternatives) = sequence.submission.sampling.logprobs {
                sequence.logprobs.extend(logprobs(&valid, token, alternatives));
            }
            outcome.emitted.push(token);
            outcome.stop = sequence.accept(token, &self.tokenizer);
            if outcome.stop.is_some() || share.drafts().get(index) != Some(&token) {
                break;
            }
        }
        outcome
    }

    /// **Commit**: moves the sequence past what it computed and accepted. A failed sequence commits nothing.
    fn commit(&mut self, share: &Share, outcome: &Outcome) -> Result<(), EngineError> {
        if outcome.failure.is_some() {
            return Ok(());
        }
        let sequence = &mut self.scheduler.running_mut()[share.sequence];
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
    fn report(&mut self, plan: &Plan, output: &StepOutput, outcomes: &[Outcome], timings: StepTimings) {
        let time_ns = self.clock.now_ns();
        let step = self.next_step;
        let running = self.scheduler.running_mut();
        let batch: Vec<SequenceId> = plan.shares.iter().map(|share| running[share.sequence].id).collect();
        let mut next_row = 0;
        for (slot, (share, outcome)) in plan.shares.iter().zip(outcomes).enumerate() {
            let sequence = &mut running[share.sequence];
            let cached_prefix = std::mem::take(&mut sequence.unreported_prefix);
            let row = |index| row_report(share, outcome, sequence, output, next_row + index, index);
            let rows: Vec<RowReport<'_>> = (0..share.rows()).map(row).collect();
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
                drafts: share.drafts(),
                prev_accepted: share.prev_accepted,
                state: plan.batch.entries[slot].state,
                cached_prefix,
                rows: &rows,
                emitted: &outcome.emitted,
                stop: outcome.stop.as_ref(),
                timings,
            });
            if let (Some(kind), Some(FinishReason::Failed(message))) = (outcome.failure, &outcome.stop) {
                self.tap.event(&EventReport { kind, time_ns, sequence: sequence.id, step, message });
            }
        }
    }
}

/// What the tap is told of row `index` of a share, which is row `row` of the output.
fn row_report<'a>(
    share: &Share,
    outcome: &Outcome,
    sequence: &'a Sequence,
    output: &'a StepOutput,
    row: usize,
    index: usize,
) -> RowReport<'a> {
    let token = outcome.emitted.get(index).copied();
    let logprobs_before = sequence.logprobs.len().saturating_sub(outcome.emitted.len());
    RowReport {
        position: Position((share.first_position.index() + share.rows_from + index) as u32),
        logits: output.row(row).unwrap_or(&[]),
        input: &output.inputs[row],
        statistics: &output.statistics[row],
        token,
        logprobs: token.and_then(|_| sequence.logprobs.get(logprobs_before + index)),
    }
}

impl Outcome {
    fn failed(mut self, kind: EventKind, message: String) -> Self {
        self.failure = Some(kind);
        self.stop = Some(FinishReason::Failed(message));
        self
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
