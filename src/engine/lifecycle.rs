//! How sequences begin, share and end: what happens to their pages, state and requests between steps.

use std::collections::BTreeMap;

use crate::arith::ATTENTION_CHUNK;
use crate::backend::{BackendError, StateAccess};
use crate::engine::scheduler::Plan;
use crate::engine::sequence::{FinishedChoice, Sequence, Waiting};
use crate::engine::state::{Holding, Visibility, snapshot_of};
use crate::engine::step::Outcome;
use crate::engine::tap::{FinishedReport, Tap};
use crate::engine::{Engine, EngineError, Owner, RunningRequest};
use crate::types::{ChoiceIndex, FinishReason, RequestId, SequenceId};

impl<T: Tap> Engine<T> {
    /// Ends a request that nobody waits for any more, and gives back what it held: its choices that had not ended. None for a
    /// request that has ended already.
    ///
    /// Nothing that it computed goes into the prefix cache, which takes what ended validly.
    pub fn cancel(&mut self, request: RequestId) -> Vec<FinishedChoice> {
        let Some(running) = self.requests.get_mut(&request) else { return Vec::new() };
        let mut not_begun = self.scheduler.take_waiting(request);
        not_begun.extend(running.release_held_back(request));
        self.state.forget(&Owner::Request(request));
        let mut ended = Vec::new();
        for mut sequence in self.scheduler.take_running(|sequence| sequence.id.request == request) {
            sequence.publishable = false;
            ended.push(self.end(sequence, FinishReason::Cancelled));
        }
        for waiting in not_begun {
            let choice = FinishedChoice::without_output(waiting.id, FinishReason::Cancelled);
            self.close(&choice);
            ended.push(choice);
        }
        ended
    }

    /// Makes an admitted sequence run, from the end of its cached prefix.
    pub(super) fn start(&mut self, waiting: Waiting, holding: Holding) -> Result<(), EngineError> {
        for snapshot in self.state.take_freed_snapshots() {
            self.backend.free_snapshot(snapshot).map_err(|source| self.backend_error(source))?;
        }
        if let (Some(snapshot), Some(slot)) = (holding.snapshot(), holding.slot) {
            self.backend.restore_state(snapshot, slot).map_err(|source| self.backend_error(source))?;
        }
        self.scheduler.start(Sequence::new(waiting, holding, &self.tokenizer, self.config.context_length));
        Ok(())
    }

    /// Once the first choice of a request has computed the prompt: offers its pages to the request's other choices, and
    /// lets them in line.
    pub(super) fn share_prompt(&mut self, sequence: usize) {
        let Sequence { id, holding, .. } = &self.scheduler.running()[sequence];
        let request = id.request;
        let Some(running) = self.requests.get_mut(&request).filter(|running| !running.held_back.is_empty()) else {
            return;
        };
        let prompt = self.scheduler.running()[sequence].prompt();
        self.state.share(prompt, holding, &Owner::Request(request), Visibility::Private);
        let choices = running.release_held_back(request);
        self.scheduler.enqueue_next(choices.into_iter());
    }

    /// When decoding has passed the end of a page: keeps the recurrent state there, as prefill does for its pages.
    ///
    /// The step shifted the history by one column per token, so it begins `tokens up to the page's end - 1` columns in.
    pub(super) fn save_page_end(&mut self, sequence: usize, computed_before: usize) -> Result<(), EngineError> {
        let Sequence { computed, holding, .. } = &self.scheduler.running()[sequence];
        let page = computed / ATTENTION_CHUNK;
        let page_end = page * ATTENTION_CHUNK;
        let (Some(slot), true) = (holding.slot, self.state.takes_snapshots() && page_end > computed_before) else {
            return Ok(());
        };
        let column = page_end - computed_before - 1;
        let snapshot = snapshot_of(holding.pages[page - 1]);
        self.backend.save_state(StateAccess { slot, column }, snapshot).map_err(|source| self.backend_error(source))
    }

