//! Changes between two steps: a run that has come so far goes on under something else.
//!
//! What was computed stays as it is: tokens, keys and values, recurrent state, and how many tokens the last step accepted. So a
//! run that is changed parts from one that is not where the change makes the difference, and never before.

use std::sync::Arc;

use super::drafter::Drafter;
use super::faults;
use super::speculation::Speculation;
use super::{Engine, EngineError, Submission, Tap};
use crate::grammar::GrammarError;
use crate::types::{RequestId, SequenceId, TokenId};

impl<T: Tap> Engine<T> {
    /// Numbers requests from this one on, for a run that repeats one of many.
    pub fn number_from(mut self, first: RequestId) -> Self {
        self.next_request = first;
        self
    }

    /// Tokens that a sequence has emitted so far; `None` if it does not run.
    pub fn emitted(&self, sequence: SequenceId) -> Option<usize> {
        let running = self.scheduler.running().iter().find(|running| running.id == sequence)?;
        Some(running.emitted().len())
    }

    /// Speculates otherwise from the next step on.
    ///
    /// # Errors
    /// If the backend has no room for as many drafts.
    pub fn change_speculation(
        &mut self,
        drafter: Box<dyn Drafter>,
        speculation: Speculation,
    ) -> Result<(), EngineError> {
        let most = self.backend.capacity().drafts;
        if speculation.drafts > most {
            let expected = format!("at most {most}, which the backend has room for");
            return Err(EngineError::Setting { setting: "drafts", found: speculation.drafts, expected });
        }
        self.drafter = match self.faults.active() {
            Some(fault) => faults::drafter(fault, drafter, self.faults.switch()),
            None => drafter,
        };
        self.speculation = speculation;
        Ok(())
    }

    /// Goes on with a request as `submission` has it, which is of the same prompt and asks for no more tokens. A sequence keeps its
    /// grammar unless `changes_grammar`; or else that of the submission takes what was emitted so far.
    ///
    /// # Errors
    /// If the other grammar does not allow what was emitted, or its library fails.
    pub fn change_submission(
        &mut self,
        request: RequestId,
        submission: Submission,
        changes_grammar: bool,
    ) -> Result<(), GrammarError> {
        let submission = Arc::new(submission);
        if let Some(running) = self.requests.get_mut(&request) {
            running.submission = submission.clone();
        }
        let waiting = self.scheduler.waiting_mut().filter(|waiting| waiting.id.request == request);
        waiting.for_each(|waiting| waiting.submission = submission.clone());
        let running = self.scheduler.running_mut().iter_mut().filter(|running| running.id.request == request);
        for sequence in running {
            sequence.change(&submission, changes_grammar, self.tokenizer.end_tokens(), self.config.context_length)?;
        }
        Ok(())
    }

    /// Emits `token` for the next row of the sequence that is judged, whatever that row says.
    pub fn force(&mut self, sequence: SequenceId, token: TokenId) {
        self.forced.insert(sequence, token);
    }

    /// Ends the planted fault, if there is one; what it has done stays.
    pub fn end_fault(&mut self) {
        self.faults.end();
    }
}
