//! A sequence: one choice of one request, on its way through the engine.

use std::sync::Arc;

use crate::arith::ATTENTION_CHUNK;
use crate::backend::StateAccess;
use crate::engine::logprobs::TokenLogprobs;
use crate::engine::sampler::{SampleContext, TokenCounts};
use crate::engine::state::Holding;
use crate::engine::stop::StopChecker;
use crate::engine::{Owner, Submission};
use crate::model::{TextStream, Tokenizer};
use crate::types::{FinishReason, Position, SequenceId, TokenId};

/// A sequence that waits for pages, a state slot and a place in the batch.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Which choice of which request.
    pub id: SequenceId,
    /// Whose prefix-cache entries it uses.
    pub owner: Owner,
    /// Its request.
    pub submission: Arc<Submission>,
}

/// A sequence that runs.
pub struct Sequence {
    /// Which choice of which request.
    pub id: SequenceId,
    /// Whose prefix-cache entries it uses and adds to.
    pub owner: Owner,
    /// Its request.
    pub submission: Arc<Submission>,
    /// The prompt, then what was emitted.
    pub tokens: Vec<TokenId>,
    /// How many of [`Sequence::tokens`] the model has read: their keys, values and recurrent state are in place.
    pub computed: usize,
    /// Accepted length of the last step; 1 after prefill, `None` before.
    pub prev_accepted: Option<usize>,
    /// Its pages and state slot.
    pub holding: Holding,
    /// Positions that came from the prefix cache and that no step has reported yet.
    pub unreported_prefix: usize,
    /// Whether its pages may go into the prefix cache when it ends validly: not after its owner failed.
    pub publishable: bool,
    /// What the client is told of each emitted token; empty unless the request asks for it.
    pub logprobs: Vec<TokenLogprobs>,
    /// The tokens, as the penalties see them.
    counts: TokenCounts,
    /// What ends it.
    stop: StopChecker,
    /// Its text: whole characters out of tokens, ...
    stream: TextStream,
    /// ... as far as it is certain that no stop string takes it back.
    text: String,
}

/// A sequence that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedChoice {
    /// Which choice of which request.
    pub id: SequenceId,
    /// Why it ended.
    pub reason: FinishReason,
    /// The tokens it emitted.
    pub tokens: Vec<TokenId>,
    /// Their text, cut before a stop string.
    pub text: String,
    /// One entry per token, if the request asked for them.
    pub logprobs: Vec<TokenLogprobs>,
}

impl FinishedChoice {
    /// A choice that ended before it began.
    pub fn without_output(id: SequenceId, reason: FinishReason) -> Self {
        Self { id, reason, tokens: Vec::new(), text: String::new(), logprobs: Vec::new() }
    }
}

impl Sequence {
    /// A sequence that was admitted with `holding`.
    pub fn new(waiting: Waiting, holding: Holding, tokenizer: &Tokenizer, context_length: usize) -> Self {
        let Waiting { id, owner, submission } = waiting;
        let tokens = submission.prompt.tokens.clone();
        let computed = holding.cached_pages * ATTENTION_CHUNK;
        let room = context_length.saturating_sub(tokens.len()) as u32;
        Self {
            id,
            owner,
            computed,
            prev_accepted: None,
            holding,
            unreported_prefix: computed,
            publishable: true,
            logprobs: Vec::new(),
            counts: TokenCounts::of_prompt(&tokens),
            stop: StopChecker::new(&submission.sampling, tokenizer.end_tokens(), room),
            stream: TextStream::new(),
            text: String::new(),
            tokens,
            submission,
        }
    }

    /// Tokens of the prompt.
    pub fn prompt(&self) -> &[TokenId] {
        &self.submission.prompt.tokens
    }

    /// Tokens emitted so far.
    pub fn emitted(&self) -> &[TokenId] {
        &self.tokens[self.prompt().len()..]
    }

    /// Whether part of the prompt is still to be computed.
    pub fn is_prefilling(&self) -> bool {
        self.computed < self.prompt().len()
    }

    /// Position of the next token the model reads.
    pub fn next_position(&self) -> Position {
        Position(self.computed as u32)
    }

    /// What the row is sampled with that decides the next token.
    pub fn sample_context<'a>(&'a self, end_tokens: &'a [TokenId]) -> SampleContext<'a> {
        SampleContext {
            params: &self.submission.sampling,
            counts: &self.counts,
            emitted: self.emitted().len() as u32,
            end_tokens,
            position: Position(self.tokens.len() as u32),
            choice: self.id.choice,
        }
    }

    /// Takes the next token, and says whether it ends the sequence.
    pub fn accept(&mut self, token: TokenId, tokenizer: &Tokenizer) -> Option<FinishReason> {
        self.tokens.push(token);
        self.counts.push(token);
        let mut stream = self.stream.clone();
        let completed = stream.push(tokenizer, token);
        let progress = self.stop.push(token, &completed);
        self.text.push_str(&progress.text);
        match &progress.finish {
            None => self.stream = stream,
            // The token that ends the sequence is no part of its text.
            Some(FinishReason::EndToken(_) | FinishReason::StopToken(_)) => self.text += &self.stream.finish(),
            Some(FinishReason::StopString(_)) => {}
            Some(_) => self.text += &stream.finish(),
        }
        progress.finish
    }

    /// The tokens whose keys, values and state are in place.
    pub fn computed_tokens(&self) -> &[TokenId] {
        &self.tokens[..self.computed]
    }

    /// Takes the sequence apart at its end.
    pub fn finish(self, reason: FinishReason) -> (FinishedChoice, Holding) {
        let tokens = self.emitted().to_vec();
        let Self { id, text, logprobs, holding, .. } = self;
        (FinishedChoice { id, reason, tokens, text, logprobs }, holding)
    }

    /// Where the next step finds the recurrent state.
    ///
    /// The last step left its history at column 0 and shifted it by one column per token it computed, so that after
    /// accepting `a` of them the history begins at column `a - 1`. The bound is the state row, never this step's length.
    pub fn state_access(&self) -> Option<StateAccess> {
        let column = self.prev_accepted.map_or(0, |accepted| accepted - 1);
        self.holding.slot.map(|slot| StateAccess { slot, column })
    }
}
