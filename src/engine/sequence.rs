//! A sequence: one choice of one request, on its way through the engine.

use std::sync::Arc;

use crate::arith::ATTENTION_CHUNK;
use crate::backend::StateAccess;
use crate::engine::constraint::SequenceGrammar;
use crate::engine::drafter::DraftContext;
use crate::engine::logprobs::TokenLogprobs;
use crate::engine::sampler::{Draft, SampleContext, TokenCounts, VerifyRule};
use crate::engine::state::Holding;
use crate::engine::stop::{Progress, StopChecker};
use crate::engine::{Owner, Submission, Tooling};
use crate::grammar::{GrammarError, MaskRow};
use crate::model::{TextStream, Tokenizer};
use crate::tools::{self, Parsed, Spelled};
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
    /// What its output has to follow.
    pub grammar: Option<SequenceGrammar>,
    /// What the client is told of each emitted token; empty unless the request asks for it.
    pub logprobs: Vec<TokenLogprobs>,
    /// Tokens that it can emit in all, as `max_tokens` and the context have it.
    most_emitted: usize,
    /// The tokens, as the penalties see them.
    counts: TokenCounts,
    /// What ends it.
    stop: StopChecker,
    /// Its text: whole characters out of tokens, ...
    stream: TextStream,
    /// ... as far as it is certain that no stop string takes it back.
    text: String,
    /// Bytes of it that steps have reported.
    told: usize,
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
    /// What it calls; `None` for a request without tools, and for one that failed or was cancelled.
    pub calls: Option<Parsed>,
}