    /// Ends the sequences that the step has ended, and with a failed one its whole request. Gives back what they held.
    pub(super) fn retire(&mut self, plan: &Plan, outcomes: Vec<Outcome>) -> Vec<FinishedChoice> {
        let ids: Vec<SequenceId> =
            plan.shares.iter().map(|share| self.scheduler.running()[share.sequence].id).collect();
        let mut ended: BTreeMap<SequenceId, FinishReason> =
            ids.into_iter().zip(outcomes).filter_map(|(id, outcome)| Some((id, outcome.stop?))).collect();
        let failed: Vec<(SequenceId, String)> = ended
            .iter()
            .filter_map(|(&id, reason)| match reason {
                FinishReason::Failed(message) => Some((id, message.clone())),
                _ => None,
            })
            .collect();
        let mut finished = Vec::new();
        for (id, message) in failed {
            finished.extend(self.fail(id, &message, &mut ended));
        }
        for sequence in self.scheduler.take_running(|sequence| ended.contains_key(&sequence.id)) {
            if let Some(reason) = ended.remove(&sequence.id) {
                finished.push(self.end(sequence, reason));
            }
        }
        finished
    }

    /// A sequence has failed: its request ends, and nothing that its owner computed is offered to anyone again.
    ///
    /// Returns the request's choices that had not begun; those that run are added to `ended`.
    fn fail(
        &mut self,
        failed: SequenceId,
        message: &str,
        ended: &mut BTreeMap<SequenceId, FinishReason>,
    ) -> Vec<FinishedChoice> {
        let Some(request) = self.requests.get_mut(&failed.request) else { return Vec::new() };
        let reason = FinishReason::Failed(format!("choice {} of the request failed: {message}", failed.choice));
        let owner = request.owner.clone();
        let mut not_begun = request.release_held_back(failed.request);
        not_begun.splice(0..0, self.scheduler.take_waiting(failed.request));
        self.state.condemn(&owner);
        self.state.forget(&Owner::Request(failed.request));
        for sequence in self.scheduler.running_mut().iter_mut().filter(|sequence| sequence.owner == owner) {
            sequence.publishable = false;
            if sequence.id.request == failed.request {
                ended.entry(sequence.id).or_insert_with(|| reason.clone());
            }
        }
        let end = |waiting: Waiting| {
            let choice = FinishedChoice::without_output(waiting.id, reason.clone());
            self.close(&choice);
            choice
        };
        not_begun.into_iter().map(end).collect()
    }

    /// Ends a running sequence; its pages go into the prefix cache after a valid finish, and only then.
    fn end(&mut self, sequence: Sequence, reason: FinishReason) -> FinishedChoice {
        if sequence.publishable {
            self.state.share(sequence.computed_tokens(), &sequence.holding, &sequence.owner, Visibility::Public);
        }
        let (choice, holding) = sequence.finish(reason, &self.tokenizer);
        let choice = FinishedChoice { calls: self.faults.called(choice.calls), ..choice };
        self.state.release(holding);
        self.drafter.forget(choice.id);
        self.faults.forget(choice.id);
        self.close(&choice);
        choice
    }

    /// Reports the end of a choice, and forgets its request with the last one.
    fn close(&mut self, choice: &FinishedChoice) {
        let FinishedChoice { id, reason, tokens, text, calls, .. } = choice;
        let (time_ns, calls) = (self.clock.now_ns(), calls.as_ref());
        self.tap.finished(&FinishedReport { sequence: *id, time_ns, reason, tokens, text, calls });
        let Some(request) = self.requests.get_mut(&id.request) else { return };
        request.unfinished -= 1;
        if request.unfinished == 0 {
            // What a session's request shared among its choices only, and did not publish.
            if matches!(request.owner, Owner::Session(_)) {
                self.state.forget(&Owner::Request(id.request));
            }
            self.requests.remove(&id.request);
        }
    }

    pub(super) fn backend_error(&self, source: BackendError) -> EngineError {
        EngineError::Backend { step: self.next_step, source }
    }
}

impl RunningRequest {
    /// One of the request's choices, ready to wait.
    pub(super) fn choice(&self, request: RequestId, choice: u32) -> Waiting {
        let id = SequenceId { request, choice: ChoiceIndex(choice) };
        Waiting { id, owner: self.owner.clone(), submission: self.submission.clone() }
    }

    /// The choices that waited for the first one to compute the prompt.
    fn release_held_back(&mut self, request: RequestId) -> Vec<Waiting> {
        let choices = std::mem::take(&mut self.held_back);
        choices.map(|choice| self.choice(request, choice)).collect()
    }
}