impl FinishedChoice {
    /// A choice that ended before it began.
    pub fn without_output(id: SequenceId, reason: FinishReason) -> Self {
        Self { id, reason, tokens: Vec::new(), text: String::new(), logprobs: Vec::new(), calls: None }
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
            grammar: submission.grammar.as_ref().map(SequenceGrammar::new),
            logprobs: Vec::new(),
            most_emitted: submission.sampling.max_tokens.min(room) as usize,
            counts: TokenCounts::of_prompt(&tokens),
            stop: StopChecker::new(&submission.sampling, tokenizer.end_tokens(), room),
            stream: TextStream::new(),
            text: String::new(),
            told: 0,
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

    /// Most drafts that can count in the next step: with one token more than drafts, it may just reach its end.
    pub fn draft_limit(&self) -> usize {
        self.most_emitted.saturating_sub(self.emitted().len() + 1)
    }

    /// The last committed token.
    ///
    /// # Panics
    /// If the sequence has none: a prompt without tokens is refused.
    pub fn last_token(&self) -> TokenId {
        self.tokens[self.tokens.len() - 1]
    }

    /// The tokens that its grammar forces next, at most `limit`.
    ///
    /// Of a grammar that fails nothing is known; it fails again where its rows are filled, and the request with it.
    pub fn forced(&mut self, limit: usize) -> Vec<TokenId> {
        let grammar = self.grammar.as_mut().filter(|_| limit > 0);
        grammar.and_then(|grammar| grammar.forced(limit).ok()).unwrap_or_default()
    }

    /// How many of the drafts its grammar accepts, one after the other; of one that fails, none (see
    /// [`Sequence::forced`]).
    pub fn legal_drafts(&mut self, drafts: &[Draft]) -> usize {
        let Some(grammar) = &mut self.grammar else { return drafts.len() };
        let tokens: Vec<TokenId> = drafts.iter().map(|draft| draft.token).collect();
        grammar.legal(&tokens).unwrap_or(0)
    }

    /// What a drafter is told of the sequence; `forced` are the tokens that its grammar forces next.
    pub fn draft_context<'a>(&'a self, rule: VerifyRule, forced: &'a [TokenId]) -> DraftContext<'a> {
        DraftContext {
            sequence: self.id,
            client_id: self.submission.received.client_id.as_deref(),
            tokens: &self.tokens,
            prompt: self.prompt().len(),
            params: &self.submission.sampling,
            tests_probabilities: rule == VerifyRule::Rejection,
            positions: self.prompt().len() + self.most_emitted,
            forced,
        }
    }

    /// What the row is sampled with that decides the next token, and that its grammar masks with `mask`.
    pub fn sample_context<'a>(&'a self, end_tokens: &'a [TokenId], mask: Option<&'a MaskRow>) -> SampleContext<'a> {
        SampleContext {
            params: &self.submission.sampling,
            counts: &self.counts,
            emitted: self.emitted().len() as u32,
            end_tokens,
            mask,
            position: Position(self.tokens.len() as u32),
            choice: self.id.choice,
        }
    }

    /// Takes the next token, and says whether it ends the sequence. `ends_grammar`: nothing can follow it in its grammar.
    pub fn accept(&mut self, token: TokenId, ends_grammar: bool, tokenizer: &Tokenizer) -> Option<FinishReason> {
        self.tokens.push(token);
        self.counts.push(token);
        let mut stream = self.stream.clone();
        let completed = stream.push(tokenizer, token);
        let mut progress = self.stop.push(token, &completed);
        if ends_grammar && progress.finish.is_none() {
            let held = self.stop.finish("", FinishReason::GrammarEnd);
            progress = Progress { text: progress.text + &held.text, ..held };
        }
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

    /// Goes on as `submission` has it: see [`Engine::change_submission`](super::Engine::change_submission).
    ///
    /// # Errors
    /// If another grammar does not allow what was emitted, or its library fails.
    pub fn change(
        &mut self,
        submission: &Arc<Submission>,
        changes_grammar: bool,
        end_tokens: &[TokenId],
        context_length: usize,
    ) -> Result<(), GrammarError> {
        if changes_grammar {
            let mut grammar = submission.grammar.as_ref().map(SequenceGrammar::new);
            if let Some(grammar) = &mut grammar {
                grammar.commit(self.emitted())?;
            }
            self.grammar = grammar;
        }
        let room = context_length.saturating_sub(self.prompt().len()) as u32;
        self.most_emitted = submission.sampling.max_tokens.min(room) as usize;
        self.stop.change(&submission.sampling, end_tokens);
        self.submission = submission.clone();
        Ok(())
    }

    /// The text that no step has reported yet.
    pub fn untold_text(&self) -> &str {
        self.text.get(self.told..).unwrap_or_default()
    }

    /// Counts all text as reported.
    pub fn tell_text(&mut self) {
        self.told = self.text.len();
    }

    /// The tokens whose keys, values and state are in place.
    pub fn computed_tokens(&self) -> &[TokenId] {
        &self.tokens[..self.computed]
    }

    /// Takes the sequence apart at its end.
    pub fn finish(self, reason: FinishReason, tokenizer: &Tokenizer) -> (FinishedChoice, Holding) {
        let tokens = self.emitted().to_vec();
        let calls = self.calls(&tokens, &reason, tokenizer);
        let Self { id, text, logprobs, holding, .. } = self;
        (FinishedChoice { id, reason, tokens, text, logprobs, calls }, holding)
    }

    /// What the output calls. Tags may be special tokens, which are no part of the text.
    fn calls(&self, tokens: &[TokenId], reason: &FinishReason, tokenizer: &Tokenizer) -> Option<Parsed> {
        let Tooling { tools, format } = self.submission.tools.as_ref()?;
        let ends_it = match reason {
            FinishReason::Failed(_) | FinishReason::Cancelled => return None,
            FinishReason::StopToken(_) => true,
            _ => tokens.last().is_some_and(|last| tokenizer.end_tokens().contains(last)),
        };
        let told = &tokens[..tokens.len().saturating_sub(usize::from(ends_it))];
        Some(tools::parse(&Spelled::new(told, *format, tokenizer), *format, &tools.tools))
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
